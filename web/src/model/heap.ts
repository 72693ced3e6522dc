/** The memory of the kernel: its functions, and arrays that are released together. */

/** The functions of c_api.cpp that are called here; pointers and sizes are numbers. */
export interface Exports {
  readonly memory: WebAssembly.Memory;
  _initialize(): void;
  malloc(bytes: number): number;
  free(pointer: number): void;
  jumok_create_model(dims: number, precision: number): number;
  jumok_free_model(model: number): void;
  jumok_allocate_linear(model: number, name: number, outputs: number, inputs: number, biased: number): number;
  jumok_set_rows(model: number, name: number, first: number, n: number, weight: number, scale: number, bias: number): number;
  jumok_set_vector(model: number, name: number, size: number, values: number): number;
  jumok_set_tokens(model: number, type: number, rows: number, width: number, values: number, scales: number): void;
  jumok_set_decoder_layer(model: number, layer: number, window: number, rotary: number): void;
  jumok_encode_ids(model: number, ids: number, segments: number, offsets: number, texts: number, hidden: number, threads: number): number;
  jumok_attend_ids(model: number, ids: number, segments: number, n: number, weights: number, hidden: number, threads: number): number;
  jumok_pool(hidden: number, width: number, offsets: number, texts: number, pooling: number, y: number): void;
  jumok_compare_pairs(hidden: number, width: number, segments: number, offsets: number, texts: number, y: number): number;
  jumok_normalize(x: number, rows: number, width: number): void;
  jumok_apply_head(model: number, name: number, x: number, rows: number, activation: number, y: number, threads: number): number;
  jumok_create_request(model: number): number;
  jumok_free_request(request: number): void;
  jumok_encode_sources(request: number, ids: number, offsets: number, texts: number, threads: number): number;
  jumok_reset(request: number, padding: number, rows: number): number;
  jumok_step(request: number, ids: number, T: number, all: number, logits: number, threads: number): number;
  jumok_start_search(request: number, call: number): number;
  jumok_search(request: number, steps: number, threads: number): number;
  jumok_unfinished(request: number): number;
  jumok_change_scores(changes: number, tokens: number, n: number, scores: number, V: number): number;
  jumok_n_found(request: number, text: number): number;
  jumok_found_length(request: number, text: number, number: number): number;
  jumok_read_found(request: number, text: number, number: number, tokens: number, scores: number, rank: number): number;
  jumok_record_encoder(request: number, weights: number): void;
  jumok_record_attention(request: number, cross: number, heads: number, n: number): number;
  jumok_attention_width(request: number): number;
  jumok_read_attention(request: number, weights: number): void;
}

/** The order of `Status` in kernel/transformer.h. */
const STATUS = [
  "",
  "an id is not in the vocabulary",
  "memory ran out",
  "a row is missing",
  "a weight has an unknown name",
  "the text is too long",
  "the numbers of the model are not finite; export it again",
];

/** Throws for another status than 0. */
export function check(status: number): void {
  if (status) throw new Error(STATUS[status] ?? `the kernel returned status ${status}`);
}

/** Arrays in the memory of the kernel until `free`. Views are made when they are read: memory that grows detaches older ones. */
export class Arena {
  private readonly pointers: number[] = [];

  constructor(private readonly kernel: Exports) {}

  /** The result of a function that uses the arrays of an arena, which are released after it. */
  static use<T>(kernel: Exports, task: (arena: Arena) => T): T {
    const arena = new Arena(kernel);
    try {
      return task(arena);
    } finally {
      arena.free();
    }
  }

  free(): void {
    for (const pointer of this.pointers.splice(0)) this.kernel.free(pointer);
  }

  /** The address of so many bytes, not cleared. */
  allocate(bytes: number): number {
    const pointer = this.kernel.malloc(Math.max(bytes, 1));
    if (!pointer) throw new Error("memory ran out; use a shorter text, or close other pages");
    this.pointers.push(pointer);
    return pointer;
  }

  bytes(content: Uint8Array): number {
    const pointer = this.allocate(content.length);
    new Uint8Array(this.kernel.memory.buffer).set(content, pointer);
    return pointer;
  }

  int32(values: readonly number[]): number {
    return this.bytes(new Uint8Array(Int32Array.from(values).buffer));
  }

  int64(values: readonly number[]): number {
    return this.bytes(new Uint8Array(BigInt64Array.from(values, BigInt).buffer));
  }

  floats(count: number): number {
    return this.allocate(count * Float32Array.BYTES_PER_ELEMENT);
  }

  /** A string that ends with a zero byte. */
  name(text: string): number {
    return this.bytes(new TextEncoder().encode(`${text}\0`));
  }

  float32(values: ArrayLike<number>): number {
    return this.bytes(new Uint8Array(Float32Array.from(values).buffer));
  }

  readFloats(pointer: number, count: number): Float32Array {
    return new Float32Array(this.kernel.memory.buffer, pointer, count).slice();
  }

  readInt64(pointer: number, count: number): number[] {
    return Array.from(new BigInt64Array(this.kernel.memory.buffer, pointer, count), Number);
  }

  readDouble(pointer: number): number {
    return new DataView(this.kernel.memory.buffer).getFloat64(pointer, true);
  }
}
