/** A packed model: texts in, answers out. */

import { MemoryByteSource, readHeader } from "../trace/safetensors";
import { type Candidate, type Generated, type GenerationSettings, TextGenerator } from "./generation";
import { KernelModel, type KernelSettings, type Tensors } from "./kernel";
import type { Decoding } from "./search";
import { Tokenizer, type TokenizerConfig } from "./tokenizer";
import { textWarnings, unknownCharacters, type Warning } from "./warnings";

export type Task = "classification" | "multi_label_classification" | "regression" | "similarity" | GenerationTask;
export type GenerationTask = "sequence_to_sequence" | "language_modeling";

/** A text with the ids and outputs that the exporting program computed; of generated text its log-probabilities. */
export interface Example {
  readonly text: string;
  readonly ids: readonly number[];
  readonly outputs: readonly number[];
  readonly generated?: string;
}

/** The metadata of the packed file. */
export interface Settings extends KernelSettings {
  readonly format: number;
  readonly name: string;
  readonly task: Task;
  readonly labels: readonly string[];
  readonly threshold: number; // of the labels of a text
  readonly prompt: string; // before every text
  readonly tokenizer: TokenizerConfig;
  readonly target_tokenizer?: TokenizerConfig; // of the outputs, if it is another one
  readonly generation?: GenerationSettings;
  readonly examples: readonly Example[];
  readonly tolerance: number;
}

/** The answer of each task; `probabilities` are in the order of the labels. */
export type Answer = { readonly warnings: readonly Warning[] } & (
  | { readonly task: "classification"; readonly label: string; readonly probabilities: readonly number[] }
  | { readonly task: "multi_label_classification"; readonly labels: readonly string[]; readonly probabilities: readonly number[] }
  | { readonly task: "regression"; readonly score: number }
  | { readonly task: "similarity"; readonly vector: Float32Array }
  | ({ readonly task: GenerationTask } & Generated)
);

/** How far the outputs of the examples are from those in the file, relative to the largest of them (log-probabilities: at least 1). */
export interface Check {
  readonly difference: number; // Infinity: the ids or the generated texts differ
  readonly tolerance: number;
  readonly text: string; // the worst of the examples
  readonly passed: boolean;
}

export type { Candidate, Decoding, Generated, Warning };

const FORMAT = 2;
const TOKENIZER = "tokenizer."; // the beginning of the names of its tensors
const SLICE_MS = 12; // of a generation, between two updates of the page

/** What a packed file contains, opened. */
export interface Parts {
  readonly settings: Settings;
  readonly tensors: Tensors;
  readonly tokenizer: Tokenizer;
  readonly target: Tokenizer; // of the outputs, usually the same
  readonly kernel: KernelModel;
  readonly generator: TextGenerator | null;
}

/** Opens the bytes of a packed file, in the kernel in the bytes of kernel.wasm. */
export async function openParts(file: ArrayBuffer, wasm: BufferSource): Promise<Parts> {
  const { metadata, entries } = await readHeader(new MemoryByteSource(file));
  if (!metadata.jumok) throw new Error("not a packed model; write one with jumok export RUN --to web OUT");
  const settings = JSON.parse(metadata.jumok) as Settings;
  if (settings.format !== FORMAT) throw new Error(`the packed model must have format ${FORMAT}, got ${settings.format}; export it again`);
  const open = (config: TokenizerConfig, prefix: string) => {
    const [scores, types] = ["scores", "types"].map((name) => {
      const { start, shape } = entries.get(prefix + name)!;
      return file.slice(start, start + shape[0] * (name === "scores" ? 4 : 1));
    });
    return new Tokenizer(config, new Float32Array(scores), new Uint8Array(types));
  };
  const tokenizer = open(settings.tokenizer, TOKENIZER);
  const target = settings.target_tokenizer ? open(settings.target_tokenizer, `${TOKENIZER}target.`) : tokenizer;
  const kernel = await KernelModel.create(wasm, file, entries, settings, TOKENIZER);
  const generator = settings.generation ? new TextGenerator(settings.generation, kernel, tokenizer, target) : null;
  return { settings, tensors: entries, tokenizer, target, kernel, generator };
}

export class Model {
  private readonly settings: Settings;
  readonly tokenizer: Tokenizer;
  private readonly kernel: KernelModel;
  private readonly generator: TextGenerator | null;

  constructor({ settings, tokenizer, kernel, generator }: Parts) {
    this.settings = settings;
    this.tokenizer = tokenizer;
    this.kernel = kernel;
    this.generator = generator;
  }

  /** The model in the bytes of a packed file, in the kernel in the bytes of kernel.wasm. */
  static async create(file: ArrayBuffer, wasm: BufferSource): Promise<Model> {
    return new Model(await openParts(file, wasm));
  }

  get name(): string {
    return this.settings.name;
  }

  get task(): Task {
    return this.settings.task;
  }

  get labels(): readonly string[] {
    return this.settings.labels;
  }

  get examples(): readonly Example[] {
    return this.settings.examples;
  }

  /** The decoding settings of a model that generates text; null for another one. */
  get decoding(): Decoding | null {
    return this.settings.generation?.decoding ?? null;
  }

