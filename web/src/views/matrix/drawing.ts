/** The drawing of a matrix, on a canvas or as SVG: cells, mask, numbers, labels, totals; and the focus on top. */

import { css, type Ramp } from "../../draw/colours";
import { hatch, rampStep, type Tone } from "../../draw/paint";
import type { Palette } from "../../draw/palette";
import type { Context } from "../../draw/svgContext";
import { displayText } from "../../draw/text";
import type { DisplayedWeights, Label } from "../../trace/display";
import { cornerOf, type Frame, MIN_CELL_FOR_NUMBERS, rangeOf, TOTALS_SIZE } from "./frame";

type G = Context;
type Colours = Omit<Palette, "good" | "pad" | "raised">;

export interface AxisLabels {
  readonly queries: readonly Label[];
  readonly keys: readonly Label[];
}

export interface Drawn {
  readonly frame: Frame;
  readonly names: AxisLabels;
  readonly weights: DisplayedWeights | null; // null: not loaded yet
  readonly totals: Totals | null;
  readonly tone: Tone;
  readonly ramp: Ramp;
  readonly dim: boolean; // special tokens are faded
}

/** All except the focus; `cells` draws the weights as colours. */
export function drawMatrix<Drawer extends G>(g: Drawer, { frame, names, weights, totals, tone, ramp, dim }: Drawn, colours: Colours, cells: (g: Drawer) => void): void {
  g.fillStyle = colours.paper;
  g.fillRect(frame.left, frame.top, frame.width, frame.height);
  cells(g);
  if (weights) {
    drawNumbers(g, weights, frame, tone, ramp, colours);
    drawHidden(g, weights, frame, colours, dim);
  }
  if (totals) drawTotals(g, totals, frame, colours);
  drawLabels(g, names, frame, colours);
  g.strokeStyle = colours.line;
  g.lineWidth = 1;
  g.strokeRect(frame.left - 0.5, frame.top - 0.5, frame.width + 1, frame.height + 1);
}

/** Draws the visible part of an image with one pixel per cell or tile. */
export function drawCells(g: CanvasRenderingContext2D, image: HTMLCanvasElement, frame: Frame): void {
  const [down, across] = [image.height / frame.rows, image.width / frame.columns];
  const { left, top, width, height, cell, x, y } = frame;
  g.imageSmoothingEnabled = false;
  g.drawImage(image, x * across, y * down, (width / cell) * across, (height / cell) * down, left, top, width, height);
}

/** Clips to the plot until `g.restore()`; the first and last visible row and column. */
function clipToPlot(g: G, { left, top, width, height, cell, x, y, rows, columns }: Frame) {
  g.save();
  g.beginPath();
  g.rect(left, top, width, height);
  g.clip();
  return [...rangeOf(y, height, cell, rows), ...rangeOf(x, width, cell, columns)] as const;
}

/** Hatches masked cells and fades special tokens. */
function drawHidden(g: G, weights: DisplayedWeights, frame: Frame, colours: Colours, dim: boolean): void {
  const { left, top, width, height, cell } = frame;
  const [firstRow, lastRow, first, last] = clipToPlot(g, frame);
  if (dim) {
    g.globalAlpha = 0.65;
    g.fillStyle = colours.paper;
    for (let row = firstRow; row < lastRow; row++)
      if (weights.queries[row].special) g.fillRect(left, cornerOf(frame, row, 0)[1], width, cell);
    for (let column = first; column < last; column++)
      if (weights.keys[column].special) g.fillRect(cornerOf(frame, 0, column)[0], top, cell, height);
    g.globalAlpha = 1;
  }
  let hasHidden = false;
  g.beginPath();
  for (let row = firstRow; row < lastRow; row++)
    for (let from = first, to = first; from < last; from = to + 1) {
      while (from < last && weights.allowed[row * frame.columns + from]) from++;
      to = from;
      while (to < last && !weights.allowed[row * frame.columns + to]) to++;
      if (to === from) continue;
      const [x, y] = cornerOf(frame, row, from);
      g.rect(x, y, (to - from) * cell, cell);
      hasHidden = true;
    }
  if (hasHidden) {
    g.clip();
    hatch(g, left, top, width, height, colours.hidden);
  }
  g.restore();
}

