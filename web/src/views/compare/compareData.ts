/** What is compared: A and B, the weights of one head in each, and the answers. */

import { baseline, currentRun, currentTrace, liveModel, type Run } from "../../state/session";
import { setting } from "../../state/settings";
import { focusedHead, pinned, sequence } from "../../state/state";
import { displayWeights, type DisplayedWeights } from "../../trace/display";
import type { HeadLocation } from "../../trace/format";
import type { Matrix } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import { BLOCKS, frameName, headName } from "../../i18n/blocks";
import { displayText } from "../../draw/text";
import { alignTokens } from "./align";

export type Source = "run" | "text" | "head";

export const SOURCES: Readonly<Record<Source, Message>> = {
  run: { ko: "이전 실행", en: "the run before" },
  text: { ko: "같은 배치의 다른 텍스트", en: "another text of the batch" },
  head: { ko: "고정한 첫 헤드", en: "the first pinned head" },
};

const chosen = setting<Source | "auto">("compare", "with", "auto");
export const otherText = setting("compare", "text", 1);

/** What A is: as chosen, else what this page can compare. */
export function chosenSource(): Source {
  const name = chosen.value;
  if (name !== "auto" && Object.hasOwn(SOURCES, name)) return name;
  if (liveModel.value?.traces) return "run";
  return texts() > 1 ? "text" : "head";
}

export function chooseSource(source: Source): void {
  chosen.value = source;
}

/** The number of texts of the trace. */
export function texts(): number {
  const info = currentTrace.value?.info;
  return Math.max(0, ...Object.values(info?.sides ?? {}).map((rows) => rows?.length ?? 0));
}

/** A text of the trace: its number, or its checkpoint. */
export function nameOfText(number: number): string {
  const frame = currentTrace.value?.info.frames?.[number];
  return frame ? frameName(frame) : String(number);
}

/** One side of the comparison. */
export interface Compared {
  readonly trace: Trace;
  readonly location: HeadLocation;
  readonly run: Run | null;
}

/** A; null: there is nothing to compare yet. */
export function sideA(trace: Trace): Compared | null {
  const location = focusedHead.value;
  if (chosenSource() === "run") {
    const before = baseline.value;
    const block = before?.trace.info.blocks.find(({ name }) => name === location.block);
    if (!before || !block || location.layer >= block.layers || location.head >= block.heads) return null;
    return { ...before, location: { ...location, sequence: 0 } };
  }
  if (chosenSource() === "text") {
    const other = otherText.value === sequence.value ? (sequence.value + 1) % texts() : otherText.value;
    return texts() > 1 && other < texts() ? { trace, run: null, location: { ...location, sequence: other } } : null;
  }
  const pin = pinned.value[0];
  return pin ? { trace, run: null, location: { ...pin, sequence: sequence.value } } : null;
}

export function sideB(trace: Trace): Compared {
  return { trace, run: currentRun.value, location: focusedHead.value };
}

export interface Comparison {
  readonly a: DisplayedWeights;
  readonly b: DisplayedWeights;
  /** B minus A with the rows and columns of B; NaN where A has no such token. */
  readonly change: Matrix;
  /** The index in A of each query and key of B; -1: none. */
  readonly rows: readonly number[];
  readonly columns: readonly number[];
}

export async function compare(a: Compared, b: Compared): Promise<Comparison> {
  const [before, after] = await Promise.all([displayWeights(a.trace, a.location), displayWeights(b.trace, b.location)]);
  const text = ({ text }: { readonly text: string }) => text;
  const rows = alignTokens(before.queries.map(text), after.queries.map(text));
  const columns = alignTokens(before.keys.map(text), after.keys.map(text));
  const data = new Float32Array(after.matrix.data.length).fill(Number.NaN);
  rows.forEach((row, i) =>
    columns.forEach((column, j) => {
      const at = i * after.matrix.columns + j;
      if (row >= 0 && column >= 0) data[at] = after.matrix.data[at] - before.matrix.data[row * before.matrix.columns + column];
    }),
  );
  return { a: before, b: after, rows, columns, change: { ...after.matrix, data } };
}

/** What a side is: its text, muted heads, checkpoint and head. */
export function describe({ trace, location, run }: Compared): string {
  const { info } = trace;
  const tokens = info.sides.source?.[location.sequence] ?? info.sides.target?.[location.sequence];
  const parts = [`${t(BLOCKS[location.block])} ${headName(location)}`, shorten(displayText(tokens?.text ?? ""))];
  if (info.muted.length) parts.push(t({ ko: `끈 헤드 ${info.muted.map((head) => head.join(".")).join(", ")}`, en: `muted ${info.muted.map((head) => head.join(".")).join(", ")}` }));
  if (run?.checkpoint) parts.push(run.checkpoint);
  const frame = info.frames?.[location.sequence];
  if (frame) parts.push(frameName(frame));
  return parts.join(" · ");
}

function shorten(text: string): string {
  const letters = [...text];
  return letters.length > 40 ? `${letters.slice(0, 39).join("")}…` : text;
}

export interface AnswerChange {
  readonly name: string;
  readonly a: number | null;
  readonly b: number | null;
}

/** The answers as numbers: probabilities of labels, the score, or the log-probability of the output. */
export function answerChanges(a: Compared, b: Compared): readonly AnswerChange[] {
  const [before, after] = [a.trace.info, b.trace.info];
  const [x, y] = [before.classification?.sequences[a.location.sequence], after.classification?.sequences[b.location.sequence]];
  if (x && y && after.classification)
    return after.classification.labels.map((name, i) => ({ name, a: x.probabilities[i] ?? null, b: y.probabilities[i] }));
  const scores = [before.regression?.[a.location.sequence], after.regression?.[b.location.sequence]];
  if (scores[0] !== undefined && scores[1] !== undefined) return [{ name: t({ ko: "점수", en: "score" }), a: scores[0], b: scores[1] }];
  const [p, q] = [logProbabilities(a), logProbabilities(b)];
  const names = [...new Set([...p.keys(), ...q.keys()])];
  return names.map((name) => ({ name, a: p.get(name) ?? null, b: q.get(name) ?? null }));
}

/** The output of a generation and its log-probability. */
function logProbabilities({ trace, location }: Compared): Map<string, number> {
  const { decoding } = trace.info;
  if (!decoding || location.sequence > 0) return new Map();
  const total = decoding.steps.reduce((sum, { chosen }) => sum + (chosen?.log_probability ?? 0), 0);
  return new Map([[decoding.output, total]]);
}
