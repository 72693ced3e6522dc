/** The matrix of the current step for export, as a picture and as a table. */

import { css } from "../../draw/colours";
import { element, HATCHING, hatchedCells, label, type Markup, matrixCells, PRINT_COLOURS, rect, svgDocument, textWidth } from "../../draw/svg";
import { rampStep } from "../../draw/paint";
import { setting } from "../../state/settings";
import { focusedHead, step as stepNumber } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import { type Numbers, valueAt } from "./arithmetic";
import { bugEffect, BUGS } from "./bugs";
import { LayerData } from "./layerData";
import { titleOf } from "./lesson";
import { formatNumber } from "../../draw/numbers";
import { cellBackground, type ColourScale, colourScale } from "./paint";
import { focusedCell, lockedCell } from "./cellFocus";
import { type StepMatrix, steps } from "./steps";

interface NamedMatrix {
  readonly title: Message;
  readonly name: string;
  readonly numbers: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[] | undefined;
  readonly text?: StepMatrix["text"];
}

type LabelledMatrix = Pick<NamedMatrix, "numbers" | "rows" | "columns">;

/** The displayed matrix: of a step, or of a bug. */
async function displayedMatrix(trace: Trace): Promise<NamedMatrix | null> {
  const at = focusedHead.value;
  const bug = BUGS.find(({ id }) => id === setting<string>("calculation", "bug", "").value);
  const found = bug && (await bugEffect(trace, at, bug.id));
  if (bug && found) return { title: bug.title, name: "", numbers: found.after, rows: found.rows, columns: found.columns };
  const all = steps(trace, at);
  const step = all[Math.min(stepNumber.value, all.length - 1)];
  const matrices = await step.load();
  const matrix = matrices[Math.min(setting<number>("calculation", "part", 0).value, matrices.length - 1)];
  return matrix ? { ...matrix, title: titleOf(step.id, new LayerData(trace, at)) } : null;
}

/** How a picture is coloured; the default is that of the page. */
export interface PictureOptions {
  readonly scale?: ColourScale;
  readonly hidden?: (index: number) => boolean; // masked: hatched
}

interface Picture {
  readonly width: number;
  readonly height: number;
  readonly content: Markup;
}

/** A labelled heatmap with the range of its colours; at most `widest` pixels of cells. */
function picture(title: string, { numbers, rows, columns }: LabelledMatrix, { scale, hidden }: PictureOptions, widest: number): Picture {
  const size = Math.max(2, Math.min(22, widest / Math.max(numbers.columns, numbers.rows)));
  const named = size >= 9;
  const left = named ? Math.max(0, ...rows.map((name) => textWidth(name, 11))) + 12 : 8;
  const top = 34 + (named && columns ? Math.max(0, ...columns.map((name) => textWidth(name, 11))) + 6 : 0);
  const { ramp, tone } = scale ?? colourScale(numbers, "light");
  const shown = Array.from(numbers.data, (value, i) => (hidden?.(i) ? Number.NaN : value));
  const colour = (value: number) => (Number.isFinite(value) ? css(ramp, rampStep(tone(value))) : PRINT_COLOURS.ground);
  const bottom = top + size * numbers.rows;
  return {
    width: Math.max(left + size * numbers.columns + 8, textWidth(title, 13) * 1.2 + 16),
    height: bottom + 26,
    content: element(
      "g",
      {},
      label(8, 20, title, { size: 13, bold: true }),
      named && rows.map((name, r) => label(left - 6, top + size * (r + 0.5) + 4, name, { size: 11, anchor: "end" })),
      named && columns?.map((name, c) => label(left + size * (c + 0.5) + 4, top - 6, name, { size: 11, turn: -90 })),
      matrixCells({ rows: numbers.rows, columns: numbers.columns, data: Float32Array.from(shown) }, left, top, size, colour),
      hatchedCells(numbers, (i) => !Number.isFinite(shown[i]), left, top, size),
      rect(left, top, size * numbers.columns, size * numbers.rows, "none", { stroke: PRINT_COLOURS.line }),
      legend(numbers, colour, left, bottom + 8),
    ),
  };
}

/** The smallest and the largest finite number with their colours. */
function legend({ data }: Numbers, colour: (value: number) => string, x: number, y: number): readonly Markup[] {
  const finite = Array.from(data).filter((value) => Number.isFinite(value));
  if (finite.length === 0) return [];
  const [min, max] = finite.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
  return [...new Set([min, max])].flatMap((value, i) => [
    rect(x + 84 * i, y, 12, 12, colour(value), { stroke: PRINT_COLOURS.line }),
    label(x + 84 * i + 17, y + 10, formatNumber(value, Number.isInteger(value) ? 0 : 4), { size: 11, fill: PRINT_COLOURS.faint }),
  ]);
}

