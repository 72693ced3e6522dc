/** The matrix of the current step for export, as a picture and as a table. */

import { css } from "../../draw/colours";
import { element, label, type Markup, matrixCells, PRINT_COLOURS, rect, svgDocument, textWidth } from "../../draw/svg";
import { rampStep } from "../../draw/paint";
import { setting } from "../../state/settings";
import { focusedHead, step as stepNumber } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import { type Numbers, valueAt } from "./arithmetic";
import { bugEffect, BUGS } from "./bugs";
import { LayerData } from "./layerData";
import { titleOf } from "./lesson";
import { formatNumber } from "./formatSum";
import { type ColourScale, colourScale } from "./paint";
import { steps } from "./steps";

interface NamedMatrix {
  readonly title: Message;
  readonly numbers: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[] | undefined;
}

/** The displayed matrix: of a step, or of a bug. */
async function displayedMatrix(trace: Trace): Promise<NamedMatrix | null> {
  const at = focusedHead.value;
  const bug = BUGS.find(({ id }) => id === setting<string>("calculation", "bug", "").value);
  const found = bug && (await bugEffect(trace, at, bug.id));
  if (bug && found) return { title: bug.title, numbers: found.after, rows: found.rows, columns: found.columns };
  const all = steps(trace, at);
  const step = all[Math.min(stepNumber.value, all.length - 1)];
  const matrices = await step.load();
  const matrix = matrices[Math.min(setting<number>("calculation", "part", 0).value, matrices.length - 1)];
  return matrix ? { ...matrix, title: titleOf(step.id, new LayerData(trace, at)) } : null;
}

/** How a picture is coloured; the default is that of the page. */
export interface PictureOptions {
  readonly scale?: ColourScale;
  readonly hidden?: (index: number) => boolean; // masked: grey
}

interface Picture {
  readonly width: number;
  readonly height: number;
  readonly content: Markup;
}

/** A labelled heatmap with the range of its colours; at most `widest` pixels of cells. */
function picture(title: string, { numbers, rows, columns }: Omit<NamedMatrix, "title">, { scale, hidden }: PictureOptions, widest: number): Picture {
  const size = Math.max(2, Math.min(22, widest / Math.max(numbers.columns, numbers.rows)));
  const named = size >= 9;
  const left = named ? Math.max(0, ...rows.map((name) => textWidth(name, 11))) + 12 : 8;
  const top = 34 + (named && columns ? Math.max(0, ...columns.map((name) => textWidth(name, 11))) + 6 : 0);
  const { ramp, tone } = scale ?? colourScale(numbers, "light");
  const shown = Array.from(numbers.data, (value, i) => (hidden?.(i) ? Number.NaN : value));
  const colour = (value: number) => (Number.isFinite(value) ? css(ramp, rampStep(tone(value))) : PRINT_COLOURS.line);
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
export function matrixSvg(title: string, matrix: Omit<NamedMatrix, "title">, options: PictureOptions = {}): string {
  const { width, height, content } = picture(title, matrix, options, 900);
  return svgDocument(width, height, title, content);
}

/** Several heatmaps in rows of three. */
export function matricesSvg(title: string, all: readonly (Omit<NamedMatrix, "title"> & PictureOptions & { readonly name: string })[]): string {
  const pictures = all.map(({ name, scale, hidden, ...matrix }) => picture(name, matrix, { ...(scale ? { scale } : {}), ...(hidden ? { hidden } : {}) }, 240));
  const [width, height] = [Math.max(...pictures.map((one) => one.width)), Math.max(...pictures.map((one) => one.height))];
  const place = (i: number) => `translate(${(i % 3) * (width + 12)} ${Math.floor(i / 3) * (height + 12)})`;
  return svgDocument(3 * (width + 12), Math.ceil(all.length / 3) * (height + 12), title, pictures.map(({ content }, i) => element("g", { transform: place(i) }, content)));
}

export async function svg(trace: Trace): Promise<string> {
  const found = await displayedMatrix(trace);
  return found ? matrixSvg(t(found.title), found) : svgDocument(1, 1, "");
}

export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const found = await displayedMatrix(trace);
  return found ? matrixTable(found) : [];
}

/** A labelled matrix as table rows. */
export function matrixTable({ numbers, rows, columns }: Omit<NamedMatrix, "title">): readonly (readonly (string | number)[])[] {
  const across = Array.from({ length: numbers.columns }, (_, c) => columns?.[c] ?? c);
  return [
    ["", ...across],
    ...Array.from({ length: numbers.rows }, (_, r) => [
      rows[r] ?? r,
      ...Array.from({ length: numbers.columns }, (_, c) => valueAt(numbers, r, c)),
    ]),
  ];
}
