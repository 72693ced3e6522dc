/** The steps of one layer in order: the recorded numbers of each, and the same recomputed. */

import { displayText, readablePieces } from "../../draw/text";
import type { HeadLocation, Sequence } from "../../trace/format";
import { scaleScore } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import * as a from "./arithmetic";
import { type Agreement, type Numbers, valueAt } from "./arithmetic";
import { hasHalves, LayerData, positionsOf, type Vectors } from "./layerData";
import { formatNumber } from "../../draw/numbers";
import { formatDotProduct, formatFactor, formatSum } from "./formatSum";

export const STEP_IDS = [
  "pieces", "ids", "embedding", "positions", "sum", "input", "pre_norm", "project", "heads", "head_norm", "rotate", "dot", "scale",
  "bias", "mask", "softmax", "weighted_sum", "concat", "output", "add_attention", "add_cross", "feed_forward_pre_norm", "feed_forward_up",
  "feed_forward_down", "add_feed_forward", "final_norm",
] as const;
export type StepId = (typeof STEP_IDS)[number];

/** An operand of a matrix, and the row and column of it that contribute to a cell. */
export interface Operand {
  readonly name: string;
  readonly numbers: Numbers;
  readonly highlight: (row: number, column: number) => { readonly row?: number; readonly column?: number };
}

/** One matrix of a step. */
export interface StepMatrix {
  readonly name: string;
  readonly numbers: Numbers;
  /** Whether the recomputed numbers agree with the trace; null: nothing to compare. */
  readonly check: Agreement | null;
  /** Why there is no check, or another remark. */
  readonly note?: Message | undefined;
  readonly rows: readonly string[];
  readonly columns?: readonly string[]; // default: numbered
  /** The text of a cell that is not a number. */
  readonly text?: (row: number, column: number) => string;
  readonly operands: readonly Operand[];
  /** The formula of a cell, without its result. */
  readonly formula: (row: number, column: number) => string;
}

export interface Step {
  readonly id: StepId;
  /** The input and output shapes as torch prints them; `rows` is the number of queries or of keys. */
  readonly shapes: (rows?: number, matrix?: string) => readonly (readonly number[])[];
  readonly load: () => Promise<readonly StepMatrix[]>;
}

const NO_PARAMETERS: Message = {
  ko: "가중치가 트레이스에 없어 확인하지 못함 (jumok 모델의 작은 트레이스에만 기록됨)",
  en: "not checked: the trace does not contain the weights (recorded only in small traces of jumok models)",
};
const NOT_RECORDED: Message = {
  ko: "트레이스에 없어 페이지가 계산함",
  en: "not in the trace: computed by the page",
};

const OTHER_OPERATIONS: Message = {
  ko: "이 모델은 식 (1) 외에 점수나 가중치를 추가로 변환함",
  en: "this model applies more operations to scores or weights than equation (1)",
};

const LOOKED_UP: Message = { ko: "어휘에서 찾은 값", en: "looked up in the vocabulary" };
const NO_NUMBERS: Message = { ko: "아직 수치가 아님", en: "not numeric yet" };

