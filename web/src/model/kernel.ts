/** The C++ kernel as WebAssembly: named weights in, the outputs of a text out. It knows no layer. */

import type { TensorEntry } from "../trace/safetensors";

/** The functions of c_api.cpp that are called here; pointers and sizes are numbers. */
interface Exports {
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
  jumok_encode_ids(model: number, ids: number, segments: number, offsets: number, texts: number, hidden: number, threads: number): number;
  jumok_pool(hidden: number, width: number, offsets: number, texts: number, pooling: number, y: number): void;
  jumok_normalize(x: number, rows: number, width: number): void;
  jumok_apply_head(model: number, name: number, x: number, rows: number, activation: number, y: number, threads: number): number;
}

/** What follows the last layer: `Head` of jumok/native/session.py. */
interface Head {
  readonly pooling: string;
  readonly output: string; // the names of linear maps, empty: none
  readonly pooler: string;
  readonly activation: string; // of the pooler
  readonly normalize: boolean;
}

/** Written by `jumok.formats.web_model`. */
export interface KernelSettings {
  readonly precision: number; // in the order of c_api.cpp
  readonly dims: { readonly integers: readonly number[]; readonly floats: readonly number[] };
  readonly d_model: number;
  readonly head: Head;
}

export type Tensors = ReadonlyMap<string, TensorEntry>;

const STATUS = ["", "an id is not in the vocabulary", "memory ran out", "a row is missing", "a weight has an unknown name", "the text is too long"];
// In the order of jumok/native/library.py.
const POOLINGS = ["first", "mean", "max", "last"];
const ACTIVATIONS = ["none", "relu", "gelu", "gelu_tanh", "silu", "tanh"];
const TABLE_TYPES = { F32: 0, F16: 2, I8: 3, U8: -1 } as const;
const TOKENS = "tokens";
const BYTES = 4; // of a float and of an int32

/** A model in the kernel. Weights are copied into its memory; `free` releases them. */
export class KernelModel {
  private constructor(
    private readonly kernel: Exports,
    private readonly settings: KernelSettings,
    private readonly tensors: Tensors,
    private readonly model: number,
    private readonly table: readonly number[], // the pointers of the token vectors, which the kernel does not copy
  ) {}

  /** Compiles the kernel and uploads all tensors of a packed file whose names do not start with `except`. */
  static async create(wasm: BufferSource, file: ArrayBuffer, tensors: Tensors, settings: KernelSettings, except: string): Promise<KernelModel> {
    const module = await WebAssembly.compile(wasm);
    const kernel = (await WebAssembly.instantiate(module, imports(module))).exports as unknown as Exports;
    kernel._initialize();
    const upload = new Upload(kernel, file, tensors);
    const { integers, floats } = settings.dims;
    const dims = upload.bytes(new Uint8Array([...new Uint8Array(Int32Array.from(integers).buffer), ...new Uint8Array(Float32Array.from(floats).buffer)]));
    const model = kernel.jumok_create_model(dims, settings.precision);
    kernel.free(dims);
    if (!model) throw new Error("the kernel must know the precision of the model; export it again");
    const table: number[] = [];
    for (const [name, { shape, dtype }] of tensors) {
      if (name.startsWith(except)) continue;
      if (name === TOKENS) {
        const [values, scales] = [upload.tensor(name), upload.tensor(`${name}.scale`)];
        table.push(values, scales);
        kernel.jumok_set_tokens(model, TABLE_TYPES[dtype], shape[0], shape[1], values, scales);
      } else if (shape.length === 2) upload.linear(model, name);
      else if (tensors.get(name.slice(0, name.lastIndexOf(".")))?.shape.length !== 2) upload.vector(model, name);
    }
    return new KernelModel(kernel, settings, tensors, model, table);
  }

  /** The bytes of the kernel's memory. */
  get memoryBytes(): number {
    return this.kernel.memory.buffer.byteLength;
  }

