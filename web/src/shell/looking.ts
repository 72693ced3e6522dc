/** What can be said of one query and one key: exact numbers, and how they come about. */

import type { Place } from "../trace/format";
import { type Matrix, at, rowOf, scaled } from "../trace/matrix";
import { type Label, type Showing, shown } from "../trace/shown";
import type { Trace } from "../trace/trace";

export interface Look {
  readonly query: Label;
  readonly key: Label | null; // null: only the query is known
  /** The weight in the unit of the page, nothing else done to it. */
  readonly weight: number;
  readonly rank: number; // 1: the largest of its row
  readonly of: number; // keys that may be seen
  /** What the picture shows, where that is something else. */
  readonly pictured: number | null;
  readonly entropy: number; // of the row, in bits
  readonly likeliest: readonly { readonly label: Label; readonly weight: number }[];
  /** Of a single piece on each side, where they were kept. */
  readonly score: Score | null;
  readonly sight: "seen" | "padding" | "later" | "hidden";
  readonly norm: number | null; // |v W_O| of the key
  readonly exact: boolean; // false: read off a thumbnail
}

export interface Score {
  readonly product: number; // q·k
  readonly scale: number;
  readonly softcap: number | null;
  readonly bias: number | null;
  readonly score: number; // before the mask
}

/** Looks at piece `query` and piece `key` of a head. */
export async function look(trace: Trace, place: Place, query: number, key: number | null, how: Showing): Promise<Look> {
  const plain = await shown(trace, place, { unit: how.unit, specials: "plain", measure: "weights" });
  const row = plain.ofQuery(query);
  const weights = rowOf(plain.matrix, row);
  const allowed = (column: number) => plain.allowed[row * weights.length + column] === 1;
  const column = key === null ? -1 : plain.ofKey(key);
  const weight = key === null ? Number.NaN : weights[column];
  const asking = plain.queries[row];
  const told = key === null ? null : plain.keys[column];
  const single = told && asking.pieces.length === 1 && told.pieces.length === 1;
  const changed = how.specials === "renormalise" || how.measure === "values";
  const [norms, score, pictured] = await Promise.all([
    single ? trace.valueNorms(place) : null,
    single && key !== null ? scoreOf(trace, place, query, key) : null,
    changed && told ? shown(trace, place, how) : null,
  ]);
  const order = [...weights.keys()].filter(allowed).sort((a, b) => weights[b] - weights[a]);
  return {
    query: asking,
    key: told,
    weight,
    rank: 1 + weights.reduce((larger, other) => larger + Number(other > weight), 0),
    of: order.length,
    pictured: pictured ? at(pictured.matrix, row, column) : null,
    entropy: entropyOf(weights),
    likeliest: order.slice(0, 5).map((place) => ({ label: plain.keys[place], weight: weights[place] })),
    score,
    sight: !told || allowed(column) ? "seen" : sightOf(trace, place, query, told),
    norm: norms && key !== null ? norms[key] : null,
    exact: trace.exact(place),
  };
}

function sightOf(trace: Trace, place: Place, query: number, key: Label): Look["sight"] {
  if (!key.real) return "padding";
  return trace.block(place.block).causal && key.pieces[0] > query ? "later" : "hidden";
}

/** How a score comes about; null where q and k were not kept. */
async function scoreOf(trace: Trace, place: Place, query: number, key: number): Promise<Score | null> {
  if (!trace.has(`${place.block}.${place.layer}.q`)) return null;
  const recorded = trace.has(`${place.block}.${place.layer}.scores`);
  const [q, k, bias, scores] = await Promise.all([
    trace.q(place),
    trace.k(place),
    trace.bias(place),
    recorded ? trace.scores(place) : null,
  ]);
  const block = trace.block(place.block);
  const product = dot(q, query, k, key);
  const added = bias ? at(bias, query, key) : null;
  const score = scores ? at(scores, query, key) : scaled(product, block) + (added ?? 0);
  return { product, scale: block.scale, softcap: block.softcap ?? null, bias: added, score };
}

function dot(q: Matrix, row: number, k: Matrix, column: number): number {
  const keys = rowOf(k, column);
  return rowOf(q, row).reduce((sum, number, i) => sum + number * keys[i], 0);
}

/** -Σ w log₂ w. */
export function entropyOf(weights: Float32Array): number {
  return weights.reduce((sum, weight) => (weight > 0 ? sum - weight * Math.log2(weight) : sum), 0);
}
