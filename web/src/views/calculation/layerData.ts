/** The recorded data of one layer of one sequence, by the names of docs/trace.md. */

import type { Block, HeadLocation, Model, Sequence, Side } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { formatFactor } from "./formatSum";
import { agreement, type Agreement, concatColumns, normalise, type Numbers, TOLERANCE, transpose } from "./arithmetic";

/** Of the largest number: operands and result are each within 1/254 of the largest of their row. */
const ROUNDED = 0.03;

export type Vectors = "q" | "k" | "v" | "mixed";

export interface LinearMap {
  readonly weight: Numbers; // (in, out)
  readonly bias: Numbers | null;
}

export class LayerData {
  private readonly cache = new Map<string, Promise<unknown>>();

  readonly block: Block;
  readonly side: Side; // the side of the queries
  readonly model: Model;
  readonly queries: Sequence;
  readonly keys: Sequence;
  /** The attention sublayer of this block: self-attention or cross-attention. */
  readonly part: "self_attention" | "cross_attention";
  readonly hasCross: boolean;
  readonly rotary: string | null; // the tensor of the angles
  readonly isRotated: boolean; // queries and keys, by position; the angles may be unknown
  readonly window: number | null; // in tokens, where it hides some

  constructor(
    readonly trace: Trace,
    readonly location: HeadLocation,
  ) {
    this.block = trace.block(location.block);
    this.side = this.block.queries;
    this.model = trace.info.model;
    this.queries = trace.queries(location);
    this.keys = trace.keys(location);
    this.part = location.block === "cross" ? "cross_attention" : "self_attention";
    const window = trace.windowOf(location);
    this.window = window !== null && window < this.keys.pieces.length ? window : null;
    this.hasCross = this.side === "target" && trace.info.blocks.some(({ name }) => name === "cross");
    this.isRotated = this.model.positions.endsWith("rotary") && this.part !== "cross_attention" && this.model.layer_kinds?.[location.layer] !== "N";
    this.rotary = this.isRotated ? trace.rotaryName(location) : null;
  }

  /** Whether vectors of the positions are added to the embedding. */
  get hasPositions(): boolean {
    return !["rotary", "relative", "none"].includes(this.model.positions);
  }

  /** The name of the norms of this model. */
  get normName(): string {
    return this.model.norm === "layer" ? "LN" : "RMSNorm";
  }

  /** Whether it is known which layers have a window. */
  get knowsWindow(): boolean {
    return this.part === "cross_attention" || this.model.layer_kinds != null;
  }

  /** Whether the model generated these tokens: no text was encoded. */
  get isGenerated(): boolean {
    const { decoding, model } = this.trace.info;
    if (this.side !== "target" || model.kind !== "encoder_decoder") return false;
    return decoding ? decoding.method !== "given" : this.queries.text === "";
  }

  /** 1/√d, or another factor of the scores: "1" if the model does not scale. */
  get scaling(): "1" | "1/√d" | "other" {
    const { scale, d_head } = this.block;
    if (scale === 1) return "1";
    return Math.abs(scale * Math.sqrt(d_head) - 1) < 1e-6 ? "1/√d" : "other";
  }

  /** The name of the scores before a bias. */
  get scaledName(): string {
    return { "1": "QKᵀ", "1/√d": "QKᵀ/√d", other: `QKᵀ·${formatFactor(this.block.scale)}` }[this.scaling];
  }

  /** The result of `make`, computed once. */
  memoise<Value>(name: string, make: () => Promise<Value>): Promise<Value> {
    if (!this.cache.has(name)) this.cache.set(name, make());
    return this.cache.get(name) as Promise<Value>;
  }

  /** A named matrix of this sequence; null if not recorded. */
  async matrixOrNull(name: string): Promise<Numbers | null> {
    return this.trace.has(name) ? this.trace.sequenceMatrix(name, this.location.sequence) : null;
  }

  async tensorOrNull(name: string): Promise<Numbers | null> {
    return this.trace.has(name) ? this.trace.fullMatrix(name) : null;
  }

  /** The name of a step of this layer. */
  stepName(name: string): string {
    return `${this.side}.steps.${this.location.layer}.${name}`;
  }

  /** A parameter of this layer. */
  parameter(name: string): Promise<Numbers | null> {
    return this.tensorOrNull(`parameters.${this.side}.${this.location.layer}.${name}`);
  }

