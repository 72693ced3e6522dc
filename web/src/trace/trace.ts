/** An open trace: the header is read at once, tensors on demand and cached. */

import { type ByteSource, readHeader, readNumbers, type TensorEntry } from "./safetensors";
import type { Block, BlockName, HeadLocation, Sequence, Side, TraceInfo } from "./format";
import { type Matrix, scaleScore } from "./matrix";

const SCALE_SUFFIX = ".scale";
const MAX_CACHED_NUMBERS = 20_000_000; // 80 MB

export class Trace {
  private cachedNumbers = 0;
  private readonly cache = new Map<string, Promise<Float32Array | Uint8Array>>();

  private constructor(
    readonly info: TraceInfo,
    private readonly bytes: ByteSource,
    private readonly entries: ReadonlyMap<string, TensorEntry>,
    /** The maximum error of weights read from thumbnails, as text. */
    readonly thumbnailError: string,
  ) {}

  static async open(bytes: ByteSource): Promise<Trace> {
    const { metadata, entries } = await readHeader(bytes);
    if (metadata.format !== "jumok.trace/3") throw new Error(`the format of a trace must be jumok.trace/3, got ${metadata.format}`);
    return new Trace(JSON.parse(metadata.trace) as TraceInfo, bytes, entries, metadata.within ?? "0.004");
  }

  has(name: string): boolean {
    return this.entries.has(name);
  }

  /** Whether vectors and steps were rounded to 8 bits to keep the page small. */
  get hasRounding(): boolean {
    return [...this.entries.keys()].some((name) => name.endsWith(SCALE_SUFFIX));
  }

  /** Whether a tensor was rounded: then its numbers are (byte − 128) · the scale of the row. */
  isRounded(name: string): boolean {
    return this.has(`${name}${SCALE_SUFFIX}`);
  }

  shape(name: string): readonly number[] {
    return this.entry(name).shape;
  }

  /** The data type of a tensor, which determines its precision. */
  dtype(name: string): TensorEntry["dtype"] {
    return this.entry(name).dtype;
  }

  block(name: BlockName): Block {
    const block = this.info.blocks.find((each) => each.name === name);
    if (!block) throw new Error(`the trace has no block ${name}`);
    return block;
  }

  sequence(side: Side, number: number): Sequence {
    const sequence = this.info.sides[side]?.[number];
    if (!sequence) throw new Error(`the trace has no sequence ${number} on the ${side} side`);
    return sequence;
  }

  /** The tokens of the queries and of the keys. */
  queries(location: Pick<HeadLocation, "block" | "sequence">): Sequence {
    return this.sequence(this.block(location.block).queries, location.sequence);
  }

  keys(location: Pick<HeadLocation, "block" | "sequence">): Sequence {
    return this.sequence(this.block(location.block).keys, location.sequence);
  }

  /** (T, S); in a reduced page the weights of some layers are read from the thumbnails (see `hasExactWeights`). */
  weights(location: HeadLocation): Promise<Matrix> {
    if (this.hasExactWeights(location)) return this.headMatrix(`${location.block}.${location.layer}.weights`, location.sequence, location.head);
    return this.thumbnailWeights(location);
  }

  /** Whether the weights of a layer were recorded, not only their thumbnails. */
  hasExactWeights(location: Pick<HeadLocation, "block" | "layer">): boolean {
    return this.has(`${location.block}.${location.layer}.weights`);
  }

  /** Scores before the mask, (T, S): as recorded, else q·k·scale + bias. */
  async scores(location: HeadLocation): Promise<Matrix> {
    const name = `${location.block}.${location.layer}.scores`;
    if (this.has(name)) return this.headMatrix(name, location.sequence, location.head);
    const [q, k, bias] = await Promise.all([this.q(location), this.k(location), this.bias(location)]);
    const block = this.block(location.block);
    const data = new Float32Array(q.rows * k.rows);
    for (let t = 0; t < q.rows; t++)
      for (let s = 0; s < k.rows; s++) {
        let sum = 0;
        for (let i = 0; i < q.columns; i++) sum += q.data[t * q.columns + i] * k.data[s * k.columns + i];
        data[t * k.rows + s] = scaleScore(sum, block) + (bias ? bias.data[t * k.rows + s] : 0);
      }
    return { rows: q.rows, columns: k.rows, data };
  }

