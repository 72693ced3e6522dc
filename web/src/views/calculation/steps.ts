/** The steps of one layer in the order of the notes: what the trace holds of each, and the same computed again. */

import { displayText, readablePieces } from "../../draw/text";
import type { HeadLocation, Sequence } from "../../trace/format";
import { scaleScore } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import type { Message } from "../../i18n/i18n";
import * as a from "./arithmetic";
import { cell, type Agreement, type Numbers } from "./arithmetic";
import { Held, positionsOf, type Vectors } from "./layerData";
import { dots, factor, number, plus } from "./formatSum";

export const IDS = [
  "pieces", "ids", "embedding", "positions", "sum", "input", "before", "project", "heads", "rotate", "dot", "scale",
  "bias", "mask", "softmax", "mixed", "concat", "output", "add_attention", "add_cross", "before_feed_forward", "widen",
  "narrow", "add_feed_forward", "closing",
] as const;
export type StepId = (typeof IDS)[number];

/** What a cell was made of: one row of it, one column, or both. */
export interface Operand {
  readonly name: string;
  readonly numbers: Numbers;
  readonly light: (row: number, column: number) => { readonly row?: number; readonly column?: number };
}

/** One matrix of a step. */
export interface Sheet {
  readonly name: string;
  readonly numbers: Numbers;
  /** Whether the page's own numbers are those of the trace; null: there was nothing to compare. */
  readonly check: Agreement | null;
  /** Why there is no check, or what else to know. */
  readonly note?: Message | undefined;
  readonly rows: readonly string[];
  readonly columns?: readonly string[]; // numbered without
  /** What a cell says where that is no number. */
  readonly text?: (row: number, column: number) => string;
  readonly operands: readonly Operand[];
  /** How the cell comes about, without its result. */
  readonly sum: (row: number, column: number) => string;
}

export interface Step {
  readonly id: StepId;
  /** As torch prints them, from, to; of queries, or of so many keys. */
  readonly shapes: (rows?: number) => readonly (readonly number[])[];
  readonly load: () => Promise<readonly Sheet[]>;
}

const NO_PARAMETERS: Message = {
  ko: "가중치가 기록에 없어 확인하지 못함 (우리 모델의 작은 기록에만)",
  en: "not checked: the trace lacks the weights (small traces of jumok's models hold them)",
};
const NOT_RECORDED: Message = {
  ko: "기록에 없어 여기서 계산함",
  en: "not in the trace: computed here",
};

const MORE: Message = {
  ko: "이 모델은 식 (1) 말고도 점수나 가중치를 바꿈",
  en: "this model does more to its scores or weights than equation (1)",
};

const LOOKED_UP: Message = { ko: "낱말집에서 찾음", en: "looked up in the vocabulary" };
const NO_NUMBERS: Message = { ko: "아직 수가 아님", en: "no numbers yet" };

