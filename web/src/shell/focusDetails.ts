/** Exact numbers of one query and one key, and how they are computed. */

import type { HeadLocation } from "../trace/format";
import { type Matrix, rowOf, scaleScore, valueAt } from "../trace/matrix";
import { type DisplayOptions, displayWeights, type Label } from "../trace/display";
import type { Trace } from "../trace/trace";

export interface FocusDetails {
  readonly query: Label;
  readonly key: Label | null; // null: only a query is focused
  /** The weight in the current unit, without any other change. */
  readonly weight: number;
  readonly rank: number; // 1: the largest of its row
  readonly visibleKeys: number; // number of keys that are not masked
  /** The displayed number, where it differs from the weight. */
  readonly displayed: number | null;
  readonly entropy: number; // of the row, in bits
  readonly topKeys: readonly { readonly label: Label; readonly weight: number }[];
  /** For a single piece on each side, if q and k were recorded. */
  readonly score: ScoreParts | null;
  readonly visibility: "unmasked" | "padding" | "later" | "masked";
  readonly norm: number | null; // |v W_O| of the key
  readonly exact: boolean; // false: read from a thumbnail
}

export interface ScoreParts {
  readonly product: number; // q·k
  readonly scale: number;
  readonly softcap: number | null;
  readonly bias: number | null;
  readonly score: number; // before the mask
}

/** The details of piece `query` and piece `key` of a head. */
export async function focusDetails(trace: Trace, location: HeadLocation, query: number, key: number | null, options: DisplayOptions): Promise<FocusDetails> {
  const plain = await displayWeights(trace, location, { unit: options.unit, specials: "plain", measure: "weights" });
  const row = plain.rowOf(query);
  const weights = rowOf(plain.matrix, row);
  const allowed = (column: number) => plain.allowed[row * weights.length + column] === 1;
  const column = key === null ? -1 : plain.columnOf(key);
  const weight = key === null ? Number.NaN : weights[column];
  const queryLabel = plain.queries[row];
  const keyLabel = key === null ? null : plain.keys[column];
  const single = keyLabel && queryLabel.pieces.length === 1 && keyLabel.pieces.length === 1;
  const changed = options.specials === "renormalise" || options.measure === "values";
  const [norms, score, displayed] = await Promise.all([
    single ? trace.valueNorms(location) : null,
    single && key !== null ? scoreParts(trace, location, query, key) : null,
    changed && keyLabel ? displayWeights(trace, location, options) : null,
  ]);
  const order = [...weights.keys()].filter(allowed).sort((a, b) => weights[b] - weights[a]);
  return {
    query: queryLabel,
    key: keyLabel,
    weight,
    rank: 1 + weights.reduce((larger, other) => larger + Number(other > weight), 0),
    visibleKeys: order.length,
    displayed: displayed ? valueAt(displayed.matrix, row, column) : null,
    entropy: entropyOf(weights),
    topKeys: order.slice(0, 5).map((index) => ({ label: plain.keys[index], weight: weights[index] })),
    score,
    visibility: !keyLabel || allowed(column) ? "unmasked" : visibilityOf(trace, location, query, keyLabel),
    norm: norms && key !== null ? norms[key] : null,
    exact: trace.hasExactWeights(location),
  };
}

function visibilityOf(trace: Trace, location: HeadLocation, query: number, key: Label): FocusDetails["visibility"] {
  if (!key.real) return "padding";
  return trace.block(location.block).causal && key.pieces[0] > query ? "later" : "masked";
}

/** The terms of a score; null if q and k were not recorded. */
async function scoreParts(trace: Trace, location: HeadLocation, query: number, key: number): Promise<ScoreParts | null> {
  if (!trace.has(`${location.block}.${location.layer}.q`)) return null;
  const recorded = trace.has(`${location.block}.${location.layer}.scores`);
  const [q, k, bias, scores] = await Promise.all([
    trace.q(location),
    trace.k(location),
    trace.bias(location),
    recorded ? trace.scores(location) : null,
  ]);
  const block = trace.block(location.block);
  const product = dot(q, query, k, key);
  const added = bias ? valueAt(bias, query, key) : null;
  const score = scores ? valueAt(scores, query, key) : scaleScore(product, block) + (added ?? 0);
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
