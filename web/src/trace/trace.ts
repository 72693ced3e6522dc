/** An open trace: the header at once, numbers when they are asked for, each fetched once. */

import type { ByteSource } from "./byteSource";
import type { Block, BlockName, HeadLocation, Sequence, Side, TraceInfo } from "./format";
import { type Matrix, scaleScore } from "./matrix";
import { type TensorEntry, readNumbers, readHeader } from "./safetensors";

const MAX_CACHED_NUMBERS = 20_000_000; // numbers kept at hand, 80 MB

export class Trace {
  private cachedNumbers = 0;
  private readonly cache = new Map<string, Promise<Float32Array | Uint8Array>>();

  private constructor(
    readonly info: TraceInfo,
    private readonly bytes: ByteSource,
    private readonly entries: ReadonlyMap<string, TensorEntry>,
    /** How far weights off thumbnails may be out, in digits. */
    readonly thumbnailError: string,
  ) {}

  static async open(bytes: ByteSource): Promise<Trace> {
    const { metadata, entries } = await readHeader(bytes);
    if (metadata.format !== "jumok.trace/1") throw new Error(`not a jumok trace: format ${metadata.format}`);
    return new Trace(JSON.parse(metadata.trace) as TraceInfo, bytes, entries, metadata.within ?? "0.004");
  }

  has(name: string): boolean {
    return this.entries.has(name);
  }

  shape(name: string): readonly number[] {
    return this.entry(name).shape;
  }

  /** How the numbers of a tensor are kept: it says how exact they are. */
  dtype(name: string): TensorEntry["dtype"] {
    return this.entry(name).dtype;
  }

  block(name: BlockName): Block {
    const entry = this.info.blocks.find((block) => block.name === name);
    if (!entry) throw new Error(`the trace has no block ${name}`);
    return entry;
  }

  sequence(side: Side, number: number): Sequence {
    const entry = this.info.sides[side]?.[number];
    if (!entry) throw new Error(`the trace has no sequence ${number} on the side ${side}`);
    return entry;
  }

  /** The tokens that ask and those that are looked at. */
  queries(place: Pick<HeadLocation, "block" | "sequence">): Sequence {
    return this.sequence(this.block(place.block).queries, place.sequence);
  }

  keys(place: Pick<HeadLocation, "block" | "sequence">): Sequence {
    return this.sequence(this.block(place.block).keys, place.sequence);
  }

  /** (T, S); in a page made small those of some layers are read off the thumbnails (see `exact`). */
  weights(place: HeadLocation): Promise<Matrix> {
    if (this.hasExactWeights(place)) return this.headMatrix(`${place.block}.${place.layer}.weights`, place.sequence, place.head);
    return this.thumbnailWeights(place);
  }

  /** Whether the weights of a layer were kept, not only their thumbnails. */
  hasExactWeights(place: Pick<HeadLocation, "block" | "layer">): boolean {
    return this.has(`${place.block}.${place.layer}.weights`);
  }

  /** Scores before the mask, (T, S): as recorded, else q·k·scale + bias. */
  async scores(place: HeadLocation): Promise<Matrix> {
    const name = `${place.block}.${place.layer}.scores`;
    if (this.has(name)) return this.headMatrix(name, place.sequence, place.head);
    const [q, k, bias] = await Promise.all([this.q(place), this.k(place), this.bias(place)]);
    const block = this.block(place.block);
    const data = new Float32Array(q.rows * k.rows);
    for (let t = 0; t < q.rows; t++)
      for (let s = 0; s < k.rows; s++) {
        let sum = 0;
        for (let i = 0; i < q.columns; i++) sum += q.data[t * q.columns + i] * k.data[s * k.columns + i];
        data[t * k.rows + s] = scaleScore(sum, block) + (bias ? bias.data[t * k.rows + s] : 0);
      }
    return { rows: q.rows, columns: k.rows, data };
  }

  q(place: HeadLocation): Promise<Matrix> {
    return this.headMatrix(`${place.block}.${place.layer}.q`, place.sequence, place.head);
  }

  k(place: HeadLocation): Promise<Matrix> {
    return this.headMatrix(`${place.block}.${place.layer}.k`, place.sequence, this.keyHead(place));
  }

