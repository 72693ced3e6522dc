/** The recorded data of one head: vectors, bias, mask, weights and token texts. */

import { displayText, readablePieces } from "../../draw/text";
import { focusedHead } from "../../state/state";
import { setting } from "../../state/settings";
import type { Block, HeadLocation, Sequence } from "../../trace/format";
import type { Matrix } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import type { Message } from "../../i18n/i18n";
import { TOLERANCE } from "../calculation/arithmetic";
import { selected } from "../choice";
import { dimensions, type HeadParts, type RecomputedRow, recomputeRow } from "./recompute";

export const SORTS: Readonly<Record<"index" | "contribution", Message>> = {
  index: { ko: "번호순", en: "by index" },
  contribution: { ko: "이 키에 대한 기여도순", en: "by contribution to this key" },
};
export const sort = setting<"index" | "contribution">("neuron", "sort", "index");
/** Rotary positions: dimension i next to i + K/2. */
export const pairs = setting<boolean>("neuron", "pairs", false);
/** Whether every number of the pair is shown in a table. */
export const open = setting<boolean>("neuron", "open", false);

export interface HeadData {
  readonly location: HeadLocation;
  readonly block: Block;
  readonly parts: HeadParts;
  readonly weights: Matrix;
  readonly tolerance: number;
  readonly queries: readonly string[];
  readonly keys: readonly string[];
  readonly first: number; // the default query
  readonly rotary: boolean;
}

/** Null if the trace has no q and k of the layer. */
export async function loadHead(trace: Trace): Promise<HeadData | null> {
  const at = focusedHead.value;
  const { info } = trace;
  if (!trace.has(`${at.block}.${at.layer}.q`) || !trace.has(`${at.block}.${at.layer}.k`)) return null;
  const block = trace.block(at.block);
  const [q, k, bias, mask, weights] = await Promise.all([
    trace.q(at),
    trace.k(at),
    trace.bias(at),
    trace.mask(at),
    trace.weights(at),
  ]);
  const queries = trace.queries(at);
  const muted = info.muted.some(([name, layer, head]) => name === at.block && layer === at.layer && head === at.head);
  return {
    location: at,
    block,
    parts: { q, k, scale: block.scale, softcap: block.softcap ?? null, bias, mask, muted },
    weights,
    tolerance: trace.dtype(`${at.block}.${at.layer}.weights`) === "F32" ? TOLERANCE.F32 : TOLERANCE.F16,
    queries: texts(queries),
    keys: texts(trace.keys(at)),
    first: Math.max(
      0,
      queries.special.findIndex((special, i) => !special && queries.real[i] === 1),
    ),
    rotary: at.block !== "cross" && info.model.layer_kinds?.[at.layer] !== "N" && (trace.has("rotary") || info.model.positions.endsWith("rotary")),
  };
}

const texts = (sequence: Sequence) => readablePieces(sequence).map(displayText);

/** One query of a head: its recomputed row of weights, and the order of the dimensions. */
export interface QueryRow {
  readonly query: number;
  readonly row: RecomputedRow;
  readonly recorded: Float32Array;
  readonly order: readonly number[];
}

export interface Selection {
  readonly queryRow: QueryRow;
  readonly key: number; // the focused key; else the one with the largest weight
  readonly locked: number | null;
}

/** The focused query and key; the query row stays the same object while only the key changes. */
export function select(
  data: HeadData,
  focus: { readonly query: number | null; readonly key: number | null; readonly locked: number | null },
): Selection {
  const { q, k } = data.parts;
  const query = within(focus.query, q.rows) ?? data.first;
  const recorded = vector(data.weights, query);
  const topKey = recorded.reduce((best, weight, at) => (weight > recorded[best] ? at : best), 0);
  const key = within(focus.key, k.rows) ?? topKey;
  const locked = within(focus.locked, k.rows);
  const by = selected(sort, SORTS) === "contribution" ? vector(k, locked ?? key) : null;
  const order = dimensions(vector(q, query), by, data.rotary && pairs.value === true && q.columns % 2 === 0);
  const last = lastRow.get(data);
  if (last?.query === query && last.order.every((i, n) => i === order[n])) return { queryRow: last, key, locked };
  const queryRow = { query, row: recomputeRow(data.parts, query), recorded, order };
  lastRow.set(data, queryRow);
  return { queryRow, key, locked };
}

const lastRow = new WeakMap<HeadData, QueryRow>(); // the latest row of each head

export function vector({ data, columns }: Matrix, row: number): Float32Array {
  return data.subarray(row * columns, (row + 1) * columns);
}

function within(index: number | null, count: number): number | null {
  return index !== null && index < count ? index : null;
}
