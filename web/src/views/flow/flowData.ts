/**
 * The path of a text through the model as columns of one row per token: embedding, then attention, cross-attention and
 * feed-forward of each layer, then the output. All numbers are those of the trace.
 */

import type { Block, BlockName, Candidate, Side } from "../../trace/format";
import { labels, type Label } from "../../trace/display";
import { NO_BYTES, pieceReader } from "../../draw/text";
import type { Trace } from "../../trace/trace";
import type { Matrix } from "../../trace/matrix";

export type ColumnKind = "tokens" | "embedding" | "attention" | "cross" | "feed_forward" | "lens" | "output";

export interface Link {
  readonly query: number; // rows
  readonly key: number;
  readonly weight: number; // mean over the heads
}

export interface Column {
  readonly kind: ColumnKind;
  readonly side: Side;
  readonly layer: number; // -1: before or after the layers
  readonly block: BlockName | null; // of the attention
  /** What the sublayer adds to the residual stream, as a fraction of its norm, per token; null: not recorded. */
  readonly added: Float32Array | null;
  /** The norm of the residual stream after the column, per token; null: not recorded. */
  readonly norm: Float32Array | null;
  readonly links: readonly Link[];
  /** The weights of each head of the attention, (T, S); those that were recorded. */
  readonly heads: readonly (Matrix | null)[];
  /** The logit lens after the layer: candidates of each token, the most probable first. */
  readonly lens?: readonly (readonly Candidate[])[];
}

export interface Flow {
  readonly sides: readonly { readonly side: Side; readonly tokens: readonly Label[]; readonly columns: readonly Column[] }[];
}

const LINKS_PER_QUERY = 3;
const MIN_WEIGHT = 0.04; // weaker links are not drawn

export async function loadFlow(trace: Trace, sequence: number): Promise<Flow> {
  const sides = (["source", "target"] as const).filter((side) => trace.info.sides[side]?.[sequence]);
  return { sides: await Promise.all(sides.map(async (side) => ({ side, tokens: labels(trace.sequence(side, sequence), "piece"), columns: await columnsOf(trace, side, sequence) }))) };
}

async function columnsOf(trace: Trace, side: Side, sequence: number): Promise<Column[]> {
  const own = trace.info.blocks.find(({ queries, keys }) => queries === side && keys === side);
  const cross = trace.info.blocks.find(({ queries, keys }) => queries === side && keys !== side);
  const layers = own?.layers ?? 0;
  const before = { side, block: null, added: null, links: [], heads: [] } as const;
  const result: Column[] = [
    { ...before, kind: "tokens", layer: -1, norm: null },
    { ...before, kind: "embedding", layer: -1, norm: await normsOf(trace, `${side}.hidden.0`, sequence) },
  ];
  for (let layer = 0; layer < layers; layer++) {
    const stream = await matrixOf(trace, `${side}.hidden.${layer}`, sequence);
    const step = (name: string) => matrixOf(trace, `${side}.steps.${layer}.${name}`, sequence);
    const addition = async (name: string) => (await step(`${name}_normed`)) ?? step(name); // normalised before it is added, as in Gemma
    const [attention, afterAttention, crossed, afterCross, forward] = await Promise.all([addition("self_attention"), step("after_self_attention"), addition("cross_attention"), step("after_cross_attention"), addition("feed_forward")]);
    const after = await matrixOf(trace, `${side}.hidden.${layer + 1}`, sequence);
    if (own) result.push({ kind: "attention", side, layer, block: own.name, added: ratios(attention, stream), norm: norms(afterAttention), ...(await attentionOf(trace, own, sequence, layer)) });
    if (cross && layer < cross.layers)
      result.push({ kind: "cross", side, layer, block: cross.name, added: ratios(crossed, afterAttention), norm: norms(afterCross), ...(await attentionOf(trace, cross, sequence, layer)) });
    const added = forward ? ratios(forward, afterCross ?? afterAttention) : changes(stream, after);
    result.push({ kind: "feed_forward", side, layer, block: null, added, norm: norms(after), links: [], heads: [] });
    const lens = lensOf(trace, side, sequence)?.[layer + 1];
    if (lens) result.push({ ...before, kind: "lens", layer, norm: norms(after), lens });
  }
  if (side === "target" || !trace.info.sides.target) result.push({ ...before, kind: "output", layer: -1, norm: null });
  return result;
}

