/** Tables as CSV (RFC 4180) that a spreadsheet opens in Hangul and never takes for formulas. */

export type Cell = string | number;

const BYTE_ORDER_MARK = "\u{FEFF}"; // spreadsheets read UTF-8 for it

export function csv(rows: readonly (readonly Cell[])[]): string {
  return BYTE_ORDER_MARK + rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

/** A number as it is; a text quoted where it must be, and led by ' where a spreadsheet would compute it. */
function cell(value: Cell): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
