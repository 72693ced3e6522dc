/** Weights as displayed: by piece, syllable or word; with or without special tokens; optionally times the value norms. */

import { readablePieces, syllableGroups } from "../draw/text";
import { measure, type Measure, specials, type Specials, type Unit, unit } from "../state/state";
import type { Message } from "../i18n/i18n";
import type { HeadLocation, Sequence } from "./format";
import type { Matrix } from "./matrix";
import type { Trace } from "./trace";

/** A row or a column of the displayed matrix. */
export interface Label {
  readonly text: string; // readable text; for drawing: displayText(text)
  readonly pieces: readonly number[];
  readonly special: boolean;
  readonly real: boolean; // false: padding
}

export interface DisplayedWeights {
  readonly matrix: Matrix;
  readonly queries: readonly Label[];
  readonly keys: readonly Label[];
  /** The row and the column of a piece. */
  readonly rowOf: (piece: number) => number;
  readonly columnOf: (piece: number) => number;
  /** 1 where the query may attend to some piece of the key, in row-major order. */
  readonly allowed: Uint8Array;
  /** How the weights were processed; null: unchanged. */
  readonly note: Message | null;
}

export interface DisplayOptions {
  readonly unit: Unit;
  readonly specials: Specials;
  readonly measure: Measure;
}

/** The current display options. */
export function displayOptions(): DisplayOptions {
  return { unit: unit.value, specials: specials.value, measure: measure.value };
}

/** The part of Trace that is read here; a view may pass its own, with other rows. */
export type WeightSource = Pick<Trace, "has" | "weights" | "valueNorms" | "mask" | "queries" | "keys">;

/** The displayed weights of a head; signals are read before the first await. */
export function displayWeights(trace: WeightSource, location: HeadLocation, options: DisplayOptions = displayOptions()): Promise<DisplayedWeights> {
  let entries = cache.get(trace);
  if (!entries) cache.set(trace, (entries = new Map()));
  const name = [location.block, location.sequence, location.layer, location.head, options.unit, options.specials, options.measure].join();
  const found = entries.get(name) ?? compute(trace, location, options);
  entries.delete(name);
  entries.set(name, found); // most recently used last
  found.catch(() => entries.delete(name));
  for (const oldest of entries.keys()) {
    if (entries.size <= MAX_CACHED) break;
    entries.delete(oldest);
  }
  return found;
}

const MAX_CACHED = 12; // heads
const cache = new WeakMap<WeightSource, Map<string, Promise<DisplayedWeights>>>();

async function compute(trace: WeightSource, location: HeadLocation, options: DisplayOptions): Promise<DisplayedWeights> {
  const [weights, norms, mask] = await Promise.all([
    trace.weights(location),
    options.measure === "values" ? trace.valueNorms(location) : null,
    trace.has(`${location.block}.mask`) ? trace.mask(location) : null,
  ]);
  const queries = labels(trace.queries(location), options.unit);
  const keys = labels(trace.keys(location), options.unit);
  const rowOf = labelIndices(queries);
  const columnOf = labelIndices(keys);
  const { rows, columns } = weights;
  const data = new Float32Array(queries.length * keys.length);
  const allowed = new Uint8Array(queries.length * keys.length);
  for (let t = 0; t < rows; t++) {
    const fraction = 1 / queries[rowOf[t]].pieces.length; // mean over the pieces of the query
    const first = rowOf[t] * keys.length;
    for (let s = 0; s < columns; s++) {
      const to = first + columnOf[s]; // sum over the pieces of the key
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
    const merged = pieces.length > 1 || unit === "word"; // words are displayed without marks
    result.push({
      text: merged && end > start ? text.slice(start, end).join("").trim() : pieces.map((i) => read[i]).join(""),
      pieces,
      special: sequence.special[from] === 1,
      real: sequence.real[from] === 1,
    });
  }
  return result;
}

/** A group id for each piece; neighbours with the same id are displayed as one. */
function groupIds(sequence: Sequence, unit: Unit): readonly number[] {
  if (unit === "syllable") return syllableGroups(sequence);
  if (unit === "word") return sequence.words.map((word, i) => (word < 0 || sequence.special[i] ? -1 - i : word));
  return sequence.pieces.map((_, i) => i);
}

/** The label index of each piece. */
function labelIndices(labels: readonly Label[]): Int32Array {
  const last = labels.at(-1)?.pieces.at(-1) ?? -1;
  const result = new Int32Array(last + 1);
  labels.forEach(({ pieces }, row) => {
    for (const piece of pieces) result[piece] = row;
  });
  return result;
}

/** Removes special keys and renormalises each row; a row without other keys becomes zeros. */
function renormalise({ rows, columns, data }: Matrix, keys: readonly Label[]): void {
  for (let row = 0; row < rows; row++) {
    const cells = data.subarray(row * columns, (row + 1) * columns);
    let sum = 0;
    for (let s = 0; s < columns; s++) {
      if (keys[s].special) cells[s] = 0;
      sum += cells[s];
    }
    if (sum > 0) for (let s = 0; s < columns; s++) cells[s] /= sum;
  }
}

function note(options: DisplayOptions, hasNorms: boolean): Message | null {
  const notes: Message[] = [];
  if (options.unit !== "piece")
    notes.push({ ko: "병합: 키는 합, 쿼리는 평균", en: "merged: sum over keys, mean over queries" });
  const renormalised = options.specials === "renormalise";
  if (options.measure === "values" && !hasNorms)
    notes.push({ ko: "트레이스에 값 벡터의 크기가 없어 가중치만 표시", en: "no value norms in this trace: weights only" });
  else if (options.measure === "values")
    notes.push({
      ko: `가중치 × ‖v W_O‖${renormalised ? "" : ": 행의 합이 1이 아님"}`,
      en: `weight × ‖v W_O‖${renormalised ? "" : ": rows do not sum to 1"}`,
    });
  if (renormalised)
    notes.push({ ko: "특수 토큰 제외, 행마다 재정규화", en: "special tokens excluded, rows renormalized" });
  if (notes.length === 0) return null;
  return { ko: notes.map(({ ko }) => ko).join(" · "), en: notes.map(({ en }) => en).join(" · ") };
}
