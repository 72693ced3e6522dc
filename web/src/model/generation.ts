/** Generated text, equal to that of jumok/engine/generation.py: lines in, texts and their candidates out. */

import type { KernelModel } from "./kernel";
import { changed } from "./options";
import { type Decoding, type Hypothesis, Search, seeded } from "./search";
import type { Tokenizer } from "./tokenizer";
import { EMPTY_TEXT, isBlank, repetition, textWarnings, type Warning } from "./warnings";

/** Written by `jumok.formats.web_generation`. */
export interface GenerationSettings {
  readonly kind: "encoder_decoder" | "decoder";
  readonly decoding: Decoding;
  readonly start: number; // the id that the decoder reads first
  readonly end: number; // the id that ends a text
  readonly window: number; // tokens that the decoder reads at most
  readonly splits_lines: boolean; // whether each line is a text of its own
  readonly continues_documents: boolean; // whether a prompt of a language model begins without the first id
}

/** One of the generated texts: the sum of the log-probabilities of its tokens, and what orders the candidates. */
export interface Candidate {
  readonly text: string;
  readonly score: number;
  readonly rank: number;
}

export interface Generated {
  readonly text: string;
  readonly candidates: readonly Candidate[]; // `n_best` at most, the best first
  readonly finished: boolean; // false: a limit ended the text
  readonly seed: number | null; // of a sample
  readonly warnings: readonly Warning[];
}

const LINE_END = /(\r\n|[\n\r\u2028\u2029])/;

/** What a part of a text becomes, and the line end that follows it. */
type Part = readonly [Generated | null, string];

export class TextGenerator {
  constructor(
    readonly settings: GenerationSettings,
    private readonly kernel: KernelModel,
    private readonly source: Tokenizer,
    private readonly target: Tokenizer,
  ) {}

  /** Computes the output for a text, one token at a time. */
  *steps(text: string, changes: Partial<Decoding>): Steps {
    const decoding = seeded(changed(this.settings.decoding, changes));
    const parts: Part[] = [];
    const before = () => parts.map(([part, end]) => (part?.text ?? "") + end).join("");
    for (const [line, end] of this.split(text)) {
      const blank = this.settings.kind === "encoder_decoder" && isBlank(line);
      parts.push([blank ? null : yield* this.generate(line, decoding, before), end]);
    }
    return { ...joined(parts, decoding.n_best), seed: decoding.sample ? decoding.seed : null };
  }

  private split(text: string): [line: string, end: string][] {
    if (!this.settings.splits_lines) return [[text, ""]];
    const parts = text.split(LINE_END);
    return Array.from({ length: (parts.length + 1) / 2 }, (_, i) => [parts[2 * i], parts[2 * i + 1] ?? ""]);
  }

  private *generate(text: string, decoding: Decoding, before: () => string): Steps {
    const search = this.start(text, decoding);
    try {
      const single = hypotheses(decoding) === 1;
      while (!this.step(search, text, decoding)) yield () => before() + (single ? this.added(text, search.hypotheses()[0].ids) : "");
      const found = search.hypotheses();
      const best = found[0] ?? { ids: [], logProbabilities: [], rank: 0, finished: false };
      const candidates = (found.length ? found : [best]).map((each) => this.candidate(text, each, decoding.stop));
      const warnings = [...this.warnings(text), ...repetition(best.ids)];
      return { text: candidates[0].text, candidates, finished: best.finished || candidates[0].text !== this.added(text, best.ids), seed: null, warnings };
    } finally {
      search.free();
    }
  }

  /** Computes a token; returns whether the search is over, by itself or by a stop string. */
  step(search: Search, text: string, { stop }: Decoding): boolean {
    if (search.run(1)) return true;
    const added = stop.length ? this.added(text, search.hypotheses()[0].ids) : "";
    return untilStop(added, stop) !== added;
  }

  private warnings(text: string): Warning[] {
    const found = textWarnings(text, this.source);
    return this.settings.kind === "decoder" ? found.filter(({ code }) => code !== "truncated") : found; // its window slides
  }