/** The steps up to and through one layer, for the focused sequence and head. */
export function steps(trace: Trace, location: HeadLocation): readonly Step[] {
  const data = new LayerData(trace, location);
  const { block, model, side } = data;
  const B = trace.info.sides[side]?.length ?? 1;
  const [T, S] = [data.queries.pieces.length, data.keys.pieces.length];
  const [D, F] = [model.d_model, model.d_ff];
  const { heads: H, key_heads: G, d_head: K } = block;
  const sentences = [[B, T], [B, T, D]];
  const within = [[B, T, D], [B, T, D]];
  const scores = [[B, H, T, S]];
  type Shapes = readonly (readonly number[])[];
  type Entry = readonly [StepId, Shapes | ((N: number, heads: number) => Shapes), (() => Promise<readonly StepMatrix[]>) | false];
  const all: readonly Entry[] = [
    ["pieces", [], () => batch(data, false)],
    ["ids", [[B, T]], () => batch(data, true)],
    ["embedding", sentences, () => embedding(data)],
    ["positions", sentences, data.hasPositions && (() => positions(data))],
    ["sum", within, hasSum(data) && (() => inputSum(data))],
    ["input", [[B, T, D]], (location.layer > 0 || data.part === "cross_attention") && (() => input(data))],
    ["pre_norm", within, data.hasPreNorm && (() => preNorm(data, data.part, data.residual()))],
    ["project", (N, heads) => [[B, N, D], [B, N, heads * K]], () => project(data)],
    ["heads", (N, heads) => [[B, N, heads * K], [B, N, heads, K], [B, heads, N, K]], () => headVectors(data)],
    ["head_norm", (N, heads) => [[B, heads, N, K], [B, heads, N, K]], model.head_norm === true && (() => normedVectors(data))],
    ["rotate", (N, heads) => [[B, heads, N, K], [B, heads, N, K]], data.isRotated && (() => rotatedVectors(data))],
    ["dot", [[B, H, T, K], [B, H, K, S], [B, H, T, S]], () => dot(data)],
    ["scale", scores, () => scale(data)],
    ["bias", scores, trace.has(data.attentionName("bias")) && (() => bias(data))],
    ["mask", scores, () => mask(data)],
    ["softmax", scores, () => softmax(data)],
    ["weighted_sum", [[B, H, T, S], [B, H, T, K]], () => weightedValues(data)],
    ["concat", [[B, H, T, K], [B, T, H, K], [B, T, H * K]], () => concat(data)],
    ["output", [[B, T, H * K], [B, T, D]], () => output(data)],
    ["add_attention", within, data.part === "self_attention" && (() => addNorm(data, "self_attention", data.residual()))],
    ["add_cross", within, data.hasCross && (() => addNorm(data, "cross_attention", data.matrixOrNull(data.stepName("after_self_attention"))))],
    ["feed_forward_pre_norm", within, model.norm_first && (() => preNorm(data, "feed_forward", feedForwardInput(data)))],
    ["feed_forward_up", [[B, T, D], [B, T, F]], () => feedForwardUp(data)],
    ["feed_forward_down", [[B, T, F], [B, T, D]], () => feedForwardDown(data)],
    ["add_feed_forward", within, () => addNorm(data, "feed_forward", feedForwardInput(data))],
    ["final_norm", within, data.hasFinalNorm && location.layer === block.layers - 1 && (() => norm(data, data.matrixOrNull(data.stepName("after_feed_forward")), "norm", `${side}.hidden.${block.layers}`))],
  ];
  return all.flatMap(([id, shapes, load]) =>
    load ? [{ id, shapes: (rows = T, matrix = "Q") => (typeof shapes === "function" ? shapes(rows, matrix === "Q" ? H : G) : shapes), load: once(load) }] : [],
  );
}

/** Whether anything follows the token embedding before the first layer. */
function hasSum({ trace, side, hasPositions }: LayerData): boolean {
  return hasPositions || [`${side}.segments`, `parameters.${side}.embedding.norm.weight`, `parameters.${side}.embedding.projection.weight`].some((name) => trace.has(name));
}

function once<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let result: Promise<Value> | undefined;
  return () => (result ??= make());
}

/** The pieces of a sequence as labels. */
export function pieceNames(sequence: Sequence): readonly string[] {
  return readablePieces(sequence).map(displayText);
}

/** The recorded matrix, or the recomputed one if none was recorded; empty without either. */
function stepMatrix(
  data: LayerData,
  name: string,
  computed: Numbers | null,
  recorded: Numbers | null,
  recordedAs: string,
  more: Partial<StepMatrix> & Pick<StepMatrix, "formula">,
): readonly StepMatrix[] {
  const numbers = recorded ?? computed;
  if (!numbers) return [];
  const check = data.compare(computed, recorded, recordedAs);
  const other = check?.agrees === false && data.model.family !== "jumok" ? OTHER_OPERATIONS : undefined;
  const note = check ? other : computed ? NOT_RECORDED : NO_PARAMETERS;
  return [{ name, numbers, check, note, rows: pieceNames(data.queries), operands: [], ...more }];
}

const NO_FORMULA: Pick<StepMatrix, "formula"> = { formula: () => "" };
const sameRow = (row: number) => ({ row });
const sameColumn = (_: number, column: number) => ({ column });
const sameCell = (row: number, column: number) => ({ row, column });

/** Matrices of one shape that are added. */
function addends(...parts: readonly (readonly [string, Numbers | null])[]): Pick<StepMatrix, "operands" | "formula"> {
  const present = parts.flatMap(([name, numbers]) => (numbers ? [{ name, numbers, highlight: sameCell }] : []));
  return { operands: present, formula: (r, c) => formatSum(...present.map(({ numbers }) => valueAt(numbers, r, c))) };
}

