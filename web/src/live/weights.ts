/** The weights of a packed file as numbers, and the dimensions of its model. */

import type { KernelSettings, Tensors } from "../model/kernel";

/** `ModelDims` of kernel/transformer.h. */
export interface Dims {
  readonly d_model: number;
  readonly n_heads: number;
  readonly n_kv_heads: number;
  readonly d_head: number;
  readonly d_ff: number;
  readonly encoder_layers: number;
  readonly decoder_layers: number;
  readonly max_length: number;
  readonly vocabulary: number;
  readonly activation: string;
  readonly gated: boolean;
  readonly rms: boolean;
  readonly norm_first: boolean;
  readonly embedding_norm: boolean;
  readonly norm_eps: number;
  readonly attention_scale: number;
  readonly embedding_scale: number;
}

const ACTIVATIONS = ["relu", "gelu", "gelu_tanh", "silu"]; // order of kernel/vector_math.h

export function readDims({ dims: { integers, floats } }: KernelSettings): Dims {
  const [d_model, n_heads, n_kv_heads, d_head, d_ff, encoder_layers, decoder_layers, , max_length, vocabulary, activation, gated, rms, norm_first, , , embedding_norm] = integers;
  const [norm_eps, attention_scale, embedding_scale] = floats;
  return {
    ...{ d_model, n_heads, n_kv_heads, d_head, d_ff, encoder_layers, decoder_layers, max_length, vocabulary },
    ...{ activation: ACTIVATIONS[activation], gated: gated !== 0, rms: rms !== 0, norm_first: norm_first !== 0 },
    ...{ embedding_norm: embedding_norm !== 0, norm_eps, attention_scale, embedding_scale },
  };
}

/** A linear map: (out, in) numbers in row-major order, as nn.Linear stores them. */
export interface LinearMap {
  readonly outputs: number;
  readonly inputs: number;
  readonly weight: Float32Array;
  readonly bias: Float32Array | null;
}

/** The tensors of a packed file in float32, by their names in the kernel: views, which must not be changed. */
export class Weights {
  constructor(
    private readonly file: ArrayBuffer,
    private readonly tensors: Tensors,
  ) {}

  has(name: string): boolean {
    return this.tensors.has(name);
  }

  vector(name: string): Float32Array {
    const { start, shape, dtype } = this.tensors.get(name)!;
    if (dtype !== "F32") throw new Error(`the weights of a page with a live model must be float32, got ${dtype} for ${name}`);
    const count = shape.reduce((product, length) => product * length, 1);
    return start % 4 ? new Float32Array(this.file.slice(start, start + 4 * count)) : new Float32Array(this.file, start, count);
  }

  vectorOrNull(name: string): Float32Array | null {
    return this.has(name) ? this.vector(name) : null;
  }

  linear(name: string): LinearMap {
    const [outputs, inputs] = this.tensors.get(name)!.shape;
    return { outputs, inputs, weight: this.vector(name), bias: this.vectorOrNull(`${name}.bias`) };
  }

  /** Rows `from` up to `from + outputs` of a linear map. */
  rows(name: string, from: number, outputs: number): LinearMap {
    const { inputs, weight, bias } = this.linear(name);
    return { outputs, inputs, weight: weight.subarray(from * inputs, (from + outputs) * inputs), bias: bias?.subarray(from, from + outputs) ?? null };
  }
}
