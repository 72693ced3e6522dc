/** The matrix of the current step for export, as a picture and as a table. */

import { css } from "../../draw/colours";
import { label, matrixCells, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { rampStep } from "../../draw/paint";
import { setting } from "../../state/settings";
import { focusedHead, step as stepNumber } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import { type Numbers, valueAt } from "./arithmetic";
import { bugEffect, BUGS } from "./bugs";
import { STEP_TEXTS } from "./lesson";
import { colourScale } from "./paint";
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
  return matrix ? { ...matrix, title: STEP_TEXTS[step.id].title } : null;
}

/** A labelled heatmap as SVG. */
export function matrixSvg(title: string, { numbers, rows, columns }: Omit<NamedMatrix, "title">): string {
  const size = Math.max(2, Math.min(22, 900 / Math.max(numbers.columns, numbers.rows)));
  const named = size >= 9;
  const left = named ? Math.max(0, ...rows.map((name) => textWidth(name, 11))) + 12 : 8;
  const top = 34 + (named && columns ? Math.max(0, ...columns.map((name) => textWidth(name, 11))) + 6 : 0);
  const { ramp, tone } = colourScale(numbers, "light");
  const data = Float32Array.from(numbers.data);
  const colour = (value: number) => (Number.isFinite(value) ? css(ramp, rampStep(tone(value))) : PRINT_COLOURS.line);
  return svgDocument(
    left + size * numbers.columns + 8,
    top + size * numbers.rows + 8,
    title,
    label(8, 20, title, { size: 13, bold: true }),
    named && rows.map((name, r) => label(left - 6, top + size * (r + 0.5) + 4, name, { size: 11, anchor: "end" })),
    named && columns?.map((name, c) => label(left + size * (c + 0.5) + 4, top - 6, name, { size: 11, turn: -90 })),
    matrixCells({ rows: numbers.rows, columns: numbers.columns, data }, left, top, size, colour),
  );
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