/** Two factors and a bias: rows of x times columns of y. */
function factors(x: readonly [string, Numbers], y: readonly [string, Numbers], bias?: Numbers | null): Pick<StepMatrix, "operands" | "formula"> {
  return {
    operands: [
      { name: x[0], numbers: x[1], highlight: sameRow },
      { name: y[0], numbers: y[1], highlight: sameColumn },
    ],
    formula: (r, c) => formatDotProduct(x[1], r, y[1], c) + (bias ? ` + ${formatFactor(bias.data[c])}` : ""),
  };
}

/** The formula of a normalized cell. */
function normFormula(data: LayerData, x: Numbers): Pick<StepMatrix, "operands" | "formula"> {
  return {
    operands: [{ name: "x", numbers: x, highlight: sameRow }],
    formula: (r, c) => {
      const [mean, deviation] = a.meanAndDeviation(x, r, data.model.norm, data.model.norm_eps);
      if (data.model.norm === "layer") return `(${formatNumber(valueAt(x, r, c))} − ${formatFactor(mean, 4)}) / ${formatNumber(deviation)} · γ + β`;
      return `${formatNumber(valueAt(x, r, c))} / ${formatNumber(deviation)} · ${data.model.norm === "rms" ? "γ" : "(1 + γ)"}`;
    },
  };
}

// From text to the first layer

/** The whole batch: its pieces, or their ids. */
async function batch({ trace, side }: LayerData, ids: boolean): Promise<readonly StepMatrix[]> {
  const all = trace.info.sides[side] ?? [];
  const read = all.map(pieceNames);
  return [
    {
      name: ids ? "ids" : "pieces",
      numbers: a.table(all.length, read[0].length, (r, c) => all[r].ids[c]),
      check: null,
      note: ids ? LOOKED_UP : NO_NUMBERS,
      rows: all.map((_, i) => String(i)),
      text: (r, c) => (ids ? String(all[r].ids[c]) : read[r][c]),
      operands: [],
      formula: (r, c) => `${JSON.stringify(read[r][c])} → ${all[r].ids[c]}`,
    },
  ];
}

async function embedding(data: LayerData): Promise<readonly StepMatrix[]> {
  const name = `${data.side}.embedding`;
  const [recorded, rows] = await Promise.all([data.matrixOrNull(name), data.tensorOrNull(`parameters.${data.side}.embedding.tokens`)]);
  if (!rows) return stepMatrix(data, "x", null, recorded, name, NO_FORMULA);
  const batch = data.trace.info.sides[data.side] ?? [];
  const known = [...new Set(batch.flatMap(({ ids }) => ids))].sort((x, y) => x - y);
  const at = data.queries.ids.map((id) => known.indexOf(id));
  const scaledRows = (by: number) => a.table(at.length, rows.columns, (r, c) => valueAt(rows, at[r], c) * by);
  const recordedScale = data.model.embedding_scale;
  const scales = recordedScale ? [recordedScale] : [Math.sqrt(rows.columns), 1]; // not known: section 3.4, or unscaled
  const scale = scales.find((by) => data.compare(scaledRows(by), recorded, name)?.agrees) ?? scales[0];
  return stepMatrix(data, "x", scaledRows(scale), recorded, name, {
    operands: [{ name: "E", numbers: rows, highlight: (r, c) => ({ row: at[r], column: c }) }],
    formula: (r, c) =>
      `E[${data.queries.ids[r]}, ${c}]${scale === 1 ? "" : ` · √${rows.columns}`} = ${formatNumber(valueAt(rows, at[r], c))}` +
      (scale === 1 ? "" : ` · ${formatNumber(scale)}`),
  });
}

async function positions(data: LayerData): Promise<readonly StepMatrix[]> {
  const name = `${data.side}.positions`;
  const whole = await data.tensorOrNull(name);
  if (!whole) return [];
  const at = positionsOf(data.queries);
  const recorded = a.table(at.length, whole.columns, (r, c) => valueAt(whole, at[r], c));
  const d = whole.columns;
  if (!data.model.positions.startsWith("sinusoidal"))
    return [
      {
        name: "PE",
        numbers: recorded,
        check: null,
        note: { ko: "학습된 표: 수식이 없음", en: "learned table: no formula" },
        rows: pieceNames(data.queries),
        operands: [{ name: "PE", numbers: whole, highlight: (r, c) => ({ row: at[r], column: c }) }],
        formula: (r, c) => `PE[${at[r]}, ${c}]`,
      },
    ];
  const halves = hasHalves(data.model.positions);
  const encoding = a.sinusoids(whole.rows, d, 10000, halves);
  const computed = a.table(at.length, d, (r, c) => valueAt(encoding, at[r], c));
  const sines = Math.ceil(d / 2);
  return stepMatrix(data, "PE", computed, recorded, name, {
    operands: [{ name: "PE", numbers: whole, highlight: (r, c) => ({ row: at[r], column: c }) }],
    formula: (r, c) => {
      const sine = halves ? c < sines : c % 2 === 0;
      return `${sine ? "sin" : "cos"}(${at[r]} / 10000^(${2 * (halves ? c % sines : c >> 1)}/${d}))`;
    },
  });
}

