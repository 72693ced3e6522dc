/** The geometry of a matrix: fitted into the available space, or zoomed and scrolled. */

import { textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import type { Label } from "../../trace/display";

export interface Frame {
  readonly rows: number;
  readonly columns: number;
  readonly cell: number; // pixels of a side
  readonly left: number; // of the plot
  readonly top: number;
  readonly width: number; // of the visible part of the matrix
  readonly height: number;
  readonly x: number; // column and row at the upper left corner of the plot, with fractions
  readonly y: number;
  readonly upright: boolean; // column labels are vertical
}

export interface Viewport {
  readonly zoom: number; // 1: fits
  readonly x: number;
  readonly y: number;
}

export interface AvailableSpace {
  readonly width: number;
  readonly height: number;
  readonly rowLabel: number; // width of the longest label
  readonly columnLabel: number;
}

export const CAPTION = 24; // height of the name of a head, where several heads are shown
export const TOTALS_SIZE = 34; // for the sums at the right and below
export const MIN_CELL_FOR_NUMBERS = 34; // minimum side of a cell that shows its number
const [MAX_FIT_CELL, MAX_CELL] = [110, 160];
const MAX_LABEL_WIDTH = 120;

/** The space of a panel with these labels. */
export function spaceOf(width: number, height: number, queries: readonly Label[], keys: readonly Label[]): AvailableSpace {
  const longest = (labels: readonly Label[]) => labels.reduce((max, { text }) => Math.max(max, textWidth(displayText(text), 12)), 20);
  return { width, height, rowLabel: longest(queries), columnLabel: longest(keys) };
}

export function frameOf(rows: number, columns: number, space: AvailableSpace, viewport: Viewport): Frame {
  const left = Math.min(space.rowLabel, MAX_LABEL_WIDTH) + 10;
  const upright = columns > 12 || space.columnLabel > 48;
  const top = upright ? Math.min(space.columnLabel, MAX_LABEL_WIDTH) + 10 : 22;
  const [plotWidth, plotHeight] = [Math.max(space.width - left - TOTALS_SIZE, 60), Math.max(space.height - top - TOTALS_SIZE, 60)];
  const fitSize = Math.min(plotWidth / columns, plotHeight / rows, MAX_FIT_CELL);
  const fit = fitSize >= 4 ? Math.floor(fitSize) : fitSize;
  const cell = Math.min(fit * Math.max(viewport.zoom, 1), Math.max(MAX_CELL, fit));
  const [width, height] = [Math.min(plotWidth, columns * cell), Math.min(plotHeight, rows * cell)];
  const within = (at: number, count: number, visible: number) => Math.max(0, Math.min(at, count - visible / cell));
  return {
    rows,
    columns,
    cell,
    left,
    top,
    width,
    height,
    x: within(viewport.x, columns, width),
    y: within(viewport.y, rows, height),
    upright,
  };
}

/** The cell at a point; null: outside the matrix. */
export function cellAt(frame: Frame, px: number, py: number): { readonly row: number; readonly column: number } | null {
  const { left, top, width, height, cell, x, y } = frame;
  if (px < left || py < top || px >= left + width || py >= top + height) return null;
  const [row, column] = [Math.floor((py - top) / cell + y), Math.floor((px - left) / cell + x)];
  return row < frame.rows && column < frame.columns ? { row, column } : null;
}

/** The upper left corner of a cell. */
export function cornerOf({ left, top, cell, x, y }: Frame, row: number, column: number): readonly [number, number] {
  return [left + (column - x) * cell, top + (row - y) * cell];
}

/** Rows or columns that are at least partly visible, [first, last). */
export function rangeOf(at: number, visible: number, cell: number, count: number): readonly [number, number] {
  return [Math.floor(at), Math.min(count, Math.ceil(at + visible / cell))];
}

/** Zooms by a factor around a point. */
export function zoomAt(frame: Frame, zoom: number, factor: number, px: number, py: number): Viewport {
  const next = Math.max(1, Math.min(zoom * factor, (MAX_CELL * zoom) / frame.cell));
  const across = Math.max(0, Math.min(px - frame.left, frame.width));
  const down = Math.max(0, Math.min(py - frame.top, frame.height));
  const cell = (frame.cell * next) / zoom;
  return { zoom: next, x: frame.x + across / frame.cell - across / cell, y: frame.y + down / frame.cell - down / cell };
}

/** Scrolls as little as necessary to show a cell. */
export function scrolledTo(frame: Frame, row: number, column: number): { readonly x: number; readonly y: number } {
  const scrollTo = (at: number, visible: number, cell: number) => Math.max(cell + 1 - visible, Math.min(at, cell));
  return {
    x: scrollTo(frame.x, frame.width / frame.cell, column),
    y: scrollTo(frame.y, frame.height / frame.cell, row),
  };
}
