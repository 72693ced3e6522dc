/** A cell that is pointed at or locked: of a picture alone, of the whole page, or in the address. */

import { batch, type ReadonlySignal, type Signal } from "@preact/signals";
import { hoverKey, hoverQuery, key, query } from "../../state/state";

/** Row and column. */
export type Cell = readonly [number, number];

/** Where a cell is kept; a signal is one. */
export interface CellSignal {
  value: Cell | null;
  peek(): Cell | null;
}

function cellSignal(row: Signal<number | null>, column: Signal<number | null>): CellSignal {
  const parse = (r: number | null, c: number | null): Cell | null => (r === null || c === null ? null : [r, c]);
  return {
    get value() {
      return parse(row.value, column.value);
    },
    set value(cell) {
      batch(() => {
        row.value = cell && cell[0];
        column.value = cell && cell[1];
      });
    },
    peek: () => parse(row.peek(), column.peek()),
  };
}

/** Query and key under the pointer, and those locked, as the whole page knows them. */
export const hoveredCell = cellSignal(hoverQuery, hoverKey);
export const lockedCell = cellSignal(query, key);

/** A cell as a setting keeps it, "3.5"; empty: none. */
export function cellSetting(text: Signal<string>): CellSignal {
  const parse = (text: string): Cell | null => {
    const [r, c] = text.split(".").map(Number);
    return r >= 0 && c >= 0 ? [r, c] : null;
  };
  return {
    get value() {
      return parse(text.value);
    },
    set value(cell) {
      text.value = cell ? cell.join(".") : "";
    },
    peek: () => parse(text.peek()),
  };
}

/** The cell in focus: hovered first, else locked; within the table. */
export function focusedCell(hover: ReadonlySignal<Cell | null> | CellSignal, lock: CellSignal, rows: number, columns: number): Cell | null {
  const cell = hover.value ?? lock.value;
  return cell && [Math.min(cell[0], rows - 1), Math.min(cell[1], columns - 1)];
}

/** Locks a cell, or frees it when it was locked. */
export function toggleCellLock(lock: CellSignal, cell: Cell | null): void {
  const before = lock.peek();
  lock.value = cell && before && cell[0] === before[0] && cell[1] === before[1] ? null : cell;
}

/** Says that the pointer is over a cell, unless that is known. */
export function hoverCell(spot: CellSignal, cell: Cell | null): void {
  const before = spot.peek();
  if (cell?.[0] !== before?.[0] || cell?.[1] !== before?.[1]) spot.value = cell;
}
