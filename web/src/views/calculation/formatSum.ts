/** Sums as one writes them by hand: "0.31·0.22 + 0.10·(−0.05) + … = 2.8901". */

import { valueAt, type Numbers } from "./arithmetic";

const MAX_TERMS = 3; // terms written before the dots

/** A number as torch prints it, with a true minus sign; whole numbers without decimals where `decimals` is 0. */
export function formatNumber(value: number, decimals = 4): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** A difference: two digits and a power of ten. */
export function formatDifference(value: number): string {
  return value === 0 ? "0" : value.toExponential(1).replace(/-/g, "−");
}

/** A factor or a later term: in brackets where it is negative. */
export function formatFactor(value: number, decimals = 2): string {
  const text = formatNumber(value, decimals);
  return text.startsWith("−") ? `(${text})` : text;
}

/** Row `i` of a times column `j` of b, the first terms. */
export function formatDotProduct(a: Numbers, i: number, b: Numbers, j: number): string {
  const count = Math.min(MAX_TERMS, a.columns);
  const terms = Array.from({ length: count }, (_, k) => `${formatFactor(valueAt(a, i, k))}·${formatFactor(valueAt(b, k, j))}`);
  return terms.join(" + ") + (a.columns > MAX_TERMS ? ` + … (${a.columns})` : "");
}

/** Numbers added up. */
export function formatSum(...values: readonly number[]): string {
  return values.map((value, i) => (i ? formatFactor(value, 4) : formatNumber(value))).join(" + ");
}