  q(location: HeadLocation): Promise<Matrix> {
    return this.headMatrix(`${location.block}.${location.layer}.q`, location.sequence, location.head);
  }

  k(location: HeadLocation): Promise<Matrix> {
    return this.headMatrix(`${location.block}.${location.layer}.k`, location.sequence, this.keyHead(location));
  }

  v(location: HeadLocation): Promise<Matrix> {
    return this.headMatrix(`${location.block}.${location.layer}.v`, location.sequence, this.keyHead(location));
  }

  /** Whether q, k and v of a block were recorded. */
  hasVectors(block: BlockName): boolean {
    return this.has(`${block}.0.q`) && this.has(`${block}.0.k`);
  }

  /** The relative position bias of the scores, (T, S); null without one. */
  async bias(location: HeadLocation): Promise<Matrix | null> {
    const name = `${location.block}.${location.layer}.bias`;
    if (!this.has(name)) return null;
    const sequence = this.shape(name)[0] > 1 ? location.sequence : 0; // of the content too in DeBERTa
    return this.headMatrix(name, sequence, location.head);
  }

  /** |v_j W_O| of each key, (S); null if not recorded. */
  async valueNorms(location: HeadLocation): Promise<Float32Array | null> {
    const name = `${location.block}.${location.layer}.value_norms`;
    if (!this.has(name)) return null;
    const [, H, S] = this.shape(name);
    return (await this.readCached(name, (location.sequence * H + location.head) * S, S)) as Float32Array;
  }

  /** The window of a layer, in tokens: a query attends to those nearer than this; null: none. */
  windowOf({ block, layer }: Pick<HeadLocation, "block" | "layer">): number | null {
    const { layer_kinds: kinds, sliding_window: window } = this.info.model;
    return block !== "cross" && kinds?.[layer] === "L" ? (window ?? null) : null;
  }

  /** The name of the rotary angles of a layer; null if it rotates nothing. */
  rotaryName({ block, layer }: Pick<HeadLocation, "block" | "layer">): string | null {
    const own = `${block}.${layer}.rotary`;
    if (block === "cross" || this.info.model.layer_kinds?.[layer] === "N") return null;
    return this.has(own) ? own : this.has("rotary") ? "rotary" : null;
  }

  /** 1 where a query of a layer may attend, (T, S). */
  async mask({ block, sequence, layer }: Pick<HeadLocation, "block" | "sequence" | "layer">): Promise<{ rows: number; columns: number; data: Uint8Array }> {
    const own = `${block}.${layer}.mask`; // of a layer whose mask is not that of layer 0
    const name = this.has(own) ? own : `${block}.mask`;
    const [, T, S] = this.shape(name);
    return { rows: T, columns: S, data: (await this.readCached(name, sequence * T * S, T * S)) as Uint8Array };
  }

  /** Thumbnails of a block for one sequence, (L, H, Pt, Ps) bytes: 255 √w. */
  async thumbnails(
    block: BlockName,
    sequence: number,
  ): Promise<{ shape: readonly [number, number, number, number]; data: Uint8Array }> {
    const name = `${block}.thumbnails`;
    const [, L, H, Pt, Ps] = this.shape(name);
    const size = L * H * Pt * Ps;
    return { shape: [L, H, Pt, Ps], data: (await this.readCached(name, sequence * size, size)) as Uint8Array };
  }

  /** Mean entropy of each head in bits, (L, H); null if not recorded. */
  async entropy(block: BlockName, sequence: number): Promise<Matrix | null> {
    const name = `${block}.entropy`;
    if (!this.has(name)) return null;
    const [, L, H] = this.shape(name);
    return { rows: L, columns: H, data: (await this.readCached(name, sequence * L * H, L * H)) as Float32Array };
  }