/** The steps that lead to and through one layer, for the sequence and head in focus. */
export function steps(trace: Trace, place: HeadLocation): readonly Step[] {
  const held = new Held(trace, place);
  const { block, model, side } = held;
  const B = trace.info.sides[side]?.length ?? 1;
  const [T, S] = [held.queries.pieces.length, held.keys.pieces.length];
  const [D, F] = [model.d_model, model.d_ff];
  const { heads: H, d_head: K } = block;
  const sentences = [[B, T], [B, T, D]];
  const within = [[B, T, D], [B, T, D]];
  const scores = [[B, H, T, S]];
  type Shapes = readonly (readonly number[])[];
  type Entry = readonly [StepId, Shapes | ((N: number) => Shapes), (() => Promise<readonly Sheet[]>) | false];
  const all: readonly Entry[] = [
    ["pieces", [], () => batch(held, false)],
    ["ids", [[B, T]], () => batch(held, true)],
    ["embedding", sentences, () => embedding(held)],
    ["positions", sentences, () => positions(held)],
    ["sum", within, () => sum(held)],
    ["input", [[B, T, D]], (place.layer > 0 || held.part === "cross") && (() => input(held))],
    ["before", within, model.norm_first && (() => before(held, held.part, held.residual()))],
    ["project", (N) => [[B, N, D], [B, N, H * K]], () => project(held)],
    ["heads", (N) => [[B, N, H * K], [B, N, H, K], [B, H, N, K]], () => ofHead(held, false)],
    ["rotate", (N) => [[B, H, N, K], [B, H, N, K]], held.rotary && (() => ofHead(held, true))],
    ["dot", [[B, H, T, K], [B, H, K, S], [B, H, T, S]], () => dot(held)],
    ["scale", scores, () => scale(held)],
    ["bias", scores, trace.has(held.named("bias")) && (() => bias(held))],
    ["mask", scores, () => mask(held)],
    ["softmax", scores, () => softmax(held)],
    ["mixed", [[B, H, T, S], [B, H, T, K]], () => mixed(held)],
    ["concat", [[B, H, T, K], [B, T, H, K], [B, T, H * K]], () => concat(held)],
    ["output", [[B, T, H * K], [B, T, D]], () => output(held)],
    ["add_attention", within, held.part === "attention" && (() => addNorm(held, "attention", held.residual()))],
    ["add_cross", within, held.hasCross && (() => addNorm(held, "cross", held.sheet(held.step("after_attention"))))],
    ["before_feed_forward", within, model.norm_first && (() => before(held, "feed_forward", enteringLast(held)))],
    ["widen", [[B, T, D], [B, T, F]], () => widen(held)],
    ["narrow", [[B, T, F], [B, T, D]], () => narrow(held)],
    ["add_feed_forward", within, () => addNorm(held, "feed_forward", enteringLast(held))],
    ["closing", within, model.norm_first && place.layer === block.layers - 1 && (() => norm(held, held.sheet(held.step("after_feed_forward")), "norm", `${side}.hidden.${block.layers}`))],
  ];
  return all.flatMap(([id, shapes, load]) =>
    load ? [{ id, shapes: (rows = T) => (typeof shapes === "function" ? shapes(rows) : shapes), load: once(load) }] : [],
  );
}

function once<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | undefined;
  return () => (made ??= make());
}

/** The pieces of a sequence as labels. */
export function names(sequence: Sequence): readonly string[] {
  return readablePieces(sequence).map(displayText);
}

/** A sheet of the trace's numbers, or of the page's own where the trace holds none; none at all without either. */
function sheet(
  held: Held,
  name: string,
  again: Numbers | null,
  recorded: Numbers | null,
  recordedAs: string,
  more: Partial<Sheet> & Pick<Sheet, "sum">,
): readonly Sheet[] {
  const numbers = recorded ?? again;
  if (!numbers) return [];
  const check = held.compare(again, recorded, recordedAs);
  const other = check?.agrees === false && held.model.family !== "jumok" ? MORE : undefined;
  const note = check ? other : again ? NOT_RECORDED : NO_PARAMETERS;
  return [{ name, numbers, check, note, rows: names(held.queries), operands: [], ...more }];
}

const NOTHING: Pick<Sheet, "sum"> = { sum: () => "" };
const row = (row: number) => ({ row });
const column = (_: number, column: number) => ({ column });
const both = (row: number, column: number) => ({ row, column });

/** Tables of one shape that are added cell by cell. */
function addends(...parts: readonly (readonly [string, Numbers | null])[]): Pick<Sheet, "operands" | "sum"> {
  const there = parts.flatMap(([name, numbers]) => (numbers ? [{ name, numbers, light: both }] : []));
  return { operands: there, sum: (r, c) => plus(...there.map(({ numbers }) => cell(numbers, r, c))) };
}

/** Two factors and what is added: rows of a times columns of b. */
function factors(x: readonly [string, Numbers], y: readonly [string, Numbers], bias?: Numbers | null): Pick<Sheet, "operands" | "sum"> {
  return {
    operands: [
      { name: x[0], numbers: x[1], light: row },
      { name: y[0], numbers: y[1], light: column },
    ],
    sum: (r, c) => dots(x[1], r, y[1], c) + (bias ? ` + ${factor(bias.data[c])}` : ""),
  };
}