async function inputSum(data: LayerData): Promise<readonly StepMatrix[]> {
  const { side } = data;
  const name = `${side}.hidden.0`;
  const [tokens, positions, segments, recorded, projection, projectionBias] = await Promise.all([
    data.matrixOrNull(`${side}.embedding`),
    data.tensorOrNull(`${side}.positions`),
    data.tensorOrNull(`${side}.segments`),
    data.matrixOrNull(name),
    data.tensorOrNull(`parameters.${side}.embedding.projection.weight`),
    data.tensorOrNull(`parameters.${side}.embedding.projection.bias`),
  ]);
  const at = positionsOf(data.queries);
  const added = (rows: Numbers, of: readonly number[]) => a.table(of.length, rows.columns, (r, c) => valueAt(rows, of[r], c));
  const position = positions && added(positions, at);
  const segment = segments && added(segments, data.queries.segments ?? at.map(() => 0));
  let computed = data.trace.has(`parameters.${side}.embedding.tokens`) ? tokens : null; // else a norm may be missing
  for (const more of [position, segment]) if (computed && more) computed = a.add(computed, more);
  if (computed && data.trace.has(`parameters.${side}.embedding.norm.weight`)) computed = await data.norm(computed, "embedding.norm");
  if (computed && projection) computed = a.linear(computed, a.transpose(projection), projectionBias);
  return stepMatrix(data, "x", computed, recorded, name, addends(["x", tokens], ["PE", position], ["S", segment]));
}

// Attention

async function input(data: LayerData): Promise<readonly StepMatrix[]> {
  const { location, part } = data;
  const inputNote: Message =
    part === "cross_attention"
      ? { ko: "decoder 블록에서 계산한 값", en: "computed in the decoder block" }
      : { ko: `레이어 ${location.layer - 1}에서 계산한 값`, en: `computed in layer ${location.layer - 1}` };
  const memoryNote: Message = { ko: "인코더의 마지막 출력", en: "the final output of the encoder" };
  const x = await data.residual();
  const memory = part === "cross_attention" ? await data.memory() : null;
  const given = (name: string, numbers: Numbers | null, note: Message, of: Sequence): readonly StepMatrix[] =>
    numbers ? [{ name, numbers, check: null, note, rows: pieceNames(of), operands: [], formula: () => name }] : [];
  return [...given("x", x, inputNote, data.queries), ...given("memory", memory, memoryNote, data.keys)];
}

/** A single norm: before a sublayer of a pre-norm layer, or after the last layer. */
async function norm(data: LayerData, input: Promise<Numbers | null>, parameters: string, result: string): Promise<readonly StepMatrix[]> {
  const x = await input;
  return stepMatrix(data, `${data.normName}(x)`, await data.norm(x, parameters), await data.matrixOrNull(result), result, x ? normFormula(data, x) : NO_FORMULA);
}

function preNorm(data: LayerData, part: string, input: Promise<Numbers | null>): Promise<readonly StepMatrix[]> {
  return norm(data, input, `${data.location.layer}.${part}_norm.norm`, data.stepName(`${part}_input`));
}

const PROJECTIONS = [
  ["Q", "q", "query"],
  ["K", "k", "key"],
  ["V", "v", "value"],
] as const;

interface Projection {
  readonly letter: string;
  readonly vectors: Vectors;
  readonly projected: Numbers | null;
  readonly sequence: Sequence;
  readonly operands: Partial<StepMatrix> & Pick<StepMatrix, "formula">;
}

/** The three projections of this layer, recomputed from its input; null if its weights were not recorded. */
function projections(data: LayerData): Promise<readonly Projection[]> {
  return data.memoise("projections", () => projectAll(data));
}

async function projectAll(data: LayerData): Promise<readonly Projection[]> {
  const x = await data.sublayerInput(data.part, await data.residual());
  const source = data.part === "cross_attention" ? await data.memory() : x;
  return Promise.all(PROJECTIONS.map(([letter, vectors, name]) => projection(data, vectors === "q" ? x : source, letter, vectors, name)));
}