  /** The input of layer 0, 1, ... of a side, (T, D); number L is the output of the last layer. */
  hidden(side: Side, layer: number, sequence: number): Promise<Matrix> {
    return this.sequenceMatrix(`${side}.hidden.${layer}`, sequence);
  }

  /** Matrix `number` of a three-dimensional tensor, (T, D). */
  async sequenceMatrix(name: string, number: number): Promise<Matrix> {
    const [, rows, columns] = this.shape(name);
    const data = (await this.readCached(name, number * rows * columns, rows * columns)) as Float32Array;
    return { rows, columns, data };
  }

  /** A whole two-dimensional tensor; a vector counts as one row. */
  async fullMatrix(name: string): Promise<Matrix> {
    const shape = this.shape(name);
    const [rows, columns] = shape.length === 1 ? [1, shape[0]] : shape;
    return { rows, columns, data: (await this.readCached(name, 0, rows * columns)) as Float32Array };
  }

  /** Weights from a thumbnail with one tile per weight, exact to `thumbnailError`. */
  private async thumbnailWeights({ block, sequence, layer, head }: HeadLocation): Promise<Matrix> {
    const { shape, data } = await this.thumbnails(block, sequence);
    const [, H, rows, columns] = shape;
    const T = this.queries({ block, sequence }).pieces.length;
    const S = this.keys({ block, sequence }).pieces.length;
    if (rows < T || columns < S)
      throw new Error(
        `this page contains only thumbnails of ${block} layer ${layer}; export it in full`,
      );
    const from = (layer * H + head) * rows * columns;
    return {
      rows,
      columns,
      data: Float32Array.from(data.subarray(from, from + rows * columns), (byte) => (byte / 255) ** 2),
    };
  }

  private keyHead(location: HeadLocation): number {
    const { heads, key_heads } = this.block(location.block);
    return Math.floor((location.head * key_heads) / heads);
  }

  /** One head of a four-dimensional tensor, (T, ·). */
  async headMatrix(name: string, sequence: number, head: number): Promise<Matrix> {
    const [, H, rows, columns] = this.shape(name);
    const size = rows * columns;
    const data = (await this.readCached(name, (sequence * H + head) * size, size)) as Float32Array;
    return { rows, columns, data };
  }

  private readCached(name: string, from: number, count: number): Promise<Float32Array | Uint8Array> {
    const key = `${name}:${from}:${count}`;
    let entry = this.cache.get(key);
    if (!entry) {
      entry = this.read(name, from, count);
      entry.catch(() => this.drop(key)); // a failed read can be retried
      this.evict(count);
    } else this.cache.delete(key);
    this.cache.set(key, entry); // most recently used last
    return entry;
  }

  private async read(name: string, from: number, count: number): Promise<Float32Array | Uint8Array> {
    const numbers = await readNumbers(this.bytes, this.entry(name), from, count);
    if (!this.isRounded(name)) return numbers;
    const columns = this.shape(name).at(-1) ?? 1;
    const scales = await readNumbers(this.bytes, this.entry(`${name}${SCALE_SUFFIX}`), from / columns, count / columns);
    return Float32Array.from(numbers, (byte, i) => (byte - 128) * scales[Math.floor(i / columns)]);
  }

  /** Evicts the least recently used tensors, so that at most MAX_CACHED_NUMBERS stay. */
  private evict(count: number): void {
    this.cachedNumbers += count;
    for (const key of this.cache.keys()) {
      if (this.cachedNumbers <= MAX_CACHED_NUMBERS) return;
      this.drop(key);
    }
  }

  private drop(key: string): void {
    if (this.cache.delete(key)) this.cachedNumbers -= Number(key.slice(key.lastIndexOf(":") + 1));
  }

  private entry(name: string): TensorEntry {
    const entry = this.entries.get(name);
    if (!entry) throw new Error(`the trace has no tensor ${name}`);
    return entry;
  }
}