/** What a norm does to a cell. */
function normSum(held: Held, x: Numbers): Pick<Sheet, "operands" | "sum"> {
  return {
    operands: [{ name: "x", numbers: x, light: row }],
    sum: (r, c) => {
      const [mean, deviation] = a.spread(x, r, held.model.norm, held.model.norm_eps);
      const above = held.model.norm === "rms" ? number(cell(x, r, c)) : `(${number(cell(x, r, c))} − ${factor(mean, 4)})`;
      return `${above} / ${number(deviation)} · γ + β`;
    },
  };
}

// From text to the first layer

/** The whole batch: its pieces, or their ids. */
async function batch({ trace, side }: Held, ids: boolean): Promise<readonly Sheet[]> {
  const all = trace.info.sides[side] ?? [];
  const read = all.map(names);
  return [
    {
      name: ids ? "ids" : "pieces",
      numbers: a.table(all.length, read[0].length, (r, c) => all[r].ids[c]),
      check: null,
      note: ids ? LOOKED_UP : NO_NUMBERS,
      rows: all.map((_, i) => String(i)),
      text: (r, c) => (ids ? String(all[r].ids[c]) : read[r][c]),
      operands: [],
      sum: (r, c) => `${JSON.stringify(all[r].pieces[c])} → ${all[r].ids[c]}`,
    },
  ];
}

async function embedding(held: Held): Promise<readonly Sheet[]> {
  const name = `${held.side}.embedding`;
  const [recorded, rows] = await Promise.all([held.sheet(name), held.whole(`parameters.${held.side}.embedding.tokens`)]);
  if (!rows) return sheet(held, "x", null, recorded, name, NOTHING);
  const batch = held.trace.info.sides[held.side] ?? [];
  const known = [...new Set(batch.flatMap(({ ids }) => ids))].sort((x, y) => x - y);
  const at = held.queries.ids.map((id) => known.indexOf(id));
  const taken = (by: number) => a.table(at.length, rows.columns, (r, c) => cell(rows, at[r], c) * by);
  const scales = [Math.sqrt(rows.columns), 1]; // section 3.4, or not
  const scale = scales.find((by) => held.compare(taken(by), recorded, name)?.agrees) ?? scales[0];
  return sheet(held, "x", taken(scale), recorded, name, {
    operands: [{ name: "E", numbers: rows, light: (r, c) => ({ row: at[r], column: c }) }],
    sum: (r, c) =>
      `E[${held.queries.ids[r]}, ${c}]${scale === 1 ? "" : ` · √${rows.columns}`} = ${number(cell(rows, at[r], c))}` +
      (scale === 1 ? "" : ` · ${number(scale)}`),
  });
}

async function positions(held: Held): Promise<readonly Sheet[]> {
  const name = `${held.side}.positions`;
  const whole = await held.whole(name);
  if (!whole) return [];
  const at = positionsOf(held.queries);
  const recorded = a.table(at.length, whole.columns, (r, c) => cell(whole, at[r], c));
  const d = whole.columns;
  if (!held.model.positions.startsWith("sinusoidal"))
    return [
      {
        name: "PE",
        numbers: recorded,
        check: null,
        note: { ko: "배운 표: 식이 없음", en: "learned: there is no formula" },
        rows: names(held.queries),
        operands: [{ name: "PE", numbers: whole, light: (r, c) => ({ row: at[r], column: c }) }],
        sum: (r, c) => `PE[${at[r]}, ${c}]`,
      },
    ];
  const halves = held.model.positions.endsWith("halves");
  const made = a.sinusoids(whole.rows, d, 10000, halves);
  const again = a.table(at.length, d, (r, c) => cell(made, at[r], c));
  const sines = Math.ceil(d / 2);
  return sheet(held, "PE", again, recorded, name, {
    operands: [{ name: "PE", numbers: whole, light: (r, c) => ({ row: at[r], column: c }) }],
    sum: (r, c) => {
      const sine = halves ? c < sines : c % 2 === 0;
      return `${sine ? "sin" : "cos"}(${at[r]} / 10000^(${2 * (halves ? c % sines : c >> 1)}/${d}))`;
    },
  });
}

