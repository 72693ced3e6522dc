/** Formats sums as in a textbook: "0.31·0.22 + 0.10·(−0.05) + … = 2.8901". */

import { formatNumber } from "../../draw/numbers";
import { type Numbers, valueAt } from "./arithmetic";

const MAX_TERMS = 3; // terms before the ellipsis

/** A difference in scientific notation with two digits. */
export function formatDifference(value: number): string {
  return value === 0 ? "0" : value.toExponential(1).replace(/-/g, "−");
}

/** A factor or a later term: in parentheses if it is negative. */
export function formatFactor(value: number, decimals = 2): string {
  const text = formatNumber(value, decimals);
  return text.startsWith("−") ? `(${text})` : text;
}

/** The first terms of row `i` of a times column `j` of b. */
export function formatDotProduct(a: Numbers, i: number, b: Numbers, j: number): string {
  const count = Math.min(MAX_TERMS, a.columns);
  const terms = Array.from({ length: count }, (_, k) => `${formatFactor(valueAt(a, i, k))}·${formatFactor(valueAt(b, k, j))}`);
  return terms.join(" + ") + (a.columns > MAX_TERMS ? ` + … (${a.columns})` : "");
}

/** A sum of numbers. */
export function formatSum(...values: readonly number[]): string {
  return values.map((value, i) => (i ? formatFactor(value, 4) : formatNumber(value))).join(" + ");
}