async function projection(data: LayerData, x: Numbers | null, letter: string, vectors: Vectors, name: string): Promise<Projection> {
  const map = await data.linearMap(`${data.part}.${name}`);
  const projected = x && map && a.linear(x, map.weight, map.bias);
  const sequence = vectors === "q" ? data.queries : data.keys;
  const operands = x && map ? factors(["X", x], [`W_${letter}`, map.weight], map.bias) : NO_FORMULA;
  return { letter, vectors, projected, sequence, operands };
}

/** The recorded vectors before the rotation, but after the norm of heads, if any; unchanged without rotary positions, null without their angles. */
async function withoutRotation(data: LayerData, vectors: Vectors, of: Sequence, head?: number): Promise<Numbers | null> {
  const recorded = await data.head(vectors, head);
  if (!recorded || !data.isRotated || vectors === "v") return recorded;
  const angles = data.rotary && (await data.tensorOrNull(data.rotary));
  return angles ? a.rotate(recorded, angles.data, positionsOf(of), -1) : null;
}

async function project(data: LayerData): Promise<readonly StepMatrix[]> {
  const matrices = await Promise.all(
    (await projections(data)).map(async ({ letter, vectors, projected, sequence, operands }) => {
      const { heads, key_heads } = data.block;
      const count = vectors === "q" ? heads : key_heads;
      const each = await Promise.all(
        Array.from({ length: count }, (_, i) => withoutRotation(data, vectors, sequence, vectors === "q" ? i : (i * heads) / key_heads)),
      );
      const recorded = !isNormed(data, vectors) && each.every((one) => one !== null) ? a.concatColumns(each) : null;
      return stepMatrix(data, letter, projected, recorded, data.attentionName(vectors), { ...operands, rows: pieceNames(sequence) });
    }),
  );
  return matrices.flat();
}

/** Whether the vectors of each head are normalized, so that their projections are not in the trace. */
function isNormed({ model }: LayerData, vectors: Vectors): boolean {
  return model.head_norm === true && vectors !== "v";
}

interface HeadVectors extends Projection {
  readonly from: number; // the first column of the head
  readonly sliced: Numbers | null;
  readonly normed: Numbers | null; // as sliced, without a norm of heads
}

/** The projected vectors of the focused head: sliced from all heads, and normalized. */
async function vectorsOfHead(data: LayerData): Promise<readonly HeadVectors[]> {
  const { d_head: width } = data.block;
  return Promise.all(
    (await projections(data)).map(async (one) => {
      const from = width * (one.vectors === "q" ? data.location.head : data.keyHead(data.location.head));
      const sliced = one.projected && a.sliceColumns(one.projected, from, width);
      const normed = isNormed(data, one.vectors) ? await data.norm(sliced, `${data.location.layer}.${data.part}.${one.vectors === "q" ? "query" : "key"}_norm`) : sliced;
      return { ...one, from, sliced, normed };
    }),
  );
}

async function headVectors(data: LayerData): Promise<readonly StepMatrix[]> {
  const matrices = await Promise.all(
    (await vectorsOfHead(data)).map(async ({ letter, vectors, projected, sequence, from, sliced }) => {
      const recorded = isNormed(data, vectors) ? null : await withoutRotation(data, vectors, sequence);
      return stepMatrix(data, letter, sliced, recorded, data.attentionName(vectors), {
        rows: pieceNames(sequence),
        operands: projected ? [{ name: letter, numbers: projected, highlight: (r, c) => ({ row: r, column: from + c }) }] : [],
        formula: (r, c) => `${letter}[${r}, ${from} + ${c}]`,
      });
    }),
  );
  return matrices.flat();
}

/** Queries and keys of the focused head, each normalized. */
async function normedVectors(data: LayerData): Promise<readonly StepMatrix[]> {
  const matrices = await Promise.all(
    (await vectorsOfHead(data)).slice(0, 2).map(async ({ letter, vectors, sequence, sliced, normed }) =>
      stepMatrix(data, letter, normed, await withoutRotation(data, vectors, sequence), data.attentionName(vectors), {
        rows: pieceNames(sequence),
        ...(sliced ? normFormula(data, sliced) : NO_FORMULA),
      }),
    ),
  );
  return matrices.flat();
}