/** The logit lens of a side with readable pieces: [layer + 1][token]; null: not recorded. */
export function lensOf({ info }: Trace, side: Side, sequence: number): readonly (readonly (readonly Candidate[])[])[] | null {
  const { lens, sides } = info;
  const tokens = sides[side]?.[0];
  if (!lens || !tokens || sequence > 0 || side !== (sides.target ? "target" : "source")) return null;
  const reader = pieceReader(tokens, lens.flat(2).map(({ piece }) => piece));
  let pending = NO_BYTES;
  const after = tokens.pieces.map((piece) => (pending = side === "target" ? reader.pending(piece, pending) : NO_BYTES)); // candidates of a decoder follow these bytes
  return lens.map((layer) => layer.map((candidates, token) => candidates.map((each) => ({ ...each, piece: reader.text(each.piece, after[token]) }))));
}

async function matrixOf(trace: Trace, name: string, sequence: number): Promise<Matrix | null> {
  return trace.has(name) ? trace.sequenceMatrix(name, sequence) : null;
}

async function normsOf(trace: Trace, name: string, sequence: number): Promise<Float32Array | null> {
  return norms(await matrixOf(trace, name, sequence));
}

/** The Euclidean norm of each row. */
export function norms(of: Matrix | null): Float32Array | null {
  if (!of) return null;
  return Float32Array.from({ length: of.rows }, (_, row) => Math.hypot(...of.data.subarray(row * of.columns, (row + 1) * of.columns)));
}

/** The norm of each row of `added` divided by that of `stream`. */
function ratios(added: Matrix | null, stream: Matrix | null): Float32Array | null {
  const [above, below] = [norms(added), norms(stream)];
  return above && below && above.map((norm, row) => (below[row] > 0 ? norm / below[row] : 0));
}

/** The norm of the difference of each row, divided by the norm before. */
function changes(before: Matrix | null, after: Matrix | null): Float32Array | null {
  if (!before || !after || before.data.length !== after.data.length) return null;
  return ratios({ ...before, data: before.data.map((value, i) => after.data[i] - value) }, before);
}

/** The weights of every head of a layer, and the largest mean weights of each query. */
async function attentionOf(trace: Trace, { name: block, heads: count }: Block, sequence: number, layer: number): Promise<Pick<Column, "heads" | "links">> {
  const heads = await Promise.all(Array.from({ length: count }, (_, head) => trace.weights({ block, sequence, layer, head }).catch(() => null)));
  const real = trace.queries({ block, sequence }).real;
  const rows = heads.find((matrix) => matrix !== null)?.rows ?? 0;
  const links = Array.from({ length: rows }, (_, query) => (real[query] ? strongest(meanRow(heads, query), LINKS_PER_QUERY).map((link) => ({ query, ...link })) : []));
  return { heads, links: links.flat() };
}

/** The weights of a query: the mean over the heads, or those of one head. */
export function meanRow(heads: readonly (Matrix | null)[], query: number): Float32Array {
  const known = heads.filter((matrix) => matrix !== null);
  const columns = known[0]?.columns ?? 0;
  return Float32Array.from({ length: columns }, (_, key) => known.reduce((sum, { data }) => sum + data[query * columns + key], 0) / known.length);
}

/** The largest weights of a row with their keys, largest first, without those too small to draw. */
export function strongest(row: Float32Array, count: number): readonly { readonly key: number; readonly weight: number }[] {
  return Array.from(row, (weight, key) => ({ key, weight }))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, count)
    .filter(({ weight }) => weight >= MIN_WEIGHT);
}

/** Moments of the replay: the columns of the source, then those of the target. */
export function momentsOf(flow: Flow): readonly { readonly side: number; readonly column: number }[] {
  return flow.sides.flatMap(({ columns }, side) => columns.map((_, column) => ({ side, column })));
}