  /** The bytes of WebAssembly memory in use. */
  get memoryBytes(): number {
    return this.kernel.memoryBytes;
  }

  /** The numbers that the model computes for a text: logits, a score, a vector, or the log-probabilities of the best text. */
  outputs(text: string): Float32Array {
    if (this.generator) return this.generated(text).logProbabilities;
    return this.kernel.run(this.tokenizer.inputs(this.settings.prompt + text));
  }

  /** Whether the end of a text is not read because it has too many tokens. */
  isTruncated(text: string): boolean {
    if (this.settings.generation?.kind === "decoder") return false; // its window slides
    return this.tokenizer.unreadTokens(this.settings.prompt + text) > 0;
  }

  /** The characters of a text that are not in the vocabulary. */
  unknownCharacters(text: string): readonly string[] {
    return unknownCharacters(text, this.tokenizer);
  }

  /** The answer for a text; `decoding` changes settings of generated text. Throws for NUL, lone surrogates, and when memory runs out. */
  predict(text: string, decoding: Partial<Decoding> = {}): Answer {
    const { task, labels, threshold } = this.settings;
    if (this.generator) {
      const steps = this.generator.steps(text, decoding);
      for (;;) {
        const { done, value } = steps.next();
        if (done) return { task: task as GenerationTask, ...value };
      }
    }
    const outputs = this.outputs(text);
    const warnings = textWarnings(text, this.tokenizer);
    if (task === "classification") {
      const probabilities = softmax(outputs);
      return { task, label: labels[probabilities.indexOf(Math.max(...probabilities))], probabilities, warnings };
    }
    if (task === "multi_label_classification") {
      const probabilities = Array.from(outputs, (x) => 1 / (1 + Math.exp(-x)));
      return { task, labels: labels.filter((_, i) => probabilities[i] >= threshold), probabilities, warnings };
    }
    if (task === "regression") return { task, score: outputs[0], warnings };
    return { task: "similarity", vector: outputs, warnings };
  }

  /** Generates text and pauses now and then: `onText` gets the text so far, and returns false to end. Null if it was ended. */
  async stream(text: string, onText: (text: string) => boolean, decoding: Partial<Decoding> = {}): Promise<Generated | null> {
    if (!this.generator) throw new Error(`a model for ${this.task} generates no text; use predict`);
    const steps = this.generator.steps(text, decoding);
    for (let paused = performance.now(); ; ) {
      const { done, value } = steps.next();
      if (done) {
        onText(value.text);
        return value;
      }
      if (performance.now() - paused < SLICE_MS) continue;
      await new Promise((resolve) => setTimeout(resolve));
      paused = performance.now();
      if (onText(value())) continue;
      steps.return({ text: "", candidates: [], finished: false, warnings: [] }); // releases the search
      return null;
    }
  }

  /** Computes the examples of the file again and compares. */
  check(): Check {
    const { examples, tolerance } = this.settings;
    const largest = Math.max(this.generator ? 1 : 0, ...examples.flatMap(({ outputs }) => outputs.map(Math.abs))) || 1;
    let worst = { difference: 0, text: "" };
    for (const example of examples) {
      const difference = this.difference(example) / largest;
      if (!(difference <= worst.difference)) worst = { difference, text: example.text };
    }
    return { ...worst, tolerance, passed: worst.difference <= tolerance };
  }

  private difference({ text, ids, outputs, generated }: Example): number {
    if (this.generator) {
      const found = this.generated(text);
      const same = String(found.source) === String(ids) && found.text === generated;
      return same ? farthest(found.logProbabilities, outputs) : Number.POSITIVE_INFINITY;
    }
    const found = this.tokenizer.inputs(this.settings.prompt + text);
    return String(found) === String(ids) ? farthest(this.kernel.run(found), outputs) : Number.POSITIVE_INFINITY;
  }

  /** What is generated for one line: its input ids, the best text and the log-probabilities of its tokens. */
  private generated(text: string) {
    const generator = this.generator!;
    const search = generator.start(text, generator.settings.decoding);
    try {
      search.run();
      const best = search.hypotheses()[0];
      const source = generator.settings.kind === "decoder" ? generator.prompt(text) : this.tokenizer.inputs(text);
      return { source, text: generator.added(text, best.ids), logProbabilities: Float32Array.from(best.logProbabilities) };
    } finally {
      search.free();
    }
  }

  /** Releases the memory of the weights. */
  free(): void {
    this.kernel.free();
  }
}

/** The cosine of two vectors of length 1. */
export function similarity(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, x, i) => sum + x * b[i], 0);
}

function softmax(logits: Float32Array): number[] {
  const maximum = Math.max(...logits);
  const powers = Array.from(logits, (x) => Math.exp(x - maximum));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}

/** The largest difference of two rows of numbers; NaN if one is NaN, Infinity if their lengths differ. */
function farthest(found: Float32Array, expected: readonly number[]): number {
  if (found.length !== expected.length) return Number.POSITIVE_INFINITY;
  return expected.reduce((worst, x, i) => Math.max(worst, Math.abs(found[i] - x)), 0);
}
