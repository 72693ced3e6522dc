/** The hovered or locked cell of a matrix: local, shared by the page, or stored in the address. */

import { batch, type ReadonlySignal, type Signal } from "@preact/signals";
import { hoverKey, hoverQuery, key, query } from "../../state/state";

/** Row and column. */
export type Cell = readonly [number, number];

/** A cell in a signal, or in something like it. */
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

/** The hovered and the locked query and key of the page. */
export const hoveredCell = cellSignal(hoverQuery, hoverKey);
export const lockedCell = cellSignal(query, key);

/** A cell in a text setting, "3.5"; empty: none. */
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

/** The focused cell: hovered first, else locked; clamped to the matrix. */
export function focusedCell(hover: ReadonlySignal<Cell | null> | CellSignal, lock: CellSignal, rows: number, columns: number): Cell | null {
  const cell = hover.value ?? lock.value;
  return cell && [Math.min(cell[0], rows - 1), Math.min(cell[1], columns - 1)];
}

/** Locks a cell, or unlocks it if it was locked. */
export function toggleCellLock(lock: CellSignal, cell: Cell | null): void {
  const before = lock.peek();
  lock.value = cell && before && cell[0] === before[0] && cell[1] === before[1] ? null : cell;
}

/** Sets the hovered cell if it has changed. */
export function hoverCell(focus: CellSignal, cell: Cell | null): void {
  const before = focus.peek();
  if (cell?.[0] !== before?.[0] || cell?.[1] !== before?.[1]) focus.value = cell;
}