/** A labelled heatmap as SVG. */
export function matrixSvg(title: string, matrix: LabelledMatrix, options: PictureOptions = {}): string {
  const { width, height, content } = picture(title, matrix, options, 900);
  return svgDocument(width, height, title, HATCHING, content);
}

/** Several heatmaps in rows of three. */
export function matricesSvg(title: string, all: readonly (LabelledMatrix & PictureOptions & { readonly name: string })[]): string {
  const pictures = all.map(({ name, scale, hidden, ...matrix }) => picture(name, matrix, { ...(scale ? { scale } : {}), ...(hidden ? { hidden } : {}) }, 240));
  const [width, height] = [Math.max(...pictures.map((one) => one.width)), Math.max(...pictures.map((one) => one.height))];
  const place = (i: number) => `translate(${(i % 3) * (width + 12)} ${Math.floor(i / 3) * (height + 12)})`;
  return svgDocument(3 * (width + 12), Math.ceil(all.length / 3) * (height + 12), title, HATCHING, pictures.map(({ content }, i) => element("g", { transform: place(i) }, content)));
}

const [ROW, HEADER, MAX_GRID] = [22, 76, 24 * 64]; // the grid of numbers of the page; a larger matrix is a heatmap

/** The numbers on their colours, as on the page. */
function gridSvg({ title, name, numbers, rows, columns, text }: NamedMatrix): string {
  const colours = text ? null : colourScale(numbers, "light");
  const names = Array.from({ length: numbers.columns }, (_, c) => columns?.[c] ?? String(c));
  const written = Array.from(numbers.data, (value, i) => text?.(Math.floor(i / numbers.columns), i % numbers.columns) ?? formatNumber(value));
  const left = Math.max(HEADER, textWidth(name, 12) + 12, ...rows.map((row) => textWidth(row, 13) + 12));
  const wide = Math.max(...[...written, ...names].map((each) => textWidth(each, 12) + 10));
  const top = 32;
  const [right, bottom] = [left + numbers.columns * wide, top + (numbers.rows + 1) * ROW];
  const locked = focusedCell(lockedCell, lockedCell, numbers.rows, numbers.columns);
  const frame = { stroke: PRINT_COLOURS.focus, "stroke-width": 1.5 };
  return svgDocument(
    Math.max(right, textWidth(t(title), 17) * 1.2) + 2,
    bottom + 2,
    t(title),
    HATCHING,
    label(6, 20, t(title), { size: 17, bold: true }),
    label(6, top + 16, name, { fill: PRINT_COLOURS.faint }),
    names.map((each, c) => label(left + (c + 0.5) * wide, top + 16, each, { anchor: "middle", fill: PRINT_COLOURS.faint })),
    rows.map((row, r) => label(6, top + (r + 1) * ROW + 16, row, { size: 13 })),
    written.map((each, i) => {
      const [x, y] = [left + (i % numbers.columns) * wide, top + (1 + Math.floor(i / numbers.columns)) * ROW];
      const value = numbers.data[i];
      return [colours && rect(x, y, wide, ROW, Number.isFinite(value) ? cellBackground(colours, value) : "url(#hidden)"), label(x + wide - 5, y + 16, each, { anchor: "end", fill: Number.isFinite(value) ? PRINT_COLOURS.ink : PRINT_COLOURS.faint })];
    }),
    columns && locked && [rect(0, top + (locked[0] + 1) * ROW, right, ROW, "none", frame), rect(left + locked[1] * wide, top, wide, bottom - top, "none", frame)],
    rect(0.5, top, right, bottom - top, "none", { stroke: PRINT_COLOURS.line }),
  );
}

export async function svg(trace: Trace): Promise<string> {
  const found = await displayedMatrix(trace);
  if (!found) return svgDocument(1, 1, "");
  return found.numbers.data.length <= MAX_GRID ? gridSvg(found) : matrixSvg(t(found.title), found);
}

export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const found = await displayedMatrix(trace);
  return found ? matrixTable(found) : [];
}

/** A labelled matrix as table rows. */
export function matrixTable({ numbers, rows, columns }: LabelledMatrix): readonly (readonly (string | number)[])[] {
  const across = Array.from({ length: numbers.columns }, (_, c) => columns?.[c] ?? c);
  return [
    ["", ...across],
    ...Array.from({ length: numbers.rows }, (_, r) => [
      rows[r] ?? r,
      ...Array.from({ length: numbers.columns }, (_, c) => valueAt(numbers, r, c)),
    ]),
  ];
}