/** Queries and keys of the focused head, rotated by position. */
async function rotatedVectors(data: LayerData): Promise<readonly StepMatrix[]> {
  const half = data.block.d_head / 2;
  const angles = data.rotary && (await data.tensorOrNull(data.rotary));
  const matrices = await Promise.all(
    (await vectorsOfHead(data)).slice(0, 2).map(async ({ letter, vectors, sequence, normed }) => {
      const at = positionsOf(sequence);
      const computed = normed && angles ? a.rotate(normed, angles.data, at) : null;
      return stepMatrix(data, letter, computed, await data.head(vectors), data.attentionName(vectors), {
        rows: pieceNames(sequence),
        operands: normed ? [{ name: letter, numbers: normed, highlight: (r, c) => ({ row: r, column: c }) }] : [],
        formula: (r, c) => {
          if (!angles || !normed) return "";
          const angle = `${at[r]}·${formatNumber(angles.data[c % half])}`;
          const other = formatFactor(valueAt(normed, r, (c + half) % data.block.d_head));
          return `${formatFactor(valueAt(normed, r, c))}·cos(${angle}) ${c < half ? "−" : "+"} ${other}·sin(${angle})`;
        },
      });
    }),
  );
  return matrices.flat();
}

/** The recomputed scores: q·k of every query and key, times the scale, plus the bias; and the recorded ones. */
interface Scores {
  readonly q: Numbers | null;
  readonly keys: Numbers | null;
  readonly raw: Numbers | null;
  readonly scaled: Numbers | null;
  readonly bias: Numbers | null;
  readonly computed: Numbers | null;
  readonly recorded: Numbers | null;
  readonly check: Agreement | null;
}

function scoresOf(data: LayerData): Promise<Scores> {
  return data.memoise("scores", () => computeScores(data));
}

async function computeScores(data: LayerData): Promise<Scores> {
  const [q, k] = await Promise.all([data.head("q"), data.head("k")]);
  const keys = k && a.transpose(k);
  const raw = q && keys && a.matmul(q, keys);
  const scaled = raw && a.mapCells(raw, (value) => scaleScore(value, data.block));
  const bias = await data.trace.bias(data.location);
  const name = data.attentionName("scores");
  const recorded = data.trace.has(name) ? await data.trace.scores(data.location) : null;
  const computed = scaled && bias ? a.add(scaled, bias) : scaled;
  return { q, keys, raw, scaled, bias, computed, recorded, check: data.compare(computed, recorded, name) };
}

const SCORES_LATER: Message = {
  ko: "트레이스에 점수가 없음: softmax에서 확인",
  en: "no scores in the trace: checked by the softmax",
};

/** An intermediate matrix of the scores; it is checked by checking the scores. */
function intermediateScores(data: LayerData, name: string, numbers: Numbers | null, check: Agreement | null, more: Pick<StepMatrix, "operands" | "formula">): readonly StepMatrix[] {
  if (!numbers) return [];
  return [{ name, numbers, check, note: check ? undefined : SCORES_LATER, rows: pieceNames(data.queries), columns: pieceNames(data.keys), ...more }];
}

async function dot(data: LayerData): Promise<readonly StepMatrix[]> {
  const { q, keys, raw, check } = await scoresOf(data);
  return q && keys ? intermediateScores(data, "QKᵀ", raw, check, factors(["Q", q], ["Kᵀ", keys])) : [];
}

async function scale(data: LayerData): Promise<readonly StepMatrix[]> {
  const { raw, scaled, check } = await scoresOf(data);
  const root = 1 / data.block.scale;
  const cap = data.block.softcap;
  if (!raw) return [];
  return intermediateScores(data, data.scaledName, scaled, check, {
    operands: [{ name: "QKᵀ", numbers: raw, highlight: sameCell }],
    formula: (r, c) => {
      const quotient = `${formatNumber(valueAt(raw, r, c))} / ${formatNumber(root)}`;
      return cap ? `${formatNumber(cap)}·tanh(${quotient} / ${formatNumber(cap)})` : quotient;
    },
  });
}

async function bias(data: LayerData): Promise<readonly StepMatrix[]> {
  const { scaled, bias, computed, check } = await scoresOf(data);
  return intermediateScores(data, scoresName(data), computed, check, addends([data.scaledName, scaled], ["B", bias]));
}

/** The name of the scores, with the bias if there is one. */
function scoresName(data: LayerData): string {
  return data.trace.has(data.attentionName("bias")) ? `${data.scaledName} + B` : data.scaledName;
}

/** The input of the softmax: recorded scores, else recomputed ones; null without vectors. */
async function softmaxInput(data: LayerData): Promise<Numbers | null> {
  const { recorded, computed } = await scoresOf(data);
  return recorded ?? computed;
}

