/** Numbers as text. */

/** A number as torch prints it, with a true minus sign. */
export function formatNumber(value: number, decimals = 4): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/** A change: with a sign, "+0.1200" or "−0.1200". */
export function formatChange(value: number, decimals = 4): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(decimals)}`;
}