async function sum(held: Held): Promise<readonly Sheet[]> {
  const { side } = held;
  const name = `${side}.hidden.0`;
  const [tokens, places, segments, recorded, widen, widenBias] = await Promise.all([
    held.sheet(`${side}.embedding`),
    held.whole(`${side}.positions`),
    held.whole(`${side}.segments`),
    held.sheet(name),
    held.whole(`parameters.${side}.embedding.widen.weight`),
    held.whole(`parameters.${side}.embedding.widen.bias`),
  ]);
  const at = positionsOf(held.queries);
  const added = (rows: Numbers, of: readonly number[]) => a.table(of.length, rows.columns, (r, c) => cell(rows, of[r], c));
  const place = places && added(places, at);
  const segment = segments && added(segments, held.queries.segments ?? at.map(() => 0));
  let again = held.trace.has(`parameters.${side}.embedding.tokens`) ? tokens : null; // else a norm may be missing
  for (const more of [place, segment]) if (again && more) again = a.add(again, more);
  if (again && held.trace.has(`parameters.${side}.embedding.norm.weight`)) again = await held.norm(again, "embedding.norm");
  if (again && widen) again = a.linear(again, a.transposed(widen), widenBias);
  return sheet(held, "x", again, recorded, name, addends(["x", tokens], ["PE", place], ["S", segment]));
}

// Attention

async function input(held: Held): Promise<readonly Sheet[]> {
  const { place, part } = held;
  const made: Message =
    part === "cross"
      ? { ko: "블록 decoder에서 계산함", en: "computed in block decoder" }
      : { ko: `층 ${place.layer - 1}에서 계산함`, en: `computed in layer ${place.layer - 1}` };
  const encoded: Message = { ko: "인코더의 마지막 출력", en: "the encoder's last output" };
  const x = await held.residual();
  const memory = part === "cross" ? await held.memory() : null;
  const plain = (name: string, numbers: Numbers | null, note: Message, of: Sequence): readonly Sheet[] =>
    numbers ? [{ name, numbers, check: null, note, rows: names(of), operands: [], sum: () => name }] : [];
  return [...plain("x", x, made, held.queries), ...plain("memory", memory, encoded, held.keys)];
}

/** A norm that stands by itself: before a part of a pre-norm layer, or behind the last. */
async function norm(held: Held, entering: Promise<Numbers | null>, parameters: string, result: string): Promise<readonly Sheet[]> {
  const x = await entering;
  return sheet(held, "LN(x)", await held.norm(x, parameters), await held.sheet(result), result, x ? normSum(held, x) : NOTHING);
}

function before(held: Held, part: string, entering: Promise<Numbers | null>): Promise<readonly Sheet[]> {
  return norm(held, entering, `${held.place.layer}.around_${part}.norm`, held.step(`${part}_input`));
}

const PROJECTIONS = [
  ["Q", "q", "query"],
  ["K", "k", "key"],
  ["V", "v", "value"],
] as const;

interface Projection {
  readonly letter: string;
  readonly vectors: Vectors;
  readonly made: Numbers | null;
  readonly of: Sequence;
  readonly there: Partial<Sheet> & Pick<Sheet, "sum">;
}

/** The three projections of this layer computed from what enters it; null where its weights are not held. */
function projections(held: Held): Promise<readonly Projection[]> {
  return held.once("projections", () => projectAll(held));
}

async function projectAll(held: Held): Promise<readonly Projection[]> {
  const x = await held.entering(held.part, await held.residual());
  const source = held.part === "cross" ? await held.memory() : x;
  return Promise.all(PROJECTIONS.map(([letter, vectors, name]) => projection(held, vectors === "q" ? x : source, letter, vectors, name)));
}

async function projection(held: Held, x: Numbers | null, letter: string, vectors: Vectors, name: string): Promise<Projection> {
  const map = await held.map(`${held.part}.${name}`);
  const made = x && map && a.linear(x, map.weight, map.bias);
  const of = vectors === "q" ? held.queries : held.keys;
  const there = x && map ? factors(["X", x], [`W_${letter}`, map.weight], map.bias) : NOTHING;
  return { letter, vectors, made, of, there };
}

/** The recorded vectors before they were turned; as they are where positions are not rotary. */
async function unturned(held: Held, vectors: Vectors, of: Sequence, head?: number): Promise<Numbers | null> {
  const recorded = await held.head(vectors, head);
  const angles = held.rotary && vectors !== "v" ? await held.whole("rotary") : null;
  return recorded && angles ? a.rotated(recorded, angles.data, positionsOf(of), -1) : recorded;
}