/** The number of each cell, if cells are large enough. */
function drawNumbers(g: G, weights: DisplayedWeights, frame: Frame, tone: Tone, ramp: Ramp, colours: Colours): void {
  if (frame.cell < MIN_CELL_FOR_NUMBERS) return;
  const { cell } = frame;
  const [firstRow, lastRow, first, last] = clipToPlot(g, frame);
  g.font = `${cell < 48 ? 11 : 13}px ${colours.mono}`;
  g.textAlign = "center";
  g.textBaseline = "middle";
  for (let row = firstRow; row < lastRow; row++)
    for (let column = first; column < last; column++) {
      const at = row * frame.columns + column;
      if (!weights.allowed[at]) continue;
      const value = weights.matrix.data[at];
      const [x, y] = cornerOf(frame, row, column);
      g.fillStyle = contrastingColour(ramp, rampStep(tone(value)));
      g.fillText(cellText(value, cell), x + cell / 2, y + cell / 2);
    }
  g.restore();
}

/** The end of the ramp with the higher contrast to one of its steps. */
export function contrastingColour(ramp: Ramp, step: number): string {
  const light = (step: number) => {
    const [r, g, b] = ramp.subarray(3 * step, 3 * step + 3);
    return 0.2126 * (r / 255) ** 2.2 + 0.7152 * (g / 255) ** 2.2 + 0.0722 * (b / 255) ** 2.2 + 0.05;
  };
  const contrast = (end: number) => Math.max(light(end) / light(step), light(step) / light(end));
  return css(ramp, contrast(0) > contrast(255) ? 0 : 255);
}

/** As many digits as fit into a cell: .41, .413 */
export function cellText(value: number, cell: number): string {
  const text = value.toFixed(cell < 56 ? 2 : 3).replace(/^0\./, ".");
  return value > 0 && !/[1-9]/.test(text) ? "·" : text;
}

const FONT = 12;

/** Labels of rows and columns, as many as fit; `row` and `column` are always labelled. */
function drawLabels(g: G, names: AxisLabels, frame: Frame, colours: Colours, row = -1, column = -1): void {
  const { left, top, width, height, cell } = frame;
  const [firstRow, lastRow] = rangeOf(frame.y, height, cell, frame.rows);
  const [first, last] = rangeOf(frame.x, width, cell, frame.columns);
  const every = Math.max(1, Math.ceil((FONT + 1) / cell));
  g.textBaseline = "middle";
  const write = (label: Label, x: number, y: number, maxWidth: number, strong: boolean) => {
    g.font = `${label.special ? "italic " : ""}${strong ? "bold " : ""}${FONT}px ${colours.font}`;
    g.fillStyle = strong ? colours.focus : label.special ? colours.soft : colours.ink;
    g.fillText(fitText(g, displayText(label.text), maxWidth), x, y);
  };
  g.textAlign = "right";
  for (let i = firstRow; i < lastRow; i++) {
    const y = top + (i + 0.5 - frame.y) * cell;
    if ((i % every && i !== row) || (i !== row && Math.abs(i - row) < every && row >= 0) || y < top || y > top + height)
      continue;
    write(names.queries[i], left - 6, y, left - 8, i === row);
  }
  for (let i = first; i < last; i++) {
    const x = left + (i + 0.5 - frame.x) * cell;
    if (
      (i % every && i !== column) ||
      (i !== column && Math.abs(i - column) < every && column >= 0) ||
      x < left ||
      x > left + width
    )
      continue;
    if (frame.upright) {
      g.save();
      g.translate(x, top - 8);
      g.rotate(-Math.PI / 2);
      g.textAlign = "left";
      write(names.keys[i], 0, 0, top - 8, i === column);
      g.restore();
    } else {
      g.textAlign = "center";
      write(names.keys[i], x, top - 11, cell + 4, i === column);
    }
  }
}

