/** The matrix of the step in focus as a picture and as a table of its own. */

import { css } from "../../draw/colours";
import { matrixCells, label, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { rampStep } from "../../draw/paint";
import { setting } from "../../state/settings";
import { focusedHead, step as stepNumber } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { t, type Message } from "../../i18n/i18n";
import { cell, type Numbers } from "./arithmetic";
import { damage, FAULTS } from "./bugs";
import { LESSON } from "./lesson";
import { colouring } from "./paint";
import { steps } from "./steps";

interface Shown {
  readonly title: Message;
  readonly numbers: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[] | undefined;
}

/** What is on the stage: the matrix of a step, or of a slip. */
async function shown(trace: Trace): Promise<Shown | null> {
  const at = focusedHead.value;
  const fault = FAULTS.find(({ id }) => id === setting<string>("calculation", "fault", "").value);
  const found = fault && (await damage(trace, at, fault.id));
  if (fault && found) return { title: fault.title, numbers: found.after, rows: found.rows, columns: found.columns };
  const all = steps(trace, at);
  const step = all[Math.min(stepNumber.value, all.length - 1)];
  const sheets = await step.load();
  const sheet = sheets[Math.min(setting<number>("calculation", "part", 0).value, sheets.length - 1)];
  return sheet ? { ...sheet, title: LESSON[step.id].title } : null;
}

/** A matrix in colours with its names around it. */
export function drawn(title: string, { numbers, rows, columns }: Omit<Shown, "title">): string {
  const size = Math.max(2, Math.min(22, 900 / Math.max(numbers.columns, numbers.rows)));
  const named = size >= 9;
  const left = named ? Math.max(0, ...rows.map((name) => textWidth(name, 11))) + 12 : 8;
  const top = 34 + (named && columns ? Math.max(0, ...columns.map((name) => textWidth(name, 11))) + 6 : 0);
  const { ramp, tone } = colouring(numbers, "light");
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
  const found = await shown(trace);
  return found ? drawn(t(found.title), found) : svgDocument(1, 1, "");
}

export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const found = await shown(trace);
  return found ? rowsOf(found) : [];
}

/** A matrix as rows with its names. */
export function rowsOf({ numbers, rows, columns }: Omit<Shown, "title">): readonly (readonly (string | number)[])[] {
  const across = Array.from({ length: numbers.columns }, (_, c) => columns?.[c] ?? c);
  return [
    ["", ...across],
    ...Array.from({ length: numbers.rows }, (_, r) => [
      rows[r] ?? r,
      ...Array.from({ length: numbers.columns }, (_, c) => cell(numbers, r, c)),
    ]),
  ];
}