async function project(held: Held): Promise<readonly Sheet[]> {
  const sheets = await Promise.all(
    (await projections(held)).map(async ({ letter, vectors, made, of, there }) => {
      const { heads, key_heads } = held.block;
      const count = vectors === "q" ? heads : key_heads;
      const each = await Promise.all(
        Array.from({ length: count }, (_, i) => unturned(held, vectors, of, vectors === "q" ? i : (i * heads) / key_heads)),
      );
      const recorded = each.every((one) => one !== null) ? a.joined(each) : null;
      return sheet(held, letter, made, recorded, held.named(vectors), { ...there, rows: names(of) });
    }),
  );
  return sheets.flat();
}

/** The vectors of the head in focus: cut out of all heads, or turned by their positions. */
async function ofHead(held: Held, turn: boolean): Promise<readonly Sheet[]> {
  const { d_head: width } = held.block;
  const half = width / 2;
  const angles = turn ? await held.whole("rotary") : null;
  const sheets = await Promise.all(
    (await projections(held)).slice(0, turn ? 2 : 3).map(async ({ letter, vectors, made, of }) => {
      const from = width * (vectors === "q" ? held.place.head : held.keyHead(held.place.head));
      const at = positionsOf(of);
      const cut = made && a.part(made, from, width);
      const again = cut && angles ? a.rotated(cut, angles.data, at) : cut;
      const recorded = await (turn ? held.head(vectors) : unturned(held, vectors, of));
      const numbers = turn ? cut : made;
      return sheet(held, letter, again, recorded, held.named(vectors), {
        rows: names(of),
        operands: numbers ? [{ name: letter, numbers, light: (r, c) => ({ row: r, column: turn ? c : from + c }) }] : [],
        sum: (r, c) => {
          if (!angles || !cut) return `${letter}[${r}, ${from} + ${c}]`;
          const angle = `${at[r]}·${number(angles.data[c % half])}`;
          const other = factor(cell(cut, r, (c + half) % width));
          return `${factor(cell(cut, r, c))}·cos(${angle}) ${c < half ? "−" : "+"} ${other}·sin(${angle})`;
        },
      });
    }),
  );
  return sheets.flat();
}

/** q·k of every query and key, times the scale, plus the bias: computed here; and what was recorded of it. */
interface Scored {
  readonly q: Numbers | null;
  readonly keys: Numbers | null;
  readonly raw: Numbers | null;
  readonly scaled: Numbers | null;
  readonly bias: Numbers | null;
  readonly again: Numbers | null;
  readonly recorded: Numbers | null;
  readonly check: Agreement | null;
}

function scored(held: Held): Promise<Scored> {
  return held.once("scores", () => score(held));
}

async function score(held: Held): Promise<Scored> {
  const [q, k] = await Promise.all([held.head("q"), held.head("k")]);
  const keys = k && a.transposed(k);
  const raw = q && keys && a.product(q, keys);
  const made = raw && a.each(raw, (value) => scaleScore(value, held.block));
  const bias = await held.trace.bias(held.place);
  const name = held.named("scores");
  const recorded = held.trace.has(name) ? await held.trace.scores(held.place) : null;
  const again = made && bias ? a.add(made, bias) : made;
  return { q, keys, raw, scaled: made, bias, again, recorded, check: held.compare(again, recorded, name) };
}

const SCORES_LATER: Message = {
  ko: "점수는 기록에 없음: softmax에서 확인함",
  en: "no scores in the trace: the softmax checks them",
};

/** A sheet on the way to the scores: it stands when the scores do. */
function onTheWay(held: Held, name: string, numbers: Numbers | null, check: Agreement | null, more: Pick<Sheet, "operands" | "sum">): readonly Sheet[] {
  if (!numbers) return [];
  return [{ name, numbers, check, note: check ? undefined : SCORES_LATER, rows: names(held.queries), columns: names(held.keys), ...more }];
}

async function dot(held: Held): Promise<readonly Sheet[]> {
  const { q, keys, raw, check } = await scored(held);
  return q && keys ? onTheWay(held, "QKᵀ", raw, check, factors(["Q", q], ["Kᵀ", keys])) : [];
}

