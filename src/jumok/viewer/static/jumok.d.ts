/**
 * The types of jumok.js: a model of `jumok export --to web` in one's own page.
 *
 *     import { load } from "./jumok.js";
 *     const model = await load("model.safetensors", "kernel.wasm");
 *     console.log(model.predict("재미있어요"));
 */

export type Task = "classification" | "multi_label_classification" | "regression" | "similarity";

/** The answer of each task; `probabilities` are in the order of the labels. */
export type Answer =
  | { readonly task: "classification"; readonly label: string; readonly probabilities: readonly number[] }
  | { readonly task: "multi_label_classification"; readonly labels: readonly string[]; readonly probabilities: readonly number[] }
  | { readonly task: "regression"; readonly score: number }
  | { readonly task: "similarity"; readonly vector: Float32Array };

/** A text with the ids and outputs that the exporting program computed. */
export interface Example {
  readonly text: string;
  readonly ids: readonly number[];
  readonly outputs: readonly number[];
}

/** How far the outputs of the examples are from those in the file, relative to the largest of them. */
export interface Check {
  readonly difference: number;
  readonly tolerance: number;
  readonly text: string;
  readonly passed: boolean;
}

export interface Model {
  readonly name: string;
  readonly task: Task;
  readonly labels: readonly string[];
  readonly examples: readonly Example[];
  /** The bytes of WebAssembly memory in use. */
  readonly memoryBytes: number;
  readonly tokenizer: Tokenizer;
  /** The answer for a text. Throws for NUL, lone surrogates, and when memory runs out. */
  predict(text: string): Answer;
  /** The numbers that the model computes for a text: logits, a score or a vector. */
  outputs(text: string): Float32Array;
  /** Whether the end of a text is not read because it has too many tokens. */
  isTruncated(text: string): boolean;
  /** Computes the examples of the file again and compares. */
  check(): Check;
  /** Releases the memory of the weights. */
  free(): void;
}

/** A SentencePiece model: unigram, BPE or characters. */
export declare class Tokenizer {
  constructor(config: TokenizerConfig, scores: Float32Array, types: Uint8Array);
  /** The ids of a text. */
  encode(text: string): number[];
  /** The input ids of a text: its pieces, truncated, and the special tokens. */
  inputs(text: string): number[];
  isTruncated(text: string): boolean;
}

export interface TokenizerConfig {
  readonly kind: "unigram" | "bpe" | "char";
  readonly pieces: readonly string[];
  readonly unknown: number;
  readonly normalization: "nfc" | "none" | "hangul";
  readonly byte_fallback: boolean;
  readonly dummy_prefix: boolean;
  readonly remove_extra_spaces: boolean;
  readonly escape_spaces: boolean;
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly max_length: number;
  readonly side: "left" | "right";
}

/** The model in the bytes of model.safetensors, in the kernel in the bytes of kernel.wasm. */
export declare function open(model: ArrayBuffer, kernel: BufferSource): Promise<Model>;

/** The model at an address, in the kernel at another one. */
export declare function load(model: string | URL, kernel: string | URL): Promise<Model>;

/** The cosine of two vectors of length 1. */
export declare function similarity(a: Float32Array, b: Float32Array): number;
