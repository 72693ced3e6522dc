/**
 * The types of jumok.js: a model of `jumok export --to web` in one's own page.
 *
 *     import { load } from "./jumok.js";
 *     const model = await load("model.safetensors", "kernel.wasm");
 *     console.log(model.predict("재미있어요"));
 */

export type Task = "classification" | "multi_label_classification" | "regression" | "similarity" | "tagging" | "masked_language_modeling" | GenerationTask;
export type GenerationTask = "sequence_to_sequence" | "language_modeling";

/** A text, or two of a model that reads pairs. */
export type Input = string | readonly [string, string];

/** What an answer does not show, with the codes and sentences of the Python library. */
export interface Warning {
  readonly code: "empty_text" | "unknown_characters" | "truncated" | "repetition" | "no_mask";
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
  /** Of a sample: with the same one the same text comes again. */
  readonly seed: number | null;
  readonly warnings: readonly Warning[];
}

/** The settings of generated text: those of the `[decoding]` table of a recipe. */
export interface Decoding {
  readonly beam: number; // 1: greedy
  readonly n_best: number; // candidates, at most `beam`, or samples
  readonly length_penalty: number;
  readonly length_norm: "power" | "gnmt";
  readonly early_stopping: boolean | "never";
  readonly min_length: number;
  readonly max_length: number;
  readonly max_ratio: number;
  readonly max_extra: number;
  readonly sample: boolean;
  readonly seed: number | null; // null: another one for each text
  readonly temperature: number;
  readonly top_k: number;
  readonly top_p: number;
  readonly min_p: number;
  readonly typical_p: number;
  readonly repetition_penalty: number;
  readonly no_repeat_ngram: number;
  readonly stop: readonly string[]; // needs a single hypothesis
}

