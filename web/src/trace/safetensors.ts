/** Reading safetensors: a length, a JSON header, then numbers at stated places. */

import type { Bytes } from "./bytes";

export interface Entry {
  readonly dtype: "F32" | "F16" | "U8";
  readonly shape: readonly number[];
  readonly start: number; // in the file
}

const WIDTH = { F32: 4, F16: 2, U8: 1 } as const;
const LONGEST_HEADER = 64 * 2 ** 20;
const FIRST = 1 << 16; // most headers come with the first request

export async function readHeader(
  bytes: Bytes,
): Promise<{ metadata: Readonly<Record<string, string>>; entries: ReadonlyMap<string, Entry> }> {
  let head = new Uint8Array(await bytes.read(0, FIRST));
  if (head.byteLength < 8) throw new Error("not a safetensors file: shorter than its first number");
  const length = Number(new DataView(head.buffer).getBigUint64(0, true));
  if (length > LONGEST_HEADER) throw new Error(`not a trace: a header of ${length} bytes`);
  if (head.byteLength < 8 + length) {
    const rest = new Uint8Array(await bytes.read(head.byteLength, 8 + length));
    const whole = new Uint8Array(head.byteLength + rest.byteLength);
    whole.set(head);
    whole.set(rest, head.byteLength);
    head = whole;
  }
  if (head.byteLength < 8 + length) throw new Error("the trace is cut short");
  const header = JSON.parse(new TextDecoder().decode(head.subarray(8, 8 + length))) as Record<string, unknown>;
  const entries = new Map<string, Entry>();
  for (const [name, value] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const { dtype, shape, data_offsets } = value as { dtype: string; shape: number[]; data_offsets: [number, number] };
    if (!(dtype in WIDTH)) throw new Error(`tensor ${name} is ${dtype}; a trace holds F32, F16 and U8`);
    const entry = { dtype: dtype as Entry["dtype"], shape, start: 8 + length + data_offsets[0] };
    const count = shape.reduce((product, size) => product * size, 1);
    if (data_offsets[1] - data_offsets[0] !== count * WIDTH[entry.dtype])
      throw new Error(`tensor ${name} has a wrong size`);
    entries.set(name, entry);
  }
  return { metadata: (header.__metadata__ ?? {}) as Record<string, string>, entries };
}

/** `count` numbers of a tensor, from number `from` on. */
export async function numbers(
  bytes: Bytes,
  entry: Entry,
  from: number,
  count: number,
): Promise<Float32Array | Uint8Array> {
  const width = WIDTH[entry.dtype];
  const start = entry.start + from * width;
  const raw = await bytes.read(start, start + count * width);
  if (raw.byteLength !== count * width) throw new Error("the trace is cut short");
  if (entry.dtype === "U8") return new Uint8Array(raw);
  if (entry.dtype === "F32") return new Float32Array(raw);
  return halves(new Uint16Array(raw));
}

/** float16 as float32. */
export function halves(bits: Uint16Array): Float32Array {
  HALVES ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => half(bits));
  const result = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) result[i] = HALVES[bits[i]];
  return result;
}

let HALVES: Float32Array | undefined; // the value of each of the 65,536

function half(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
