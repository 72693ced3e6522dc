/** Tables as CSV (RFC 4180) that spreadsheets open with Hangul intact and without formula injection. */

export type Cell = string | number;

const BYTE_ORDER_MARK = "\u{FEFF}"; // lets spreadsheets detect UTF-8

export function csv(rows: readonly (readonly Cell[])[]): string {
  return BYTE_ORDER_MARK + rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

/** A number as it is; a text quoted where necessary, with a leading ' where a spreadsheet would read a formula. */
function cell(value: Cell): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
