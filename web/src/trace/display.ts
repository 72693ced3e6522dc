/** Weights as the page shows them: in pieces, syllables or words; with special tokens or without; times what arrives. */

import { syllableGroups, readablePieces } from "../draw/text";
import { measure, type Measure, specials, type Specials, type Unit, unit } from "../state/state";
import type { Message } from "../i18n/i18n";
import type { HeadLocation, Sequence } from "./format";
import type { Matrix } from "./matrix";
import type { Trace } from "./trace";

/** A row or a column of the picture. */
export interface Label {
  readonly text: string; // as it is read; for drawing: display(text)
  readonly pieces: readonly number[];
  readonly special: boolean;
  readonly real: boolean; // false: padding
}

export interface DisplayedWeights {
  readonly matrix: Matrix;
  readonly queries: readonly Label[];
  readonly keys: readonly Label[];
  /** The row of a piece, the column of a piece. */
  readonly rowOf: (piece: number) => number;
  readonly columnOf: (piece: number) => number;
  /** 1 where the query may attend to some piece of the key, row after row. */
  readonly allowed: Uint8Array;
  /** What was done to the weights; null: nothing. */
  readonly note: Message | null;
}

export interface DisplayOptions {
  readonly unit: Unit;
  readonly specials: Specials;
  readonly measure: Measure;
}

/** How the page shows weights now. */
export function displayOptions(): DisplayOptions {
  return { unit: unit.value, specials: specials.value, measure: measure.value };
}

/** What is read of a trace; a view may hand in its own, with rows in another order. */
export type WeightSource = Pick<Trace, "has" | "weights" | "valueNorms" | "mask" | "queries" | "keys">;

/** The weights of a head as the page, or `how`, shows them; signals are read before anything is awaited. */
export function displayWeights(trace: WeightSource, place: HeadLocation, options: DisplayOptions = displayOptions()): Promise<DisplayedWeights> {
  let entries = cache.get(trace);
  if (!entries) cache.set(trace, (entries = new Map()));
  const name = [place.block, place.sequence, place.layer, place.head, options.unit, options.specials, options.measure].join();
  const found = entries.get(name) ?? compute(trace, place, options);
  entries.delete(name);
  entries.set(name, found); // the newest stands last
  found.catch(() => entries.delete(name));
  for (const oldest of entries.keys()) {
    if (entries.size <= MAX_CACHED) break;
    entries.delete(oldest);
  }
  return found;
}

const MAX_CACHED = 12; // heads that are kept as they were shown last
const cache = new WeakMap<WeightSource, Map<string, Promise<DisplayedWeights>>>();

async function compute(trace: WeightSource, place: HeadLocation, options: DisplayOptions): Promise<DisplayedWeights> {
  const [weights, norms, mask] = await Promise.all([
    trace.weights(place),
    options.measure === "values" ? trace.valueNorms(place) : null,
    trace.has(`${place.block}.mask`) ? trace.mask(place.block, place.sequence) : null,
  ]);
  const queries = labels(trace.queries(place), options.unit);
  const keys = labels(trace.keys(place), options.unit);
  const rowOf = labelIndices(queries);
  const columnOf = labelIndices(keys);
  const { rows, columns } = weights;
  const data = new Float32Array(queries.length * keys.length);
  const allowed = new Uint8Array(queries.length * keys.length);
  for (let t = 0; t < rows; t++) {
    const fraction = 1 / queries[rowOf[t]].pieces.length; // mean over the pieces that ask
    const first = rowOf[t] * keys.length;
    for (let s = 0; s < columns; s++) {
      const to = first + columnOf[s]; // sum over the pieces looked at
      data[to] += fraction * weights.data[t * columns + s] * (norms ? norms[s] : 1);
      if (!mask || mask.data[t * columns + s]) allowed[to] = 1;
    }
  }
  const matrix = { rows: queries.length, columns: keys.length, data };
  if (options.specials === "renormalise") renormalise(matrix, keys);
  return {
    matrix,
    queries,
    keys,
    rowOf: (piece) => rowOf[piece],
    columnOf: (piece) => columnOf[piece],
    allowed,
    note: note(options, norms !== null),
  };
}

/** The labels of a sequence in a unit. */
export function labels(sequence: Sequence, unit: Unit): readonly Label[] {
  const groups = groupIds(sequence, unit);
  const text = Array.from(sequence.text);
  const read = readablePieces(sequence);
  const result: Label[] = [];
  for (let from = 0, to = 0; from < groups.length; from = to) {
    while (to < groups.length && groups[to] === groups[from]) to++;
    const pieces = Array.from({ length: to - from }, (_, i) => from + i);
    const start = sequence.spans[from][0];
    const end = sequence.spans[to - 1][1];
    const merged = pieces.length > 1 || unit === "word"; // words stand for themselves, without marks
    result.push({
      text: merged && end > start ? text.slice(start, end).join("").trim() : pieces.map((i) => read[i]).join(""),
      pieces,
      special: sequence.special[from] === 1,
      real: sequence.real[from] === 1,
    });
  }
  return result;
}

/** A number for each piece; neighbours with one number are shown as one. */
function groupIds(sequence: Sequence, unit: Unit): readonly number[] {
  if (unit === "syllable") return syllableGroups(sequence);
  if (unit === "word") return sequence.words.map((word, i) => (word < 0 || sequence.special[i] ? -1 - i : word));
  return sequence.pieces.map((_, i) => i);
}

/** Of each piece, the label it is under. */
function labelIndices(labels: readonly Label[]): Int32Array {
  const last = labels.at(-1)?.pieces.at(-1) ?? -1;
  const result = new Int32Array(last + 1);
  labels.forEach(({ pieces }, row) => {
    for (const piece of pieces) result[piece] = row;
  });
  return result;
}

/** Takes special keys out and divides each row by what is left of it; a row with nothing left is zeros. */
function renormalise({ rows, columns, data }: Matrix, keys: readonly Label[]): void {
  for (let row = 0; row < rows; row++) {
    const cells = data.subarray(row * columns, (row + 1) * columns);
    let entries = 0;
    for (let s = 0; s < columns; s++) {
      if (keys[s].special) cells[s] = 0;
      entries += cells[s];
    }
    if (entries > 0) for (let s = 0; s < columns; s++) cells[s] /= entries;
  }
}

function note(options: DisplayOptions, hasNorms: boolean): Message | null {
  const notes: Message[] = [];
  if (options.unit !== "piece")
    notes.push({ ko: "묶음: 키는 더하고 질의는 평균", en: "merged: sum over keys, mean over queries" });
  const renormalised = options.specials === "renormalise";
  if (options.measure === "values" && !hasNorms)
    notes.push({ ko: "값의 크기가 기록에 없어 가중치만 그림", en: "no value norms in this trace: plain weights" });
  else if (options.measure === "values")
    notes.push({
      ko: `가중치 × ‖v W_O‖${renormalised ? "" : ": 행의 합이 1이 아님"}`,
      en: `weight × ‖v W_O‖${renormalised ? "" : ": rows do not sum to 1"}`,
    });
  if (renormalised)
    notes.push({ ko: "특수 토큰을 빼고 행마다 다시 나눔", en: "special tokens taken out, each row divided anew" });
  if (notes.length === 0) return null;
  return { ko: notes.map(({ ko }) => ko).join(" · "), en: notes.map(({ en }) => en).join(" · ") };
}
