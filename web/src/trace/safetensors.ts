/** A safetensors reader: a length, a JSON header, then tensors at given offsets. */

/** The bytes of a file, read in ranges. */
export interface ByteSource {
  /** The bytes from `start` up to `end`. */
  read(start: number, end: number): Promise<ArrayBuffer>;
}

export class MemoryByteSource implements ByteSource {
  constructor(private readonly all: ArrayBuffer) {}

  async read(start: number, end: number): Promise<ArrayBuffer> {
    return this.all.slice(start, end);
  }
}

export interface TensorEntry {
  readonly dtype: "F32" | "F16" | "U8" | "I8";
  readonly shape: readonly number[];
  readonly start: number; // byte offset in the file
}

const BYTES = { F32: 4, F16: 2, U8: 1, I8: 1 } as const;
const MAX_HEADER_BYTES = 64 * 2 ** 20;
const FIRST_READ_BYTES = 1 << 16; // most headers fit into the first request

export async function readHeader(
  bytes: ByteSource,
): Promise<{ metadata: Readonly<Record<string, string>>; entries: ReadonlyMap<string, TensorEntry> }> {
  let head = new Uint8Array(await bytes.read(0, FIRST_READ_BYTES));
  if (head.byteLength < 8) throw new Error("not a safetensors file: shorter than 8 bytes");
  const length = Number(new DataView(head.buffer).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES) throw new Error(`the header of a trace must be at most ${MAX_HEADER_BYTES} bytes, got ${length}`);
  if (head.byteLength < 8 + length) {
    const rest = new Uint8Array(await bytes.read(head.byteLength, 8 + length));
    const whole = new Uint8Array(head.byteLength + rest.byteLength);
    whole.set(head);
    whole.set(rest, head.byteLength);
    head = whole;
  }
  if (head.byteLength < 8 + length) throw new Error("the trace file is truncated");
  const header = JSON.parse(new TextDecoder().decode(head.subarray(8, 8 + length))) as Record<string, unknown>;
  const entries = new Map<string, TensorEntry>();
  for (const [name, value] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const { dtype, shape, data_offsets } = value as { dtype: string; shape: number[]; data_offsets: [number, number] };
    if (!(dtype in BYTES)) throw new Error(`tensor ${name} must be F32, F16, U8 or I8, got ${dtype}`);
    const entry = { dtype: dtype as TensorEntry["dtype"], shape, start: 8 + length + data_offsets[0] };
    const count = shape.reduce((product, size) => product * size, 1);
    if (data_offsets[1] - data_offsets[0] !== count * BYTES[entry.dtype])
      throw new Error(`the size of tensor ${name} does not match its shape`);
    entries.set(name, entry);
  }
  return { metadata: (header.__metadata__ ?? {}) as Record<string, string>, entries };
}

/** `count` numbers of a tensor, starting at number `from`. */
export async function readNumbers(
  bytes: ByteSource,
  entry: TensorEntry,
  from: number,
  count: number,
): Promise<Float32Array | Uint8Array> {
  const width = BYTES[entry.dtype];
  const start = entry.start + from * width;
  const raw = await bytes.read(start, start + count * width);
  if (raw.byteLength !== count * width) throw new Error("the trace file is truncated");
  if (entry.dtype === "U8") return new Uint8Array(raw);
  if (entry.dtype === "I8") throw new Error("a trace has no tensors of type I8");
  if (entry.dtype === "F32") return new Float32Array(raw);
  return float16ToFloat32(new Uint16Array(raw));
}

/** float16 as float32. */
export function float16ToFloat32(bits: Uint16Array): Float32Array {
  FLOAT16_VALUES ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => decodeFloat16(bits));
  const result = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) result[i] = FLOAT16_VALUES[bits[i]];
  return result;
}

let FLOAT16_VALUES: Float32Array | undefined; // the values of all 65,536 bit patterns

function decodeFloat16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
