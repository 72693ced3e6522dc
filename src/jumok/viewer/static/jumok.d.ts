/**
 * The types of jumok.js: a model of `jumok export --to web` in one's own page.
 *
 *     import { load } from "./jumok.js";
 *     const model = await load("model.safetensors", "kernel.wasm");
 *     console.log(model.predict("재미있어요"));
 */

export type Task = "classification" | "multi_label_classification" | "regression" | "similarity" | GenerationTask;
export type GenerationTask = "sequence_to_sequence" | "language_modeling";

/** What an answer does not show, with the codes and sentences of the Python library. */
export interface Warning {
  readonly code: "empty_text" | "unknown_characters" | "truncated" | "repetition";
  readonly message: string;
}

/** One of the generated texts: the sum of the log-probabilities of its tokens, and what orders the candidates. */
export interface Candidate {
  readonly text: string;
  readonly score: number;
  readonly rank: number;
}

export interface Generated {
  readonly text: string;
  /** `n_best` at most, the best first. */
  readonly candidates: readonly Candidate[];
  /** False: a limit ended the text. */
  readonly finished: boolean;
  readonly warnings: readonly Warning[];
}

/** The settings of generated text: those of the `[decoding]` table of a recipe. */
export interface Decoding {
  readonly beam: number; // 1: greedy
  readonly n_best: number; // candidates, at most `beam`
  readonly length_penalty: number;
  readonly length_norm: "power" | "gnmt";
  readonly early_stopping: boolean | "never";
  readonly min_length: number;
  readonly max_length: number;
  readonly max_ratio: number;
  readonly max_extra: number;
}

/** The answer of each task; `probabilities` are in the order of the labels. */
export type Answer = { readonly warnings: readonly Warning[] } & (
  | { readonly task: "classification"; readonly label: string; readonly probabilities: readonly number[] }
  | { readonly task: "multi_label_classification"; readonly labels: readonly string[]; readonly probabilities: readonly number[] }
  | { readonly task: "regression"; readonly score: number }
  | { readonly task: "similarity"; readonly vector: Float32Array }
  | ({ readonly task: GenerationTask } & Generated)
);

/** A text with the ids and outputs that the exporting program computed; of generated text its log-probabilities. */
export interface Example {
  readonly text: string;
  readonly ids: readonly number[];
  readonly outputs: readonly number[];
  readonly generated?: string;
}

/** How far the outputs of the examples are from those in the file, relative to the largest of them (log-probabilities: at least 1). */
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
  /** The decoding settings of a model that generates text; null for another one. */
  readonly decoding: Decoding | null;
  /** The answer for a text; `decoding` changes settings of generated text. Throws for NUL, lone surrogates, and when memory runs out. */
  predict(text: string, decoding?: Partial<Decoding>): Answer;
  /** Generates text and pauses now and then: `onText` gets the text so far, and returns false to end. Null if it was ended. */
  stream(text: string, onText: (text: string) => boolean, decoding?: Partial<Decoding>): Promise<Generated | null>;
  /** The characters of a text that are not in the vocabulary. */
  unknownCharacters(text: string): readonly string[];
  /** The numbers that the model computes for a text: logits, a score, a vector, or the log-probabilities of the best text. */
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
  /** The number of pieces of a text that the model does not read. */
  unreadTokens(text: string): number;
  /** The text of ids; special pieces, [UNK] among them, are left out. */
  decode(ids: readonly number[]): string;
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