async function scale(held: Held): Promise<readonly Sheet[]> {
  const { raw, scaled, check } = await scored(held);
  const root = 1 / held.block.scale;
  const cap = held.block.softcap;
  if (!raw) return [];
  return onTheWay(held, "QKᵀ/√d", scaled, check, {
    operands: [{ name: "QKᵀ", numbers: raw, light: both }],
    sum: (r, c) => {
      const quotient = `${number(cell(raw, r, c))} / ${number(root)}`;
      return cap ? `${number(cap)}·tanh(${quotient} / ${number(cap)})` : quotient;
    },
  });
}

async function bias(held: Held): Promise<readonly Sheet[]> {
  const { scaled, bias, again, check } = await scored(held);
  return onTheWay(held, "QKᵀ/√d + B", again, check, addends(["QKᵀ/√d", scaled], ["B", bias]));
}

/** Scores as softmax meets them: recorded, else computed; null without vectors. */
async function given(held: Held): Promise<Numbers | null> {
  const { recorded, again } = await scored(held);
  return recorded ?? again;
}

async function mask(held: Held): Promise<readonly Sheet[]> {
  const [scores, mask] = await Promise.all([given(held), held.mask()]);
  const { rows, columns } = mask;
  const may = a.table(rows, columns, (r, c) => (held.keys.real[c] && !(held.block.causal && c > r) ? 1 : 0));
  const real = (numbers: Numbers) => a.table(rows, columns, (r, c) => (held.queries.real[r] ? cell(numbers, r, c) : 0));
  const check = a.agreement(real(may), real(mask), 0);
  const masked = scores ? a.table(rows, columns, (r, c) => (cell(mask, r, c) ? cell(scores, r, c) : -Infinity)) : mask;
  return [
    {
      name: scores ? "QKᵀ/√d + M" : "M",
      numbers: masked,
      check,
      rows: names(held.queries),
      columns: names(held.keys),
      operands: [{ name: "M", numbers: mask, light: both }, ...(scores ? [{ name: "QKᵀ/√d", numbers: scores, light: both }] : [])],
      sum: (r, c) => {
        const open = cell(mask, r, c) === 1;
        const why = held.keys.real[c] ? (held.block.causal && c > r ? `${c} > ${r}` : "") : "[PAD]";
        return `M = ${open ? "1 ✓" : `0 ${why}`}`;
      },
    },
  ];
}

/** Whether this head was switched off. */
export function muted(trace: Trace, place: HeadLocation): boolean {
  return trace.info.muted.some(([block, layer, head]) => block === place.block && layer === place.layer && head === place.head);
}

async function softmax(held: Held): Promise<readonly Sheet[]> {
  const [scores, mask, weights] = await Promise.all([given(held), held.mask(), held.trace.weights(held.place)]);
  const off = muted(held.trace, held.place);
  const made = scores && a.softmax(scores, mask.data);
  const again = made && (off ? a.each(made, () => 0) : made);
  const [sheetMade] = sheet(held, "A", again, weights, held.named("weights"), {
    columns: names(held.keys),
    operands: scores ? [{ name: "QKᵀ/√d + M", numbers: scores, light: row }] : [],
    sum: (r, c) => {
      if (off || !scores || !cell(mask, r, c)) return "0";
      const open = Array.from({ length: mask.columns }, (_, s) => s).filter((s) => s !== c && cell(mask, r, s));
      const e = (s: number) => `e^${number(cell(scores, r, s), 2)}`;
      return `${e(c)} / (${[c, ...open.slice(0, 2)].map(e).join(" + ")}${open.length > 2 ? ` + … (${open.length + 1})` : ""})`;
    },
  });
  const silent: Message = { ko: "꺼진 머리: 0으로 바꿈", en: "a muted head: set to 0" };
  return [off ? { ...sheetMade, note: silent } : sheetMade];
}

async function mixedHead(held: Held, head: number): Promise<{ weights: Numbers; v: Numbers; again: Numbers } | null> {
  const [weights, v] = await Promise.all([held.trace.weights({ ...held.place, head }), held.head("v", head)]);
  return v && { weights, v, again: a.product(weights, v) };
}

