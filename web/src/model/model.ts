/** A packed model: texts in, answers out. */

import { MemoryByteSource, readHeader } from "../trace/safetensors";
import { type Candidate, type Generated, type GenerationSettings, TextGenerator, untilStop } from "./generation";
import { KernelModel, type KernelSettings, type Tensors } from "./kernel";
import { type Filled, type Filling, MaskFiller, type MaskSettings } from "./masks";
import { isString, mustBe } from "./options";
import type { Decoding } from "./search";
import { exactSpans } from "./spans";
import { type Entity, entitiesOf } from "./tags";
import { Tokenizer, type TokenizerConfig } from "./tokenizer";
import { NO_MASK, pairWarnings, textWarnings, unknownCharacters, type Warning } from "./warnings";

export type Task = "classification" | "multi_label_classification" | "regression" | "similarity" | "tagging" | "masked_language_modeling" | GenerationTask;
export type GenerationTask = "sequence_to_sequence" | "language_modeling";

/** A text, or two of a model that reads pairs. */
export type Input = string | readonly [string, string];

/** A text with the ids and outputs that the exporting program computed; of generated text its log-probabilities. */
export interface Example {
  readonly text: string;
  readonly pair?: string; // the second text
  readonly ids: readonly number[];
  readonly outputs: readonly number[];
  readonly generated?: string;
  readonly filled?: readonly number[]; // the pieces of masks, whose log-probabilities are the outputs
}

/** The metadata of the packed file. */
export interface Settings extends KernelSettings {
  readonly format: number;
  readonly name: string;
  readonly task: Task;
  readonly labels: readonly string[];
  readonly threshold: number; // of the labels of a text
  readonly prompt: string; // before every text
  readonly lower_case: boolean; // texts are read in lower case
  readonly pairs: "always" | "optional" | "never"; // whether the model reads two texts
  readonly mask?: MaskSettings; // of masked words
  readonly odd_texts: readonly (readonly [text: string, ids: readonly number[]])[]; // for the check of the tokenizer
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
  | { readonly task: "tagging"; readonly entities: readonly Entity[] }
  | ({ readonly task: "masked_language_modeling" } & Filled)
  | ({ readonly task: GenerationTask } & Generated)
);

/** How far the outputs of the examples are from those in the file, relative to the largest of them (log-probabilities: at least 1). */
export interface Check {
  readonly difference: number; // Infinity: the ids or the generated texts differ
  readonly tolerance: number;
  readonly text: string; // the worst of the examples
  readonly passed: boolean;
}

export type { Candidate, Decoding, Entity, Filled, Filling, Generated, Warning };