  /** The outputs of the input ids of one text. */
  run(ids: readonly number[]): Float32Array {
    const { kernel, settings, model } = this;
    const { head } = settings;
    const pointers: number[] = [];
    const allocate = (count: number): number => {
      const pointer = kernel.malloc(Math.max(count, 1) * BYTES);
      if (!pointer) throw new Error("memory ran out; use a shorter text");
      pointers.push(pointer);
      return pointer;
    };
    try {
      const [row, offsets] = [allocate(ids.length), allocate(2)];
      const hidden = allocate(ids.length * settings.d_model);
      new Int32Array(kernel.memory.buffer, row, ids.length).set(ids);
      new Int32Array(kernel.memory.buffer, offsets, 2).set([0, ids.length]);
      check(kernel.jumok_encode_ids(model, row, 0, offsets, 1, hidden, 1));
      let [x, width] = [allocate(settings.d_model), settings.d_model];
      kernel.jumok_pool(hidden, width, offsets, 1, POOLINGS.indexOf(head.pooling), x);
      for (const linear of [head.pooler, head.output].filter(Boolean)) {
        const outputs = this.tensors.get(`head.${linear}`)!.shape[0];
        const y = allocate(outputs);
        const name = new Upload(kernel).name(`head.${linear}`);
        pointers.push(name);
        const activation = linear === head.pooler ? ACTIVATIONS.indexOf(head.activation) : 0;
        check(kernel.jumok_apply_head(model, name, x, 1, activation, y, 1));
        [x, width] = [y, outputs];
      }
      if (head.normalize) kernel.jumok_normalize(x, 1, width);
      return new Float32Array(kernel.memory.buffer, x, width).slice();
    } finally {
      for (const pointer of pointers) kernel.free(pointer);
    }
  }

  /** Releases the memory of the model. */
  free(): void {
    this.kernel.jumok_free_model(this.model);
    for (const pointer of this.table) this.kernel.free(pointer);
  }
}

/** Copies the tensors of a file into the memory of the kernel. */
class Upload {
  constructor(
    private readonly kernel: Exports,
    private readonly file: ArrayBuffer = new ArrayBuffer(0),
    private readonly tensors: Tensors = new Map(),
  ) {}

  linear(model: number, name: string): void {
    const { kernel } = this;
    const [outputs, inputs] = this.tensors.get(name)!.shape;
    const bias = `${name}.bias`;
    const pointers = [this.name(name), this.tensor(name), this.tensor(`${name}.scale`), this.tensor(bias)];
    check(kernel.jumok_allocate_linear(model, pointers[0], outputs, inputs, this.tensors.has(bias) ? 1 : 0));
    check(kernel.jumok_set_rows(model, pointers[0], 0, outputs, pointers[1], pointers[2], pointers[3]));
    for (const pointer of pointers) kernel.free(pointer);
  }

  vector(model: number, name: string): void {
    const pointers = [this.name(name), this.tensor(name)];
    check(this.kernel.jumok_set_vector(model, pointers[0], size(this.tensors.get(name)!), pointers[1]));
    for (const pointer of pointers) this.kernel.free(pointer);
  }

  /** The address of a copy of a tensor; 0 for one that the file does not have. */
  tensor(name: string): number {
    const entry = this.tensors.get(name);
    if (!entry) return 0;
    return this.bytes(new Uint8Array(this.file, entry.start, size(entry) * (entry.dtype === "F32" ? BYTES : 1)));
  }

  name(text: string): number {
    return this.bytes(new TextEncoder().encode(`${text}\0`));
  }

  bytes(content: Uint8Array): number {
    const pointer = this.kernel.malloc(Math.max(content.length, 1));
    if (!pointer) throw new Error("memory ran out while the weights were copied; close other pages");
    new Uint8Array(this.kernel.memory.buffer).set(content, pointer);
    return pointer;
  }
}

function size({ shape }: TensorEntry): number {
  return shape.reduce((product, length) => product * length, 1);
}

function check(status: number): void {
  if (status) throw new Error(STATUS[status] ?? `the kernel returned status ${status}`);
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