  /** A search for one text, not advanced yet. */
  start(text: string, decoding: Decoding): Search {
    const { kernel, model } = this.kernel;
    const { kind, start, end, window } = this.settings;
    if (kind === "encoder_decoder") {
      const source = this.source.inputs(text);
      const min_length = Math.min(window, decoding.min_length);
      return Search.start(kernel, model, source, [start], end, this.limit(source.length, decoding), 0, { ...decoding, min_length });
    }
    const prompt = this.prompt(text);
    const slides = prompt.length + decoding.max_length - 1 > window;
    return Search.start(kernel, model, null, prompt, end, decoding.max_length, slides ? window : 0, decoding);
  }

  /** The most tokens that are generated, for a source of so many ids. */
  limit(sourceTokens: number, decoding: Decoding): number {
    const { kind, window } = this.settings;
    return kind === "decoder" ? decoding.max_length : Math.min(window, lengthLimit(decoding, sourceTokens));
  }

  /** The ids that a language model continues. */
  prompt(text: string): number[] {
    const ids = this.source.encode(text);
    return ids.length && this.settings.continues_documents ? ids : [this.settings.start, ...ids];
  }

  private candidate(text: string, { ids, logProbabilities, rank }: Hypothesis, stop: readonly string[]): Candidate {
    return { text: untilStop(this.added(text, ids), stop), score: logProbabilities.reduce((sum, x) => sum + x, 0), rank };
  }

  /** The text of generated ids; of a continuation what it adds to the prompt. */
  added(text: string, ids: readonly number[]): string {
    if (this.settings.kind === "encoder_decoder") return this.target.decode(ids);
    const prompt = this.prompt(text);
    const whole = this.target.decode([...prompt, ...ids]);
    return whole.slice(commonPrefix(this.target.decode(prompt), whole));
  }
}

/** Yields what returns the text so far, and returns the output. */
type Steps = Generator<() => string, Generated, undefined>;

/** How many hypotheses a text has at once. */
function hypotheses({ sample, beam, n_best }: Decoding): number {
  return sample ? n_best : beam;
}

/** The text before its first stop string. */
export function untilStop(text: string, stop: readonly string[]): string {
  return text.slice(0, Math.min(text.length, ...stop.map((each) => text.indexOf(each)).filter((at) => at >= 0)));
}

/** The most tokens for a source of that length: `DecodingConfig.limit`. */
function lengthLimit({ max_length, max_ratio, max_extra }: Decoding, sourceTokens: number): number {
  if (!max_ratio) return max_length;
  return Math.max(1, Math.min(max_length, Math.trunc(sourceTokens * max_ratio) + max_extra));
}

/** The UTF-16 length of the characters at the beginning of two texts that are equal. */
function commonPrefix(a: string, b: string): number {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n > 0 && /[\ud800-\udbff]/.test(b[n - 1]) ? n - 1 : n; // not within a pair of surrogates
}

/** The output for a text from those of its parts; null for a blank one. */
function joined(parts: readonly Part[], n_best: number): Generated {
  const outputs = parts.flatMap(([part]) => part ?? []);
  if (!outputs.length) {
    const blank = { text: "", score: 0, rank: 0 };
    return { text: "", candidates: Array.from({ length: n_best }, () => blank), finished: true, seed: null, warnings: [EMPTY_TEXT] };
  }
  if (parts.length === 1) return outputs[0];
  const warnings = new Map<string, Warning>();
  outputs.forEach((output, i) => {
    for (const { code, message } of output.warnings) {
      const described = { code, message: `part ${i + 1}: ${message}` };
      if (!warnings.has(code)) warnings.set(code, described);
    }
  });
  const n = Math.min(...outputs.map(({ candidates }) => candidates.length));
  const candidates = Array.from({ length: n }, (_, rank) => ({
    text: parts.map(([part, end]) => (part?.candidates[rank].text ?? "") + end).join(""),
    score: sum(outputs, (each) => each.candidates[rank].score),
    rank: sum(outputs, (each) => each.candidates[rank].rank),
  }));
  return { text: candidates[0].text, candidates, finished: outputs.every((each) => each.finished), seed: null, warnings: [...warnings.values()] };
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}