const FORMAT = 3;
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
    if (!entries.has(`${prefix}scores`)) return new Tokenizer(config); // WordPiece and byte-level BPE
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
  private readonly filler: MaskFiller | null;

  constructor({ settings, tokenizer, kernel, generator }: Parts) {
    this.settings = settings;
    this.tokenizer = tokenizer;
    this.kernel = kernel;
    this.generator = generator;
    this.filler = settings.mask ? new MaskFiller(settings.mask, tokenizer) : null;
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

  /** Whether the model reads two texts. */
  get pairs(): "always" | "optional" | "never" {
    return this.settings.pairs;
  }

  /** The decoding settings of a model that generates text; null for another one. */
  get decoding(): Decoding | null {
    return this.settings.generation?.decoding ?? null;
  }

  /** The bytes of WebAssembly memory in use. */
  get memoryBytes(): number {
    return this.kernel.memoryBytes;
  }

  /** The numbers that the model computes for a text: logits (of tags those of each token), a score, a vector, or log-probabilities of generated tokens and filled masks. */
  outputs(text: Input): Float32Array {
    if (this.generator) return this.generated(this.single(text)).logProbabilities;
    if (this.filler) {
      const logP = this.maskProbabilities(this.row(text));
      return Float32Array.from(this.filler.fill(this.single(text), logP).masks, ([best]) => best.logProbability);
    }
    return this.run(this.row(text));
  }

  /** Whether a part of a text is not read because it has too many tokens. */
  isTruncated(text: Input): boolean {
    if (this.settings.generation?.kind === "decoder") return false; // its window slides
    const [first, second] = this.texts(text);
    return this.tokenizer.unreadTokens(first, second) > 0;
  }

  /** The characters of a text that are not in the vocabulary. */
  unknownCharacters(text: string): readonly string[] {
    return unknownCharacters(text, this.tokenizer);
  }

  /** The answer for a text; `decoding` changes settings of generated text. Throws for NUL, lone surrogates, unknown or wrong settings, and when memory runs out. */
  predict(text: Input, decoding: Partial<Decoding> = {}): Answer {
    const { task, labels, threshold } = this.settings;
    if (this.generator) {
      const steps = this.generator.steps(this.single(text), decoding);
      for (;;) {
        const { done, value } = steps.next();
        if (done) return { task: task as GenerationTask, ...value };
      }
    }
    this.checkInput(text);
    if (Object.keys(decoding).length) throw this.noGeneration();
    const warnings = isString(text) ? textWarnings(text, this.tokenizer) : pairWarnings(text, this.tokenizer);
    if (this.filler) return this.fill(this.single(text), warnings);
    const outputs = this.outputs(text);
    if (task === "classification") {
      const probabilities = softmax(outputs);
      return { task, label: labels[probabilities.indexOf(Math.max(...probabilities))], probabilities, warnings };
    }
    if (task === "multi_label_classification") {
      const probabilities = Array.from(outputs, (x) => 1 / (1 + Math.exp(-x)));
      return { task, labels: labels.filter((_, i) => probabilities[i] >= threshold), probabilities, warnings };
    }
    if (task === "regression") return { task, score: outputs[0], warnings };
    if (task === "tagging") return { task, entities: this.entities(this.single(text), outputs), warnings };
    return { task: "similarity", vector: outputs, warnings };
  }

  private fill(text: string, warnings: readonly Warning[]): Answer {
    const filled = this.filler!.fill(text, this.maskProbabilities(this.row(text)));
    return { task: "masked_language_modeling", ...filled, warnings: this.filler!.hasMask(text) ? warnings : [...warnings, NO_MASK] };
  }

  private entities(text: string, outputs: Float32Array): Entity[] {
    const { labels, tokenizer: { before, after, side } } = this.settings;
    const L = labels.length;
    const spans = exactSpans(text, this.tokenizer.encodeWithPieces(text));
    const n = outputs.length / L - before.length - after.length; // pieces that were read
    const kept = side === "left" ? spans.slice(spans.length - n) : spans.slice(0, n);
    const logP = kept.map((_, i) => logSoftmax(outputs.subarray((before.length + i) * L, (before.length + i + 1) * L)));
    return entitiesOf(text, kept, logP.map((row) => [...row]), labels);
  }

  /** The input ids of a text, or of two. */
  private row(text: Input): number[] {
    return this.filler ? this.filler.row(this.single(text)) : this.tokenizer.inputs(...this.texts(text));
  }

  /** The texts that are tokenized. */
  private texts(text: Input): [string, string | null] {
    const { prompt, lower_case } = this.settings;
    this.checkInput(text);
    if (!isString(text)) return [text[0], text[1]];
    return [lower_case ? (prompt + text).toLowerCase() : prompt + text, null];
  }

  private noGeneration(): Error {
    return new Error(`a model for ${this.task} generates no text and has no options; use predict(text)`);
  }

  /** The text of a model that reads one. */
  private single(text: Input): string {
    this.checkInput(text);
    return text as string;
  }

  /** Throws for what is not a text, or two, as the model reads them. */
  private checkInput(text: Input): void {
    const { pairs } = this;
    const isRead = isString(text) ? pairs !== "always" : pairs !== "never" && Array.isArray(text) && text.length === 2 && text.every(isString);
    const must = pairs === "never" ? "a string" : `${pairs === "optional" ? "a string or " : ""}a list of two strings`;
    mustBe("the text", !isRead && must, text);
  }

  private run(row: readonly number[]): Float32Array {
    return this.kernel.run(row, this.tokenizer.types(row));
  }

  /** log p of all tokens for each mask of a row. */
  private maskProbabilities(row: readonly number[]): Float64Array[] {
    const outputs = this.run(row);
    const width = outputs.length / row.length;
    const masks = row.flatMap((id, i) => (id === this.filler!.settings.id ? [i] : []));
    return masks.map((i) => {
      const x = outputs.subarray(i * width, (i + 1) * width);
      return logSoftmax(this.settings.head!.by_table ? this.kernel.products(x) : x);
    });
  }

  /** Generates text and pauses now and then: `onText` gets the text so far, and returns false to end. Null if it was ended. */
  async stream(text: string, onText: (text: string) => boolean, decoding: Partial<Decoding> = {}): Promise<Generated | null> {
    if (!this.generator) throw this.noGeneration();
    const steps = this.generator.steps(this.single(text), decoding);
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
      steps.return({ text: "", candidates: [], finished: false, seed: null, warnings: [] }); // releases the search
      return null;
    }
  }

  /** Computes the examples of the file again and compares. */
  check(): Check {
    const { examples, tolerance, odd_texts } = this.settings;
    const largest = Math.max(this.generator ? 1 : 0, ...examples.flatMap(({ outputs }) => outputs.map(Math.abs))) || 1;
    const wrong = odd_texts.find(([text, ids]) => String(this.tokenizer.encode(text)) !== String(ids));
    let worst = { difference: wrong ? Number.POSITIVE_INFINITY : 0, text: wrong?.[0] ?? "" };
    for (const example of examples) {
      const difference = this.difference(example) / largest;
      if (!(difference <= worst.difference)) worst = { difference, text: example.text };
    }
    return { ...worst, tolerance, passed: worst.difference <= tolerance };
  }

  private difference({ text, pair, ids, outputs, generated, filled }: Example): number {
    if (this.generator) {
      const found = this.generated(text);
      const same = String(found.source) === String(ids) && found.text === generated;
      return same ? farthest(found.logProbabilities, outputs) : Number.POSITIVE_INFINITY;
    }
    const found = this.row(pair === undefined ? text : [text, pair]);
    if (String(found) !== String(ids)) return Number.POSITIVE_INFINITY;
    if (!filled) return farthest(this.run(found), outputs);
    return farthest(Float32Array.from(this.maskProbabilities(found), (logP, i) => logP[filled[i]]), outputs);
  }

  /** What is generated for one line: its input ids, the best text and the log-probabilities of its tokens. */
  private generated(text: string) {
    const generator = this.generator!;
    const { decoding } = generator.settings;
    const search = generator.start(text, decoding);
    try {
      while (!generator.step(search, text, decoding));
      const best = search.hypotheses()[0];
      const source = generator.settings.kind === "decoder" ? generator.prompt(text) : this.tokenizer.inputs(text);
      return { source, text: untilStop(generator.added(text, best.ids), decoding.stop), logProbabilities: Float32Array.from(best.logProbabilities) };
    } finally {
      search.free();
    }
  }

  /** Releases the memory of the weights. */
  free(): void {
    this.kernel.free();
  }
}

/** The cosine of two vectors. */
export function similarity(a: Float32Array, b: Float32Array): number {
  const product = (x: Float32Array, y: Float32Array) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return product(a, b) / Math.max(Math.sqrt(product(a, a) * product(b, b)), Number.MIN_VALUE);
}

function logSoftmax(logits: Float32Array): Float64Array {
  const maximum = logits.reduce((most, x) => Math.max(most, x), Number.NEGATIVE_INFINITY);
  const sum = Math.log(logits.reduce((total, x) => total + Math.exp(x - maximum), 0)) + maximum;
  return Float64Array.from(logits, (x) => x - sum);
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