  v(place: HeadLocation): Promise<Matrix> {
    return this.headMatrix(`${place.block}.${place.layer}.v`, place.sequence, this.keyHead(place));
  }

  /** Whether q, k and v of a block were kept. */
  hasVectors(block: BlockName): boolean {
    return this.has(`${block}.0.q`) && this.has(`${block}.0.k`);
  }

  /** What relative positions add to the scores, (T, S); null where they do not. */
  async bias(place: HeadLocation): Promise<Matrix | null> {
    const name = `${place.block}.${place.layer}.bias`;
    return this.has(name) ? this.headMatrix(name, 0, place.head) : null;
  }

  /** |v_j W_O| of each key, (S); null when it was not kept. */
  async valueNorms(place: HeadLocation): Promise<Float32Array | null> {
    const name = `${place.block}.${place.layer}.value_norms`;
    if (!this.has(name)) return null;
    const [, H, S] = this.shape(name);
    return (await this.readCached(name, (place.sequence * H + place.head) * S, S)) as Float32Array;
  }

  /** 1 where a query may attend, (T, S). */
  async mask(block: BlockName, sequence: number): Promise<{ rows: number; columns: number; data: Uint8Array }> {
    const name = `${block}.mask`;
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

  /** Mean entropy of each head in bits, (L, H); null when it was not kept. */
  async entropy(block: BlockName, sequence: number): Promise<Matrix | null> {
    const name = `${block}.entropy`;
    if (!this.has(name)) return null;
    const [, L, H] = this.shape(name);
    return { rows: L, columns: H, data: (await this.readCached(name, sequence * L * H, L * H)) as Float32Array };
  }

  /** What enters layer 0, 1, ... of a side, (T, D); number L is what leaves the last. */
  hidden(side: Side, layer: number, sequence: number): Promise<Matrix> {
    return this.sequenceMatrix(`${side}.hidden.${layer}`, sequence);
  }

  /** Part `number` of a tensor of three dimensions, (T, D). */
  async sequenceMatrix(name: string, number: number): Promise<Matrix> {
    const [, rows, columns] = this.shape(name);
    const data = (await this.readCached(name, number * rows * columns, rows * columns)) as Float32Array;
    return { rows, columns, data };
  }

  /** A tensor of two dimensions (a vector counts as one row), all of it. */
  async fullMatrix(name: string): Promise<Matrix> {
    const shape = this.shape(name);
    const [rows, columns] = shape.length === 1 ? [1, shape[0]] : shape;
    return { rows, columns, data: (await this.readCached(name, 0, rows * columns)) as Float32Array };
  }

  /** Weights off a thumbnail that has a tile for each, right to `within`. */
  private async thumbnailWeights({ block, sequence, layer, head }: HeadLocation): Promise<Matrix> {
    const { shape, data } = await this.thumbnails(block, sequence);
    const [, H, rows, columns] = shape;
    const T = this.queries({ block, sequence }).pieces.length;
    const S = this.keys({ block, sequence }).pieces.length;
    if (rows < T || columns < S)
      throw new Error(
        `the weights of ${block} layer ${layer} are not in this page, only thumbnails; export it in full`,
      );
    const from = (layer * H + head) * rows * columns;
    return {
      rows,
      columns,
      data: Float32Array.from(data.subarray(from, from + rows * columns), (byte) => (byte / 255) ** 2),
    };
  }

  private keyHead(place: HeadLocation): number {
    const { heads, key_heads } = this.block(place.block);
    return Math.floor((place.head * key_heads) / heads);
  }

  /** One head of a tensor of four dimensions, (T, ·). */
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
      entry = readNumbers(this.bytes, this.entry(name), from, count);
      entry.catch(() => this.drop(key)); // a fetch that failed may be tried again
      this.evict(count);
    } else this.cache.delete(key);
    this.cache.set(key, entry); // the newest stands last
    return entry;
  }

  /** Forgets what was asked for longest ago, so that what is kept stays within MOST numbers. */
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
    if (!entry) throw new Error(`the trace holds no ${name}`);
    return entry;
  }
}
