/** The tensors of a trace, and the bytes of its file (docs/trace.md). */

export interface Tensor {
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint8Array;
}

export type Recorded = Map<string, Tensor>;

/** Adds numbers in float32. */
export function keep(recorded: Recorded, name: string, shape: readonly number[], data: ArrayLike<number>): void {
  recorded.set(name, { shape, data: new Float32Array(data) });
}

/** The bytes of a safetensors file. */
export function toBytes(recorded: Recorded, metadata: Readonly<Record<string, string>>): ArrayBuffer {
  const names = [...recorded.keys()].sort();
  const header: Record<string, unknown> = { __metadata__: metadata };
  let end = 0;
  for (const name of names) {
    const { shape, data } = recorded.get(name)!;
    header[name] = { dtype: data instanceof Uint8Array ? "U8" : "F32", shape, data_offsets: [end, (end += data.byteLength)] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + end);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  let at = 8 + text.length;
  for (const name of names) {
    const { data } = recorded.get(name)!;
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return bytes.buffer;
}

const THUMBNAIL_SIDE = 64; // at most, as jumok/interpret/thumbnails.py

/** round(255 √w) of the largest weight in each tile of (n, T, S) matrices, (n, P, P'). */
export function thumbnails(weights: ArrayLike<number>, n: number, T: number, S: number): Tensor {
  const [rows, columns] = [Math.min(T, THUMBNAIL_SIDE), Math.min(S, THUMBNAIL_SIDE)];
  const data = new Uint8Array(n * rows * columns);
  for (let i = 0; i < n; i++)
    for (let t = 0; t < T; t++)
      for (let s = 0; s < S; s++) {
        const at = (i * rows + tile(t, T, rows)) * columns + tile(s, S, columns);
        data[at] = Math.max(data[at], roundHalfEven(255 * Math.sqrt(Math.min(Math.max(weights[(i * T + t) * S + s], 0), 1))));
      }
  return { shape: [rows, columns], data };
}

/** The tile of an index: tile i goes from floor(i n / P) up to floor((i + 1) n / P). */
function tile(index: number, n: number, tiles: number): number {
  let found = Math.floor((index * tiles) / n);
  while (found + 1 < tiles && Math.floor(((found + 1) * n) / tiles) <= index) found++;
  return found;
}

function roundHalfEven(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + (low % 2) : Math.round(x);
}

/** The mean over the queries of -Σ w log₂ w of a head (T, S), in bits. */
export function meanEntropy(weights: ArrayLike<number>, from: number, T: number, S: number): number {
  let bits = 0;
  for (let i = from; i < from + T * S; i++) if (weights[i] > 0) bits -= weights[i] * Math.log2(weights[i]);
  return bits / Math.max(T, 1);
}