async function mixed(held: Held): Promise<readonly Sheet[]> {
  const made = await mixedHead(held, held.place.head);
  if (!made) return [];
  return sheet(held, "A V", made.again, await held.head("mixed"), held.named("mixed"), factors(["A", made.weights], ["V", made.v]));
}

async function concat(held: Held): Promise<readonly Sheet[]> {
  const recorded = await held.heads("mixed");
  if (!recorded) return [];
  const { heads, d_head: width } = held.block;
  const made = await Promise.all(Array.from({ length: heads }, (_, head) => mixedHead(held, head)));
  const again = made.every((one) => one !== null) ? a.joined(made.map((one) => one.again)) : null;
  return sheet(held, "concat", again, recorded, held.named("mixed"), {
    operands: made.flatMap((one, i) =>
      one && i < 4
        ? [{ name: `head ${i}`, numbers: one.again, light: (r: number, c: number) => (Math.floor(c / width) === i ? { row: r, column: c % width } : {}) }]
        : [],
    ),
    sum: (r, c) => `head_${Math.floor(c / width)}[${r}, ${c % width}]`,
  });
}

/** A linear map of the layer over x, against what was recorded of its result. */
async function mapped(held: Held, letters: readonly [string, string, string], x: Numbers | null, weight: string, result: string): Promise<readonly Sheet[]> {
  const name = held.step(result);
  const map = await held.map(weight);
  const again = x && map && a.linear(x, map.weight, map.bias);
  return sheet(held, letters[0], again, await held.sheet(name), name, x && map ? factors([letters[1], x], [letters[2], map.weight], map.bias) : NOTHING);
}

async function output(held: Held): Promise<readonly Sheet[]> {
  return mapped(held, ["Y", "concat", "W_O"], await held.heads("mixed"), `${held.part}.output`, held.part);
}

// What follows attention

/** What enters the feed-forward, before any norm. */
function enteringLast(held: Held): Promise<Numbers | null> {
  return held.sheet(held.step(held.hasCross ? "after_cross" : "after_attention"));
}

/** Add & Norm around a part: x is what entered it. */
async function addNorm(held: Held, part: string, entering: Promise<Numbers | null>): Promise<readonly Sheet[]> {
  const name = held.step(`after_${part}`);
  const [x, y, recorded] = await Promise.all([entering, held.sheet(held.step(part)), held.sheet(name)]);
  const added = x && y && a.add(x, y);
  if (held.model.norm_first) return sheet(held, "x + Y", added, recorded, name, addends(["x", x], ["Y", y]));
  const again = await held.norm(added, `${held.place.layer}.around_${part}.norm`);
  if (!added || !x || !y) return sheet(held, "LN(x + Y)", null, recorded, name, NOTHING);
  const { operands } = addends(["x", x], ["Y", y]);
  const { sum } = normSum(held, added);
  return sheet(held, "LN(x + Y)", again, recorded, name, { operands, sum });
}

async function widen(held: Held): Promise<readonly Sheet[]> {
  const name = held.step("hidden");
  const x = await held.entering("feed_forward", await enteringLast(held));
  const [up, gate, recorded] = await Promise.all([held.map("feed_forward.up"), held.map("feed_forward.gate"), held.sheet(name)]);
  const activation = a.activations[held.model.activation];
  if (!x || !up || !activation || (held.model.gated && !gate)) return sheet(held, "FFN", null, recorded, name, NOTHING);
  const widened = a.linear(x, up.weight, up.bias);
  const opening = gate && a.linear(x, gate.weight, gate.bias);
  const activated = a.each(widened, (value) => activation(value));
  const { operands, sum } = factors(["X", x], ["W_1", up.weight], up.bias);
  return sheet(held, "FFN", opening ? a.both(activated, opening, (f, g) => f * g) : activated, recorded, name, {
    operands: gate ? [...operands, { name: "W_g", numbers: gate.weight, light: column }] : operands,
    sum: (r, c) => `${held.model.activation}(${sum(r, c)})${opening ? ` · ${factor(cell(opening, r, c))}` : ""}`,
  });
}

async function narrow(held: Held): Promise<readonly Sheet[]> {
  return mapped(held, ["Y", "FFN", "W_2"], await held.sheet(held.step("hidden")), "feed_forward.down", "feed_forward");
}