async function mask(data: LayerData): Promise<readonly StepMatrix[]> {
  const [scores, mask] = await Promise.all([softmaxInput(data), data.mask()]);
  const { rows, columns } = mask;
  const hidden = (r: number, c: number) => hiddenBecause(data, r, c) !== "";
  const expected = a.table(rows, columns, (r, c) => (hidden(r, c) ? 0 : 1));
  const real = (numbers: Numbers) => a.table(rows, columns, (r, c) => (data.queries.real[r] ? valueAt(numbers, r, c) : 0));
  const check = a.agreement(real(expected), real(mask), 0);
  const masked = scores ? a.table(rows, columns, (r, c) => (valueAt(mask, r, c) ? valueAt(scores, r, c) : -Infinity)) : mask;
  return [
    {
      name: scores ? `${scoresName(data)} + M` : "M",
      numbers: masked,
      check: check.agrees || data.knowsWindow ? check : null,
      rows: pieceNames(data.queries),
      columns: pieceNames(data.keys),
      operands: [{ name: t({ ko: "허용 (1: 볼 수 있음)", en: "allowed (1: may attend)" }), numbers: mask, highlight: sameCell }, ...(scores ? [{ name: scoresName(data), numbers: scores, highlight: sameCell }] : [])],
      formula: (r, c) => {
        if (valueAt(mask, r, c) === 1) return "M = 0";
        const reason = hiddenBecause(data, r, c);
        return `M = −∞${reason && ` (${reason})`}`;
      },
    },
  ];
}

/** Why a query may not attend to a key; empty if it may. */
function hiddenBecause({ keys, block, window }: LayerData, r: number, c: number): string {
  if (!keys.real[c]) return "[PAD]";
  if (block.causal && c > r) return `${c} > ${r}`;
  const distance = Math.abs(r - c);
  return window !== null && distance >= window ? `|${r} − ${c}| ≥ ${window}` : "";
}

/** Whether this head was muted. */
export function isMuted(trace: Trace, location: HeadLocation): boolean {
  return trace.info.muted.some(([block, layer, head]) => block === location.block && layer === location.layer && head === location.head);
}

async function softmax(data: LayerData): Promise<readonly StepMatrix[]> {
  const [scores, mask, weights] = await Promise.all([softmaxInput(data), data.mask(), data.trace.weights(data.location)]);
  const muted = isMuted(data.trace, data.location);
  const unmuted = scores && a.softmax(scores, mask.data);
  const computed = unmuted && (muted ? a.mapCells(unmuted, () => 0) : unmuted);
  const [matrix] = stepMatrix(data, "A", computed, weights, data.attentionName("weights"), {
    columns: pieceNames(data.keys),
    operands: scores ? [{ name: `${scoresName(data)} + M`, numbers: scores, highlight: sameRow }] : [],
    formula: (r, c) => {
      if (muted || !scores || !valueAt(mask, r, c)) return "0";
      const open = Array.from({ length: mask.columns }, (_, s) => s).filter((s) => s !== c && valueAt(mask, r, s));
      const e = (s: number) => `e^${formatNumber(valueAt(scores, r, s), 2)}`;
      return `${e(c)} / (${[c, ...open.slice(0, 2)].map(e).join(" + ")}${open.length > 2 ? ` + … (${open.length + 1})` : ""})`;
    },
  });
  const mutedNote: Message = { ko: "꺼진 헤드: 0으로 설정", en: "muted head: set to 0" };
  return [muted ? { ...matrix, note: mutedNote } : matrix];
}

async function weightedValuesOfHead(data: LayerData, head: number): Promise<{ weights: Numbers; v: Numbers; computed: Numbers } | null> {
  const [weights, v] = await Promise.all([data.trace.weights({ ...data.location, head }), data.head("v", head)]);
  return v && { weights, v, computed: a.matmul(weights, v) };
}

async function weightedValues(data: LayerData): Promise<readonly StepMatrix[]> {
  const result = await weightedValuesOfHead(data, data.location.head);
  if (!result) return [];
  return stepMatrix(data, "A V", result.computed, await data.head("mixed"), data.attentionName("mixed"), factors(["A", result.weights], ["V", result.v]));
}