function fitText(g: G, text: string, maxWidth: number): string {
  if (g.measureText(text).width <= maxWidth) return text;
  const letters = [...text];
  while (letters.length > 1 && g.measureText(`${letters.join("")}…`).width > maxWidth) letters.pop();
  return `${letters.join("")}…`;
}

/** The sum of each column below, and of each row at the right unless all are 1, as bars relative to the maximum. */
function drawTotals(g: G, totals: Totals, frame: Frame, colours: Colours): void {
  const { left, top, width, height, cell } = frame;
  const barLength = TOTALS_SIZE - 10;
  const barWidth = Math.max(cell - 1, Math.min(cell, 1));
  g.fillStyle = colours.edge;
  const [first, last] = rangeOf(frame.x, width, cell, frame.columns);
  for (let i = first; i < last; i++) {
    const x = left + (i - frame.x) * cell;
    const from = Math.max(x, left);
    g.fillRect(
      from,
      top + height + 4,
      Math.min(x + barWidth, left + width) - from,
      (barLength * totals.columnSums[i]) / totals.maxColumnSum,
    );
  }
  const [firstRow, lastRow] = totals.allRowsEqual ? [0, 0] : rangeOf(frame.y, height, cell, frame.rows);
  for (let i = firstRow; i < lastRow; i++) {
    const y = top + (i - frame.y) * cell;
    const from = Math.max(y, top);
    g.fillRect(
      left + width + 4,
      from,
      (barLength * totals.rowSums[i]) / totals.maxRowSum,
      Math.min(y + barWidth, top + height) - from,
    );
  }
  g.fillStyle = colours.soft;
  g.font = `${FONT}px ${colours.font}`;
  g.textAlign = "left";
  g.textBaseline = "middle";
  g.fillText("Σ", left + width + 6, top + height + 12);
}

export interface Totals {
  readonly columnSums: Float32Array; // by key
  readonly rowSums: Float32Array; // by query
  readonly maxColumnSum: number;
  readonly maxRowSum: number;
  readonly allRowsEqual: boolean; // all rows sum to 1 or 0
}

export function computeTotals({ matrix: { rows, columns, data } }: Pick<DisplayedWeights, "matrix">): Totals {
  const columnSums = new Float32Array(columns);
  const rowSums = new Float32Array(rows);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) {
      columnSums[column] += data[row * columns + column];
      rowSums[row] += data[row * columns + column];
    }
  const max = (totals: Float32Array) => totals.reduce((a, b) => Math.max(a, b), 0) || 1;
  const allRowsEqual = rowSums.every((sum) => sum === 0 || Math.abs(sum - 1) < 1e-2);
  return { columnSums, rowSums, maxColumnSum: max(columnSums), maxRowSum: max(rowSums), allRowsEqual };
}

/** Frames of a row, a column and their cell: thin if hovered, thick with handles if locked. */
export function drawFocus(g: G, frame: Frame, row: number, column: number, locked: boolean, colours: Colours): void {
  const { left, top, width, height, cell } = frame;
  const [x, y] = cornerOf(frame, row, column);
  g.save();
  g.strokeStyle = colours.focus;
  g.fillStyle = colours.focus;
  g.lineWidth = locked ? 2.5 : 1;
  g.beginPath();
  g.rect(left - 7, top - 7, width + 14, height + 14);
  g.clip();
  const seenRow = row >= 0 && y + cell > top && y < top + height;
  const seenColumn = column >= 0 && x + cell > left && x < left + width;
  g.globalAlpha = locked ? 1 : 0.75;
  if (seenRow) g.strokeRect(left, y, width, cell);
  if (seenColumn) g.strokeRect(x, top, cell, height);
  g.globalAlpha = 1;
  if (seenRow && seenColumn) {
    g.lineWidth = locked ? 3.5 : 2;
    g.strokeRect(x, y, cell, cell);
  }
  if (locked && seenRow) g.fillRect(left - 6, y + cell / 2 - 4, 5, 8);
  if (locked && seenColumn) g.fillRect(x + cell / 2 - 4, top - 6, 8, 5);
  g.restore();
}
