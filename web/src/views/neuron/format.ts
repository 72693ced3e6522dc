/** Number formats of the neuron view. */

import { formatNumber } from "../../draw/numbers";
import type { HeadParts } from "./recompute";

/** A number in a table: two decimals, four for weights. */
export function formatShort(value: number, decimals = 2): string {
  return formatNumber(value, decimals);
}

/** Seven digits, the precision of float32. */
export function formatFull(value: number): string {
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : String(value);
  return value.toPrecision(7).replace("-", "−");
}

/** "÷ √64", or "× 0.2" if the scale is not 1/√d_head; "÷ √64, tanh 50" with a soft cap. */
export function scaleText({ scale, softcap, q: { columns: width } }: HeadParts): string {
  const cap = softcap ? `, tanh ${Number(softcap.toPrecision(4))}` : "";
  if (scale === 1) return `× 1${cap}`;
  return (Math.abs(scale * Math.sqrt(width) - 1) < 1e-6 ? `÷ √${width}` : `× ${Number(scale.toPrecision(4))}`) + cap;
}
