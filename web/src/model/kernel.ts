/** The C++ kernel as WebAssembly: named weights in, the outputs of a text out. It knows no layer. */

import type { TensorEntry } from "../trace/safetensors";
import { Arena, check, type Exports } from "./heap";

/** What follows the last layer of an encoder: `Head` of jumok/native/session.py, and what files add to it. */
export interface Head {
  readonly pooling: string;
  readonly output: string; // the names of linear maps, empty: none
  readonly pooler: string;
  readonly activation: string; // of the pooler
  readonly norm: string; // behind the pooler, empty: none
  readonly norm_eps: number;
  readonly rms: boolean; // the norm has no mean
  readonly normalize: boolean;
  readonly of_tokens: boolean; // each token is a text of its own
  readonly by_table: boolean; // the outputs are the products with the token vectors
  readonly dense: readonly { readonly linear: string; readonly activation: string }[]; // without a map: divided by the length
}

/** Written by `jumok.formats.web_model`. */
export interface KernelSettings {
  readonly precision: number; // in the order of c_api.cpp
  readonly dims: { readonly integers: readonly number[]; readonly floats: readonly number[] };
  readonly d_model: number;
  readonly head?: Head; // of an encoder alone
  readonly layers?: readonly (readonly [window: number, rotary: number])[]; // of a decoder
}

export type Tensors = ReadonlyMap<string, TensorEntry>;

// In the order of jumok/native/library.py.
const POOLINGS = ["first", "mean", "max", "last"];
const ACTIVATIONS = ["none", "relu", "gelu", "gelu_tanh", "silu", "tanh"];
const TABLE_TYPES = { F32: 0, F16: 2, I8: 3, U8: -1 } as const;
const TOKENS = "tokens";
const HOST = "host."; // the beginning of the names of tensors that the kernel does not get
const BYTES = 4; // of a float and of an int32

/** A model in the kernel. Weights are copied into its memory; `free` releases them. */
export class KernelModel {
  private constructor(
    readonly kernel: Exports,
    private readonly settings: KernelSettings,
    private readonly file: ArrayBuffer,
    private readonly tensors: Tensors,
    /** Its address. */
    readonly model: number,
    private readonly table: Arena, // the token vectors of an encoder, which the kernel does not copy
  ) {}

  /** Compiles the kernel and uploads all tensors of a packed file whose names do not start with `except`. */
  static async create(wasm: BufferSource, file: ArrayBuffer, tensors: Tensors, settings: KernelSettings, except: string): Promise<KernelModel> {
    const module = await WebAssembly.compile(wasm);
    const kernel = (await WebAssembly.instantiate(module, imports(module))).exports as unknown as Exports;
    kernel._initialize();
    const { integers, floats } = settings.dims;
    const model = Arena.use(kernel, (arena) => {
      const dims = [Int32Array.from(integers), Float32Array.from(floats)].flatMap(({ buffer }) => [...new Uint8Array(buffer)]);
      return kernel.jumok_create_model(arena.bytes(Uint8Array.from(dims)), settings.precision);
    });
    if (!model) throw new Error("the kernel must know the precision of the model; export it again");
    const table = new Arena(kernel);
    for (const [name, { shape, dtype }] of tensors) {
      if (name.startsWith(except) || name.startsWith(HOST)) continue;
      if (name === TOKENS) {
        const upload = new Upload(kernel, file, tensors, table);
        kernel.jumok_set_tokens(model, TABLE_TYPES[dtype], shape[0], shape[1], upload.tensor(name), upload.tensor(`${name}.scale`));
      } else if (shape.length === 2 || !tensors.has(name.slice(0, name.lastIndexOf("."))))
        Arena.use(kernel, (arena) => {
          const upload = new Upload(kernel, file, tensors, arena);
          if (shape.length === 2) upload.linear(model, name);
          else upload.vector(model, name);
        });
    }
    settings.layers?.forEach(([window, rotary], layer) => kernel.jumok_set_decoder_layer(model, layer, window, rotary));
    return new KernelModel(kernel, settings, file, tensors, model, table);
  }

  /** The bytes of the kernel's memory. */
  get memoryBytes(): number {
    return this.kernel.memory.buffer.byteLength;
  }