/** A span of a text with its type; `start` and `end` count characters (code points, as in Python). */
export interface Entity {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** A piece that fits a mask, without the space before it. */
export interface Filling {
  readonly piece: string;
  readonly id: number;
  readonly logProbability: number;
}

/** A text with its masks filled. */
export interface Filled {
  readonly text: string;
  /** The sum of the log-probabilities of the pieces. */
  readonly score: number;
  /** The five best pieces of each mask that was read. */
  readonly masks: readonly (readonly Filling[])[];
}

/** The answer of each task; `probabilities` are in the order of the labels. */
export type Answer = { readonly warnings: readonly Warning[] } & (
  | { readonly task: "classification"; readonly label: string; readonly probabilities: readonly number[] }
  | { readonly task: "multi_label_classification"; readonly labels: readonly string[]; readonly probabilities: readonly number[] }
  | { readonly task: "regression"; readonly score: number }
  | { readonly task: "similarity"; readonly vector: Float32Array }
  | { readonly task: "tagging"; readonly entities: readonly Entity[] }
  | ({ readonly task: "masked_language_modeling" } & Filled)
  | ({ readonly task: GenerationTask } & Generated)
);

/** A text with the ids and outputs that the exporting program computed; of generated text its log-probabilities. */
export interface Example {
  readonly text: string;
  readonly pair?: string;
  readonly ids: readonly number[];
  readonly outputs: readonly number[];
  readonly generated?: string;
  readonly filled?: readonly number[];
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
  /** Whether the model reads two texts: then give a list of two strings. */
  readonly pairs: "always" | "optional" | "never";
  /** The decoding settings of a model that generates text; null for another one. */
  readonly decoding: Decoding | null;
  /** The answer for a text; `decoding` changes settings of generated text. Throws for NUL, lone surrogates, unknown or wrong settings, and when memory runs out. */
  predict(text: Input, decoding?: Partial<Decoding>): Answer;
  /** Generates text and pauses now and then: `onText` gets the text so far, and returns false to end. Null if it was ended. */
  stream(text: string, onText: (text: string) => boolean, decoding?: Partial<Decoding>): Promise<Generated | null>;
  /** The characters of a text that are not in the vocabulary. */
  unknownCharacters(text: string): readonly string[];
  /** The numbers that the model computes for a text: logits (of tags those of each token), a score, a vector, or log-probabilities of generated tokens and filled masks. */
  outputs(text: Input): Float32Array;
  /** Whether a part of a text is not read because it has too many tokens. */
  isTruncated(text: Input): boolean;
  /** Computes the examples of the file again and compares. */
  check(): Check;
  /** Releases the memory of the weights. */
  free(): void;
}

/** SentencePiece (unigram, BPE, characters), or WordPiece, byte-level BPE and Unigram of imported models. */
export declare class Tokenizer {
  /** SentencePiece needs the scores and types of its pieces, Unigram of imported models the scores. */
  constructor(config: TokenizerConfig, scores?: Float32Array, types?: Uint8Array);
  /** The ids of a text. */
  encode(text: string): number[];
  /** The input ids of a text, or of two: pieces, truncated, and the special tokens. */
  inputs(text: string, pair?: string | null): number[];
  /** The number of pieces of a text, or of two, that the model does not read. */
  unreadTokens(text: string, pair?: string | null): number;
  /** The text of ids; special pieces, [UNK] among them, are left out. */
  decode(ids: readonly number[]): string;
}

/** The special tokens around texts, and how texts are shortened. */
export interface TemplateConfig {
  readonly before: readonly number[];
  readonly after: readonly number[];
  readonly pair: readonly (readonly number[])[] | null;
  readonly truncation: "longest_first" | "longest_first_python" | "first_keeps_more";
  readonly separator: number;
  readonly max_length: number;
  readonly side: "left" | "right";
}

export interface SentencePieceConfig {
  readonly kind: "unigram" | "bpe" | "char";
  readonly pieces: readonly string[];
  readonly unknown: number;
  readonly normalization: "nfc" | "none" | "hangul";
  readonly byte_fallback: boolean;
  readonly dummy_prefix: boolean;
  readonly remove_extra_spaces: boolean;
  readonly escape_spaces: boolean;
}

/** A step of a tokenizer.json. */
export type Step =
  | { readonly type: "bert"; readonly clean_text: boolean; readonly chinese: boolean; readonly strip_accents: boolean; readonly lowercase: boolean }
  | { readonly type: "form"; readonly form: "NFC" | "NFD" | "NFKC" | "NFKD" }
  | { readonly type: "lowercase" }
  | { readonly type: "charsmap"; readonly charsmap: string; readonly attached: readonly number[]; readonly prepended: readonly number[] }
  | { readonly type: "replace"; readonly pattern: string; readonly content: string }
  | { readonly type: "spaces_removed" }
  | { readonly type: "punctuation" }
  | { readonly type: "metaspace"; readonly prefix: "always" | "first" | "never"; readonly split: boolean }
  | { readonly type: "bert_words" }
  | { readonly type: "byte_level"; readonly add_prefix_space: boolean; readonly pattern: string }
  | { readonly type: "split"; readonly pattern: string; readonly removed: boolean; readonly invert: boolean };

/** WordPiece, byte-level BPE and Unigram of imported models. */
export interface PretrainedConfig {
  readonly kind: "wordpiece" | "byte_bpe" | "unigram";
  readonly pieces: readonly string[];
  readonly unknown: number;
  readonly special: readonly number[];
  readonly added: readonly {
    readonly id: number;
    readonly content: string;
    readonly in_model: boolean;
    readonly single_word: boolean;
    readonly lstrip: boolean;
    readonly rstrip: boolean;
    readonly normalized: boolean;
  }[];
  readonly normalizer: readonly Step[];
  readonly words: readonly Step[];
  readonly trim_offsets: "" | "trim" | "trim_inserted";
  readonly max_word: number;
  readonly clean_up: boolean;
  readonly merges: readonly number[];
  readonly ignore_merges: boolean;
  readonly skips_first_space: boolean; // decoding leaves out the spaces of the first piece of Unigram
  readonly characters: Readonly<Record<"removed" | "spaces" | "chinese" | "marks" | "punctuation", readonly number[]>>;
}

export type TokenizerConfig = TemplateConfig & (SentencePieceConfig | PretrainedConfig);

/** The model in the bytes of model.safetensors, in the kernel in the bytes of kernel.wasm. */
export declare function open(model: ArrayBuffer, kernel: BufferSource): Promise<Model>;

/** The model at an address, in the kernel at another one. */
export declare function load(model: string | URL, kernel: string | URL): Promise<Model>;

/** The cosine of two vectors. */
export declare function similarity(a: Float32Array, b: Float32Array): number;
