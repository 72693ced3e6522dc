/** A packed model: texts in, answers out. */

import { MemoryByteSource, readHeader } from "../trace/safetensors";
import { KernelModel, type KernelSettings } from "./kernel";
import { Tokenizer, type TokenizerConfig } from "./tokenizer";

export type Task = "classification" | "multi_label_classification" | "regression" | "similarity";

/** A text with the ids and outputs that the exporting program computed. */
export interface Example {
  readonly text: string;
  readonly ids: readonly number[];
  readonly outputs: readonly number[];
}

/** The metadata of the packed file. */
interface Settings extends KernelSettings {
  readonly format: number;
  readonly name: string;
  readonly task: Task;
  readonly labels: readonly string[];
  readonly threshold: number; // of the labels of a text
  readonly prompt: string; // before every text
  readonly tokenizer: TokenizerConfig;
  readonly examples: readonly Example[];
  readonly tolerance: number;
}

/** The answer of each task; `probabilities` are in the order of the labels. */
export type Answer =
  | { readonly task: "classification"; readonly label: string; readonly probabilities: readonly number[] }
  | { readonly task: "multi_label_classification"; readonly labels: readonly string[]; readonly probabilities: readonly number[] }
  | { readonly task: "regression"; readonly score: number }
  | { readonly task: "similarity"; readonly vector: Float32Array };

/** How far the outputs of the examples are from those in the file, relative to the largest of them. */
export interface Check {
  readonly difference: number; // Infinity: the ids differ
  readonly tolerance: number;
  readonly text: string; // the worst of the examples
  readonly passed: boolean;
}

const FORMAT = 1;
const TOKENIZER = "tokenizer.";

export class Model {
  private constructor(
    private readonly settings: Settings,
    readonly tokenizer: Tokenizer,
    private readonly kernel: KernelModel,
  ) {}

  /** The model in the bytes of a packed file, in the kernel in the bytes of kernel.wasm. */
  static async create(file: ArrayBuffer, wasm: BufferSource): Promise<Model> {
    const { metadata, entries } = await readHeader(new MemoryByteSource(file));
    if (!metadata.jumok) throw new Error("not a packed model; write one with jumok export RUN --to web OUT");
    const settings = JSON.parse(metadata.jumok) as Settings;
    if (settings.format !== FORMAT) throw new Error(`the packed model must have format ${FORMAT}, got ${settings.format}; export it again`);
    const [scores, types] = ["scores", "types"].map((name) => {
      const { start, shape } = entries.get(TOKENIZER + name)!;
      return file.slice(start, start + shape[0] * (name === "scores" ? 4 : 1));
    });
    const tokenizer = new Tokenizer(settings.tokenizer, new Float32Array(scores), new Uint8Array(types));
    return new Model(settings, tokenizer, await KernelModel.create(wasm, file, entries, settings, TOKENIZER));
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

  /** The bytes of WebAssembly memory in use. */
  get memoryBytes(): number {
    return this.kernel.memoryBytes;
  }

  /** The numbers that the model computes for a text: logits, a score or a vector. */
  outputs(text: string): Float32Array {
    return this.kernel.run(this.tokenizer.inputs(this.settings.prompt + text));
  }

  /** Whether the end of a text is not read because it has too many tokens. */
  isTruncated(text: string): boolean {
    return this.tokenizer.isTruncated(this.settings.prompt + text);
  }

  /** The answer for a text. Throws for NUL, lone surrogates, and when memory runs out. */
  predict(text: string): Answer {
    const { task, labels, threshold } = this.settings;
    const outputs = this.outputs(text);
    if (task === "classification") {
      const probabilities = softmax(outputs);
      return { task, label: labels[probabilities.indexOf(Math.max(...probabilities))], probabilities };
    }
    if (task === "multi_label_classification") {
      const probabilities = Array.from(outputs, (x) => 1 / (1 + Math.exp(-x)));
      return { task, labels: labels.filter((_, i) => probabilities[i] >= threshold), probabilities };
    }
    if (task === "regression") return { task, score: outputs[0] };
    return { task, vector: outputs };
  }

  /** Computes the examples of the file again and compares. */
  check(): Check {
    const { examples, tolerance } = this.settings;
    const largest = Math.max(...examples.flatMap(({ outputs }) => outputs.map(Math.abs)));
    let worst = { difference: 0, text: "" };
    for (const { text, ids, outputs } of examples) {
      const found = this.tokenizer.inputs(this.settings.prompt + text);
      const same = String(found) === String(ids);
      const difference = same ? farthest(this.kernel.run(found), outputs) / (largest || 1) : Number.POSITIVE_INFINITY;
      if (!(difference <= worst.difference)) worst = { difference, text };
    }
    return { ...worst, tolerance, passed: worst.difference <= tolerance };
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

/** The largest difference of two rows of numbers; NaN if one is NaN. */
function farthest(found: Float32Array, expected: readonly number[]): number {
  return expected.reduce((worst, x, i) => Math.max(worst, Math.abs(found[i] - x)), 0);
}