async function concat(data: LayerData): Promise<readonly StepMatrix[]> {
  const recorded = await data.allHeads("mixed");
  if (!recorded) return [];
  const { heads, d_head: width } = data.block;
  const perHead = await Promise.all(Array.from({ length: heads }, (_, head) => weightedValuesOfHead(data, head)));
  const computed = perHead.every((head) => head !== null) ? a.concatColumns(perHead.map((head) => head.computed)) : null;
  return stepMatrix(data, "concat", computed, recorded, data.attentionName("mixed"), {
    operands: perHead.flatMap((head, i) =>
      head && i < 4
        ? [{ name: `head ${i}`, numbers: head.computed, highlight: (r: number, c: number) => (Math.floor(c / width) === i ? { row: r, column: c % width } : {}) }]
        : [],
    ),
    formula: (r, c) => `head_${Math.floor(c / width)}[${r}, ${c % width}]`,
  });
}

/** A linear map of the layer applied to x, compared with its recorded result. */
async function linearMap(data: LayerData, letters: readonly [string, string, string], x: Numbers | null, weight: string, result: string): Promise<readonly StepMatrix[]> {
  const name = data.stepName(result);
  const map = await data.linearMap(weight);
  const computed = x && map && a.linear(x, map.weight, map.bias);
  return stepMatrix(data, letters[0], computed, await data.matrixOrNull(name), name, x && map ? factors([letters[1], x], [letters[2], map.weight], map.bias) : NO_FORMULA);
}

async function output(data: LayerData): Promise<readonly StepMatrix[]> {
  return linearMap(data, ["Y", "concat", "W_O"], await data.allHeads("mixed"), `${data.part}.output`, data.part);
}

// After attention

/** The input of the feed-forward sublayer, before any norm. */
function feedForwardInput(data: LayerData): Promise<Numbers | null> {
  return data.matrixOrNull(data.stepName(data.hasCross ? "after_cross_attention" : "after_self_attention"));
}

/** Add & Norm of a sublayer; x is its input. */
async function addNorm(data: LayerData, part: string, input: Promise<Numbers | null>): Promise<readonly StepMatrix[]> {
  const name = data.stepName(`after_${part}`);
  const [x, y, recorded] = await Promise.all([input, data.matrixOrNull(data.stepName(part)), data.matrixOrNull(name)]);
  if (data.model.sublayer_norm) {
    const normed = await data.norm(y, `${data.location.layer}.${part}_norm.sublayer_norm`);
    const norm = `${data.normName}(Y)`;
    return stepMatrix(data, `x + ${norm}`, x && normed && a.add(x, normed), recorded, name, addends(["x", x], [norm, normed]));
  }
  const added = x && y && a.add(x, y);
  if (data.model.norm_first) return stepMatrix(data, "x + Y", added, recorded, name, addends(["x", x], ["Y", y]));
  const computed = await data.norm(added, `${data.location.layer}.${part}_norm.norm`);
  const sum = data.model.sublayer_norm == null && !computed ? "X" : `${data.normName}(x + Y)`; // X: the norms are not known
  if (!added || !x || !y) return stepMatrix(data, sum, null, recorded, name, NO_FORMULA);
  const { operands } = addends(["x", x], ["Y", y]);
  const { formula } = normFormula(data, added);
  return stepMatrix(data, sum, computed, recorded, name, { operands, formula });
}

async function feedForwardUp(data: LayerData): Promise<readonly StepMatrix[]> {
  const name = data.stepName("hidden");
  const x = await data.sublayerInput("feed_forward", await feedForwardInput(data));
  const [up, gate, recorded] = await Promise.all([data.linearMap("feed_forward.up"), data.linearMap("feed_forward.gate"), data.matrixOrNull(name)]);
  const activation = a.activations[data.model.activation];
  if (!x || !up || !activation || (data.model.gated && !gate)) return stepMatrix(data, "FFN", null, recorded, name, NO_FORMULA);
  const widened = a.linear(x, up.weight, up.bias);
  const gateValues = gate && a.linear(x, gate.weight, gate.bias);
  const activated = a.mapCells(widened, (value) => activation(value));
  const { operands, formula } = factors(["X", x], ["W_1", up.weight], up.bias);
  return stepMatrix(data, "FFN", gateValues ? a.zipCells(activated, gateValues, (f, g) => f * g) : activated, recorded, name, {
    operands: gate ? [...operands, { name: "W_g", numbers: gate.weight, highlight: sameColumn }] : operands,
    formula: (r, c) => `${data.model.activation}(${formula(r, c)})${gateValues ? ` · ${formatFactor(valueAt(gateValues, r, c))}` : ""}`,
  });
}

async function feedForwardDown(data: LayerData): Promise<readonly StepMatrix[]> {
  return linearMap(data, ["Y", "FFN", "W_2"], await data.matrixOrNull(data.stepName("hidden")), "feed_forward.down", "feed_forward");
}