  attentionName(vectors: string): string {
    return `${this.location.block}.${this.location.layer}.${vectors}`;
  }

  keyHead(head: number): number {
    return Math.floor((head * this.block.key_heads) / this.block.heads);
  }

  /** The vectors of one head; for keys and values, those that the head uses. */
  async head(vectors: Vectors, head = this.location.head): Promise<Numbers | null> {
    const shared = vectors === "k" || vectors === "v";
    const name = this.attentionName(vectors);
    return this.trace.has(name) ? this.trace.headMatrix(name, this.location.sequence, shared ? this.keyHead(head) : head) : null;
  }

  /** The vectors of all heads, concatenated. */
  async allHeads(vectors: Vectors): Promise<Numbers | null> {
    const name = this.attentionName(vectors);
    if (!this.trace.has(name)) return null;
    const count = this.trace.shape(name)[1];
    return concatColumns(
      await Promise.all(Array.from({ length: count }, (_, head) => this.trace.headMatrix(name, this.location.sequence, head))),
    );
  }

  /** Whether a norm precedes this attention: not in the first layer of ModernBERT. */
  get hasPreNorm(): boolean {
    const isFirst = this.location.layer === 0 && this.part === "self_attention";
    return this.model.norm_first && !(isFirst && this.model.first_norm === false);
  }

  /** Whether a norm follows the last layer. */
  get hasFinalNorm(): boolean {
    return this.model.norm_first || this.model.sublayer_norm === true;
  }

  /** The mask of this layer, 1 = may attend. */
  mask(): Promise<{ rows: number; columns: number; data: Uint8Array }> {
    return this.trace.mask(this.location);
  }

  /** The input of this attention sublayer before any norm, which is also its residual. */
  residual(): Promise<Numbers | null> {
    return this.matrixOrNull(
      this.part === "cross_attention" ? this.stepName("after_self_attention") : `${this.side}.hidden.${this.location.layer}`,
    );
  }

  /** The output of the encoder. */
  memory(): Promise<Numbers | null> {
    return this.matrixOrNull(`source.hidden.${this.trace.block("encoder").layers}`);
  }

  /** A norm of the model applied to x; null if its weight was not recorded. `name` ends before ".weight". */
  async norm(x: Numbers | null, name: string): Promise<Numbers | null> {
    const weight = await this.tensorOrNull(`parameters.${this.side}.${name}.weight`);
    if (!x || !weight) return null;
    return normalise(x, this.model.norm, this.model.norm_eps, weight, await this.tensorOrNull(`parameters.${this.side}.${name}.bias`));
  }

  /** The input of a sublayer: the norm of x in a pre-norm layer, x itself in a post-norm layer. */
  async sublayerInput(part: string, x: Numbers | null): Promise<Numbers | null> {
    if (!(part === "self_attention" ? this.hasPreNorm : this.model.norm_first)) return x;
    return (await this.matrixOrNull(this.stepName(`${part}_input`))) ?? this.norm(x, `${this.location.layer}.${part}_norm.norm`);
  }

  /** The weight of a linear map, transposed to (in, out), and its bias. */
  async linearMap(name: string): Promise<LinearMap | null> {
    const weight = await this.parameter(`${name}.weight`);
    return weight && { weight: transpose(weight), bias: await this.parameter(`${name}.bias`) };
  }

  /** Compares recomputed numbers with recorded ones, within their precision; null if either is missing. */
  compare(computed: Numbers | null, recorded: Numbers | null, name: string): Agreement | null {
    if (!computed || !recorded) return null;
    if (!this.trace.hasRounding) return agreement(computed, recorded, TOLERANCE[this.trace.dtype(name)]);
    let largest = 0;
    for (let i = 0; i < recorded.data.length; i++) if (Number.isFinite(recorded.data[i])) largest = Math.max(largest, Math.abs(recorded.data[i]));
    return agreement(computed, recorded, Math.max(TOLERANCE.F16, ROUNDED * largest));
  }
}

/** Whether sines fill the first half of the dimensions, cosines the second (Marian). */
export const hasHalves = (positions: string): boolean => positions.endsWith("halves");

/** The position of each token; padding is on the right, so positions count from 0. */
export function positionsOf(sequence: Sequence): readonly number[] {
  return sequence.pieces.map((_, position) => position);
}