  /** The outputs of the head of an encoder for the input ids of one text, or of each token; `types` of tokens or null. */
  run(ids: readonly number[], types: readonly number[] | null = null): Float32Array {
    const { kernel, settings, model } = this;
    const [head, D] = [settings.head!, settings.d_model];
    return Arena.use(kernel, (arena) => {
      const [row, whole, segments] = [arena.int32(ids), arena.int32([0, ids.length]), types ? arena.int32(types) : 0];
      const hidden = arena.floats(ids.length * D);
      check(kernel.jumok_encode_ids(model, row, segments, whole, 1, hidden, 1));
      const rows = head.of_tokens ? ids.length : 1;
      const offsets = head.of_tokens ? arena.int32(Array.from({ length: rows + 1 }, (_, i) => i)) : whole;
      const compares = head.pooling === "compare";
      let [x, width] = [arena.floats(compares ? 4 * D + 3 : rows * D), compares ? 4 * D : D];
      const pooled = x;
      if (compares) check(kernel.jumok_compare_pairs(hidden, D, arena.int32(types ?? ids.map(() => 0)), offsets, 1, x));
      else kernel.jumok_pool(hidden, D, offsets, rows, POOLINGS.indexOf(head.pooling), x);
      const apply = (linear: string, activation: string, from = x) => {
        const outputs = this.tensors.get(`head.${linear}`)!.shape[0];
        const y = arena.floats(rows * outputs);
        check(kernel.jumok_apply_head(model, arena.name(`head.${linear}`), from, rows, ACTIVATIONS.indexOf(activation), y, 1));
        return [y, outputs] as const;
      };
      if (head.pooler) [x, width] = apply(head.pooler, head.activation);
      if (head.norm) this.normalize(new Float32Array(kernel.memory.buffer, x, rows * width), width);
      if (head.output && !head.by_table) [x, width] = apply(head.output, "none");
      const values = () => new Float32Array(kernel.memory.buffer, x, rows * width);
      if (compares) {
        const [similarity] = apply("similarity", "none", pooled + 4 * D * BYTES);
        const added = new Float32Array(kernel.memory.buffer, similarity, width);
        values().forEach((_, i, y) => (y[i] += added[i]));
      }
      if (head.normalize) kernel.jumok_normalize(x, rows, width);
      for (const { linear, activation } of head.dense)
        if (linear) [x, width] = apply(linear, activation);
        else kernel.jumok_normalize(x, rows, width);
      return values().slice();
    });
  }

  /** The products of a vector with those of all tokens, and a bias: the logits of a head whose output is tied to the table. */
  products(x: Float32Array): Float32Array {
    const { shape, dtype } = this.tensors.get(TOKENS)!;
    const [rows, width] = shape;
    const [table, scale, bias] = [this.array(TOKENS)!, this.array(`${TOKENS}.scale`), this.array(`${HOST}bias`)];
    if (dtype === "F16") throw new Error("token vectors must be F32 or I8; export the model again");
    return Float32Array.from({ length: rows }, (_, row) => {
      let sum = 0;
      for (let i = 0, at = row * width; i < width; i++, at++) sum += table[at] * x[i];
      return sum * (scale?.[row] ?? 1) + (bias?.[row] ?? 0);
    });
  }

  /** A tensor of the file; null for one that it does not have. */
  private array(name: string): Float32Array | Int8Array | null {
    const entry = this.tensors.get(name);
    if (!entry) return null;
    return new (entry.dtype === "I8" ? Int8Array : Float32Array)(this.file, entry.start, size(entry)); // the widest tensors are first
  }

  /** Replaces each row of a matrix by its LayerNorm or RMSNorm (`apply_norm` of jumok/native/layout.py). */
  private normalize(x: Float32Array, width: number): void {
    const { norm_eps, rms } = this.settings.head!;
    const [weight, bias] = [this.array(`${HOST}norm.weight`)!, this.array(`${HOST}norm.bias`)];
    for (let at = 0; at < x.length; at += width) {
      const row = x.subarray(at, at + width);
      const mean = rms ? 0 : row.reduce((sum, value) => sum + value, 0) / width;
      const deviation = Math.sqrt(row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / width + norm_eps);
      row.forEach((value, i) => (row[i] = ((value - mean) / deviation) * weight[i] + (bias?.[i] ?? 0)));
    }
  }

  /** Releases the memory of the model. */
  free(): void {
    this.kernel.jumok_free_model(this.model);
    this.table.free();
  }
}

/** Copies the tensors of a file into the memory of the kernel. */
class Upload {
  constructor(
    private readonly kernel: Exports,
    private readonly file: ArrayBuffer,
    private readonly tensors: Tensors,
    private readonly arena: Arena,
  ) {}

  linear(model: number, name: string): void {
    const { kernel, arena } = this;
    const [outputs, inputs] = this.tensors.get(name)!.shape;
    const [address, bias] = [arena.name(name), `${name}.bias`];
    check(kernel.jumok_allocate_linear(model, address, outputs, inputs, this.tensors.has(bias) ? 1 : 0));
    check(kernel.jumok_set_rows(model, address, 0, outputs, this.tensor(name), this.tensor(`${name}.scale`), this.tensor(bias)));
  }

  vector(model: number, name: string): void {
    check(this.kernel.jumok_set_vector(model, this.arena.name(name), size(this.tensors.get(name)!), this.tensor(name)));
  }

  /** The address of a copy of a tensor; 0 for one that the file does not have. */
  tensor(name: string): number {
    const entry = this.tensors.get(name);
    if (!entry) return 0;
    return this.arena.bytes(new Uint8Array(this.file, entry.start, size(entry) * (entry.dtype === "F32" ? BYTES : 1)));
  }
}

function size({ shape }: TensorEntry): number {
  return shape.reduce((product, length) => product * length, 1);
}

/** The kernel needs nothing of the system: what its libraries import is refused (errno 52, ENOSYS), and an exit is an error. */
function imports(module: WebAssembly.Module): WebAssembly.Imports {
  const found: Record<string, Record<string, () => number>> = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    found[from] ??= {};
    found[from][name] = () => {
      if (/exit|abort/.test(name)) throw new Error(`the kernel called ${name}`);
      return 52;
    };
  }
  return found;
}
