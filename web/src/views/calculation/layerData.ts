/** The recorded data of one layer of one sequence, by the names of docs/trace.md. */

import type { Block, HeadLocation, Model, Sequence, Side } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { agreement, type Agreement, concatColumns, normalise, type Numbers, TOLERANCE, transpose } from "./arithmetic";

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
  readonly part: "attention" | "cross";
  readonly hasCross: boolean;
  readonly rotary: boolean;

  constructor(
    readonly trace: Trace,
    readonly location: HeadLocation,
  ) {
    this.block = trace.block(location.block);
    this.side = this.block.queries;
    this.model = trace.info.model;
    this.queries = trace.queries(location);
    this.keys = trace.keys(location);
    this.part = location.block === "cross" ? "cross" : "attention";
    this.hasCross = this.side === "target" && trace.info.blocks.some(({ name }) => name === "cross");
    this.rotary = this.model.positions === "rotary" && this.part === "attention" && trace.has("rotary");
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

  /** The mask of this block, 1 = may attend. */
  mask(): Promise<{ rows: number; columns: number; data: Uint8Array }> {
    return this.trace.mask(this.location.block, this.location.sequence);
  }

  /** The input of this attention sublayer before any norm, which is also its residual. */
  residual(): Promise<Numbers | null> {
    return this.matrixOrNull(
      this.part === "cross" ? this.stepName("after_attention") : `${this.side}.hidden.${this.location.layer}`,
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
    if (!this.model.norm_first) return x;
    return (await this.matrixOrNull(this.stepName(`${part}_input`))) ?? this.norm(x, `${this.location.layer}.around_${part}.norm`);
  }

  /** The weight of a linear map, transposed to (in, out), and its bias. */
  async linearMap(name: string): Promise<LinearMap | null> {
    const weight = await this.parameter(`${name}.weight`);
    return weight && { weight: transpose(weight), bias: await this.parameter(`${name}.bias`) };
  }

  /** Compares recomputed numbers with recorded ones; null if either is missing. */
  compare(computed: Numbers | null, recorded: Numbers | null, name: string): Agreement | null {
    return computed && recorded && agreement(computed, recorded, TOLERANCE[this.trace.dtype(name)]);
  }
}

/** The position of each token; padding is on the right, so positions count from 0. */
export function positionsOf(sequence: Sequence): readonly number[] {
  return sequence.pieces.map((_, position) => position);
}
