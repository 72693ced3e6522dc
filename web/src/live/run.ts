/** A model in the page: a text and settings in, a whole trace out, as `jumok.trace` makes it. */

import type { Numbers } from "../views/calculation/arithmetic";
import { Arena, check } from "../model/heap";
import { Model, type Parts } from "../model/model";
import { changedScores, type Decoding as DecodingSettings, type Hypothesis } from "../model/search";
import type { Run } from "../state/session";
import type { BlockName, Candidate, Classification, Decoding, Effects, Sequence, TraceInfo } from "../trace/format";
import { MemoryByteSource } from "../trace/safetensors";
import { Trace } from "../trace/trace";
import { allLogits, decoderAttention, encoderAttention } from "./attention";
import { ForwardPass, type Muted } from "./forward";
import { checkRun } from "./checkRun";
import { toBytes } from "./record";
import { continuationSequence, eojeols, generatedSequence, textSequence } from "./sequences";
import { spearman } from "./spearman";
import { type Dims, readDims, Weights } from "./weights";

const TOP_K = 10; // candidates after each token
const NEWEST = -1; // the hypotheses of the newest step of a search
const LENS_TOP_K = 3;
const MAX_LENS_CELLS = 2048;
const MAX_WORDS = 64; // left out, one at a time
const MIN_WORDS = 3; // for a correlation
const MAX_PARAMETER_BYTES = 8e6; // of a trace, as jumok/interpret/trace_writer.py
const SLID = "The generation is longer than the window of the model; its steps are not recorded in a saved page.";
const TOLERANCE = 1e-4; // of an attention weight of the kernel, which adds in float32

export class LiveRunner {
  private readonly dims: Dims;
  private readonly weights: Weights;
  private readonly model: Model;

  /** `first` is the header of the trace that the page was saved with: the model is the same. */
  constructor(
    private readonly parts: Parts,
    file: ArrayBuffer,
    private readonly first: TraceInfo,
  ) {
    this.dims = readDims(parts.settings);
    this.weights = new Weights(file, parts.tensors);
    this.model = new Model(parts);
    const { difference, passed, text } = this.model.check();
    if (!passed) throw new Error(`the outputs of this browser differ from those of the export by ${difference} for ${text}`);
  }

  async run(run: Run): Promise<Trace> {
    checkRun(run, this.first, this.parts.settings.generation?.decoding ?? null);
    const { text, target, decode, mute } = run;
    const restore = this.mute(mute);
    try {
      return await (this.parts.generator ? this.decoded(text, target, decode, new Set(mute)) : this.encoded(text, new Set(mute)));
    } finally {
      restore();
    }
  }

  /** The answer of a trace with each head muted in turn: `sweep_heads` of jumok/interpret/interventions.py. */
  muteEach(info: TraceInfo): Effects {
    const muted = info.muted.map((each) => each.join("."));
    const without = <Result>(heads: readonly string[], task: () => Result): Result => {
      const restore = this.mute(heads);
      try {
        return task();
      } finally {
        restore();
      }
    };
    const { measure, answer, of } = without(muted, () => this.answer(info));
    const value = (head: string) => without([...new Set([...muted, head])], of);
    const values = info.blocks.map(({ name, layers, heads }) => [
      name,
      Array.from({ length: layers }, (_, layer) => Array.from({ length: heads }, (_, head) => value(`${name}.${layer}.${head}`))),
    ]);
    return { intervention: "mute", measure, answer, value: without(muted, of), other_value: null, values: Object.fromEntries(values) };
  }

  /** What is measured of the answer of a trace. */
  private answer({ sides, decoding }: TraceInfo): Pick<Effects, "measure" | "answer"> & { readonly of: () => number } {
    const { settings, kernel, target } = this.parts;
    const [source, row] = [sides.source?.[0].ids ?? null, sides.target?.[0].ids];
    if (row) {
      const V = this.dims.vocabulary;
      const logits = () => allLogits(kernel.kernel, kernel.model, source, row, V);
      const last = logits().subarray((row.length - 1) * V);
      const best = last.indexOf(last.reduce((a, b) => Math.max(a, b), -Infinity));
      const chosen = decoding
        ? decoding.steps.flatMap((step, t) => (step.chosen ? [[decoding.prompt - 1 + t, step.chosen.id] as const] : []))
        : [[row.length - 1, best] as const];
      const total = (found: Float32Array) => chosen.reduce((sum, [at, id]) => sum + logSoftmax(found.subarray(at * V, (at + 1) * V), id), 0);
      return { measure: "log_probability", answer: decoding?.output ?? target.config.pieces[best], of: () => total(logits()) };
    }
    const outputs = () => [...kernel.run(source!)];
    const first = outputs();
    if (settings.task === "regression") return { measure: "score", answer: first[0].toFixed(4), of: () => outputs()[0] };
    if (!settings.labels.length) throw new Error("a model of vectors has no answer to measure");
    const label = first.indexOf(Math.max(...first));
    const probability = (found: number[]) => (settings.task === "classification" ? softmax(found)[label] : 1 / (1 + Math.exp(-found[label])));
    return { measure: "probability", answer: settings.labels[label], of: () => probability(outputs()) };
  }

  /** Removes heads from the output maps of the kernel: their weights times W_O are 0. Returns what undoes it. */
  private mute(heads: readonly string[]): () => void {
    const { d_head } = this.dims;
    const changed = new Map<string, Float32Array>();
    for (const each of heads) {
      const [block, layer, head] = each.split(".");
      const name = block === "cross" ? `decoder.${layer}.cross_output` : `${block}.${layer}.output`;
      const { inputs, outputs, weight } = this.weights.linear(name);
      const left = changed.get(name) ?? weight.slice();
      for (let o = 0; o < outputs; o++) left.fill(0, o * inputs + Number(head) * d_head, o * inputs + (Number(head) + 1) * d_head);
      changed.set(name, left);
    }
    for (const [name, weight] of changed) this.setWeight(name, weight);
    return () => {
      for (const name of changed.keys()) this.setWeight(name, this.weights.vector(name));
    };
  }

  /** Packs a linear map again with other weights of the same shape, such as without a head. */
  private setWeight(name: string, weight: Float32Array): void {
    const { tensors, settings, kernel: { kernel, model } } = this.parts;
    if (settings.precision) throw new Error("weights can be changed in float32 only");
    Arena.use(kernel, (arena) => {
      const values = arena.bytes(new Uint8Array(weight.buffer, weight.byteOffset, weight.byteLength));
      check(kernel.jumok_set_rows(model, arena.name(name), 0, tensors.get(name)!.shape[0], values, 0, 0)); // the bias stays
    });
  }

  private forward(attention: ConstructorParameters<typeof ForwardPass>[2], muted: Muted): ForwardPass {
    return new ForwardPass(this.dims, this.weights, attention, muted, 4 * this.first.model.parameters <= MAX_PARAMETER_BYTES);
  }

  /** The trace of a classifier or of another encoder. */
  private encoded(text: string, muted: Muted): Promise<Trace> {
    const { settings, tokenizer, kernel } = this.parts;
    const { before, after, max_length } = settings.tokenizer;
    const source = textSequence(text, tokenizer, before, after, max_length);
    const attention = encoderAttention(kernel.kernel, kernel.model, source.ids, this.dims);
    const pass = this.forward(attention, muted);
    pass.run("encoder", source.ids);
    const own = { ...source, segments: this.first.sides.source?.[0].segments ? source.ids.map(() => 0) : null };
    const outputs = kernel.run(source.ids);
    return this.trace(pass, muted, { source: [own] }, {
      classification: settings.task === "classification" ? this.explained(own, softmax([...outputs]), attention.encoder) : null,
      regression: settings.task === "regression" ? [outputs[0]] : null,
    });
  }

  /** The trace of a model that generates: its target is given, generated, or empty. */
  private decoded(text: string, target: string | null, decode: Run["decode"], muted: Muted): Promise<Trace> {
    const { settings, tokenizer, target: targets, kernel, generator } = this.parts;
    const { kind, start, end, window, decoding } = settings.generation!;
    const isDecoder = kind === "decoder";
    const { before, after, max_length } = settings.tokenizer;
    const source = isDecoder ? null : textSequence(text, tokenizer, before, after, max_length);
    const chosen = { ...decoding, ...(decode as Partial<DecodingSettings> | null) };
    const generates = target === null && decode !== null;
    const steps: Hypothesis[][] = [];
    const best = generates ? this.generate(text, chosen, steps) : { ids: targets.encode(target ?? ""), finished: true };
    const more = best.ids;
    const prompt = isDecoder ? generator!.prompt(text) : [start];
    const row = isDecoder
      ? continuationSequence(text, tokenizer, prompt.slice(0, prompt.length - tokenizer.encode(text).length), more, window)
      : target === null
        ? generatedSequence(more, targets, start, window)
        : withoutLast(textSequence(target, targets, [start], [end], window + 1), window);
    const { attention, logits } = decoderAttention(kernel.kernel, kernel.model, source?.ids ?? null, row.ids, this.dims);
    const pass = this.forward(attention, muted);
    const memory = source && pass.run("encoder", source.ids);
    pass.run("decoder", row.ids, memory);
    const slid = isDecoder && prompt.length + more.length > row.ids.length; // the window: the first steps read other tokens
    const decodes = !slid && (generates || Boolean(target));
    return this.trace(pass, muted, source ? { source: [source], target: [row] } : { target: [row] }, {
      next: this.candidates(logits, row.ids.length, TOP_K),
      lens: this.lens(pass, row.ids.length),
      decoding: decodes ? this.decoding(text, target, chosen, best.finished ? [...more, end] : more, source?.ids ?? null, prompt, steps, logits, row) : null,
      notes: slid ? [SLID] : [],
    });
  }

  /** The best hypothesis; `steps` gets those of each step. */
  private generate(text: string, decoding: DecodingSettings, steps: Hypothesis[][]): Pick<Hypothesis, "ids" | "finished"> {
    const generator = this.parts.generator!;
    const search = generator.start(text, decoding);
    try {
      for (let over = false; !over; steps.push(search.hypotheses(NEWEST))) over = generator.step(search, text, decoding);
      const best = search.hypotheses()[0] ?? { ids: [], finished: false };
      return { ids: best.ids, finished: best.finished };
    } finally {
      search.free();
    }
  }

  /** The steps of a text: the candidates and the tree of hypotheses, as jumok/interpret/step_recorder.py; of a given target its own tokens. */
  private decoding(text: string, target: string | null, chosen: DecodingSettings, tokens: readonly number[], source: readonly number[] | null, prompt: readonly number[], found: readonly Hypothesis[][], logits: Float32Array, row: Sequence): Decoding {
    const { kernel, model } = this.parts.kernel;
    const { kind, end } = this.parts.settings.generation!;
    const V = this.dims.vocabulary;
    const name = (id: number) => this.parts.target.config.pieces[id];
    const whole = ({ ids, finished }: Hypothesis) => (finished ? [...ids, end] : ids);
    let score = 0;
    const given = (t: number): readonly Hypothesis[] => {
      const at = prompt.length + t - 1;
      score += logSoftmax(logits.subarray(at * V, (at + 1) * V), tokens[t]);
      return [{ ids: tokens.slice(0, t + 1), logProbabilities: [score], rank: score, finished: false }];
    };
    const limit = target !== null ? tokens.length : this.parts.generator!.limit(source?.length ?? 0, chosen);
    const known = new Map([["", 0]]); // hypotheses by their tokens
    let first: readonly number[] = []; // a hypothesis that the step extends
    const n = target !== null ? Math.min(tokens.length, row.ids.length - prompt.length + 1) : found.length;
    const steps = Array.from({ length: n }, (_, t) => {
      const newest = target !== null ? given(t) : found[t];
      const token = tokens[t];
      const before = t < tokens.length ? tokens.slice(0, t) : first;
      const at = prompt.length + t - 1;
      const own = t < tokens.length ? logits.subarray(at * V, (at + 1) * V) : allLogits(kernel, model, source, [...prompt, ...before], V).subarray(-V);
      const scores = target !== null ? own : this.changed(own, [...prompt, ...before], t, chosen);
      const ids = known.size;
      const beams = newest.map((each, i) => {
        const path = whole(each);
        const sum = chosen.beam > 1 && target === null ? each.rank : each.logProbabilities.reduce((a, b) => a + b, 0);
        const best = t < tokens.length && String(path) === String(tokens.slice(0, t + 1));
        return { id: ids + i, parent: known.get(String(path.slice(0, -1))) ?? 0, token: path[t], piece: name(path[t]), score: sum, ended: each.finished || t + 1 >= limit, best };
      });
      newest.forEach((each, i) => known.set(String(whole(each)), ids + i));
      first = newest.find(({ finished }) => !finished)?.ids ?? [];
      return {
        ...{ cache: t ? at : 0, ...this.bothCandidates(own, scores), beams },
        chosen: t < tokens.length ? { id: token, piece: name(token), log_probability: logSoftmax(own, token) } : null,
      };
    });
    return {
      method: target !== null ? "given" : chosen.sample ? "sampling" : chosen.beam > 1 ? "beam" : "greedy",
      settings: target !== null ? {} : { ...this.first.decoding?.settings, ...chosen, ...(chosen.sample ? { seed: chosen.seed ?? 0 } : {}) },
      text,
      prompt: prompt.length,
      steps,
      output: target ?? (kind === "decoder" ? row.text.slice(text.length) : row.text),
    };
  }

  /** Logits as the search changes them in step t, after these tokens. */
  private changed(logits: Float32Array, tokens: readonly number[], t: number, chosen: DecodingSettings): Float32Array {
    const { end } = this.parts.settings.generation!;
    const shift = chosen.beam > 1 ? logits[0] - logSoftmax(logits, 0) : 0; // beams add up log-probabilities
    const scores = logits.map((x, id) => (id === end && t < chosen.min_length ? -Infinity : x - shift));
    return changedScores(this.parts.kernel.kernel, chosen, tokens, scores);
  }

  /** The candidates of a step before and after the changes; the second has those of both. */
  private bothCandidates(logits: Float32Array, scores: Float32Array): { before: Candidate[]; after: Candidate[] } {
    const before = this.candidates(logits, 1, TOP_K)[0];
    if (scores === logits) return { before, after: before };
    const allowed = this.candidates(scores, 1, TOP_K)[0].filter(({ probability }) => probability > 0);
    const others = before.filter(({ id }) => !allowed.some((each) => each.id === id));
    const probabilities = softmax([...scores]);
    return { before, after: [...allowed, ...others.map((each) => ({ ...each, probability: probabilities[each.id] }))] };
  }

  /** The most probable tokens of each row of logits (rows, V). */
  private candidates(logits: ArrayLike<number>, rows: number, k: number): Candidate[][] {
    const V = this.dims.vocabulary;
    return Array.from({ length: rows }, (_, row) => {
      const probabilities = softmax(Array.from({ length: V }, (_, i) => logits[row * V + i]));
      const best = probabilities.map((_, i) => i).sort((i, j) => probabilities[j] - probabilities[i] || i - j);
      return best.slice(0, k).map((id) => ({ id, piece: this.parts.target.config.pieces[id] ?? "", probability: probabilities[id] }));
    });
  }

  /** What the model would predict after each layer (nostalgebraist 2020). */
  private lens(pass: ForwardPass, T: number): Candidate[][][] | null {
    const layers = this.dims.decoder_layers;
    if (T * (layers + 1) > MAX_LENS_CELLS) return null;
    return Array.from({ length: layers + 1 }, (_, layer) => {
      const { data } = pass.recorded.get(`target.hidden.${layer}`)!;
      const stream: Numbers = { rows: T, columns: this.dims.d_model, data };
      const found = this.candidates(pass.logits(stream, layer === layers).data, T, LENS_TOP_K);
      return found.map((row) => row.map((each) => ({ ...each, probability: Number(each.probability.toFixed(6)) })));
    });
  }

  /** The probabilities, and those without each word. */
  private explained(source: Sequence, probabilities: readonly number[], attention: Float32Array): Classification {
    const characters = [...source.text];
    const words = eojeols(characters).map((span, index) => ({ span, index }));
    const read = source.truncated ? words.filter(({ index }) => source.words.includes(index)) : words;
    const changed = read.slice(0, MAX_WORDS).map(({ span, index }) => ({
      index,
      text: characters.slice(...span).join(""),
      span,
      without: source.truncated
        ? softmax([...this.parts.kernel.run(source.ids.filter((_, i) => source.words[i] !== index))])
        : this.probabilities(withoutSpan(characters, span)),
    }));
    const best = probabilities.indexOf(Math.max(...probabilities));
    const received = this.received(source.ids.length, attention);
    const sums = changed.map(({ index }) => source.words.reduce((sum, word, i) => sum + (word === index ? received[i] : 0), 0));
    const agreement = changed.length < MIN_WORDS ? null : spearman(changed.map(({ without }) => Math.abs(without[best] - probabilities[best])), sums);
    return { labels: this.parts.settings.labels, sequences: [{ probabilities, words: changed.map(({ index: _, ...word }) => word), agreement }] };
  }

  private probabilities(text: string): readonly number[] {
    const answer = this.model.predict(text);
    if (answer.task !== "classification") throw new Error("only a classifier has probabilities");
    return answer.probabilities;
  }

  /** The attention that each token receives in the last layer: the mean over the heads and the pooled queries. */
  private received(T: number, attention: Float32Array): number[] {
    const { n_heads: H, encoder_layers } = this.dims;
    const queries = this.parts.settings.head?.pooling === "first" ? 1 : T;
    return Array.from({ length: T }, (_, s) => {
      let sum = 0;
      for (let h = 0; h < H; h++) for (let t = 0; t < queries; t++) sum += attention[(((encoder_layers - 1) * H + h) * T + t) * T + s];
      return sum / (H * queries);
    });
  }

  private trace(pass: ForwardPass, muted: Muted, sides: TraceInfo["sides"], parts: Partial<TraceInfo>): Promise<Trace> {
    if (!(pass.difference <= TOLERANCE)) throw new Error(`the attention weights of the kernel and of the page differ by ${pass.difference}`);
    const heads = [...muted].map((each) => {
      const [block, layer, head] = each.split(".");
      return [block as BlockName, Number(layer), Number(head)] as const;
    });
    const order = (block: BlockName) => this.first.blocks.findIndex(({ name }) => name === block);
    const notes = Object.entries(sides).flatMap(([side, [{ truncated }]]) =>
      truncated ? [`Sequence 0 of the ${side} is longer than the model's max_length: ${truncated} pieces of it were truncated.`] : [],
    );
    const info: TraceInfo = {
      ...this.first,
      sides,
      muted: heads.sort((a, b) => order(a[0]) - order(b[0]) || a[1] - b[1] || a[2] - b[2]),
      ...{ classification: null, regression: null, next: null, lens: null, decoding: null, more_decodings: [], circuit: null },
      ...parts,
      notes: [...notes, ...(parts.notes ?? [])],
    };
    return Trace.open(new MemoryByteSource(toBytes(pass.recorded, { format: "jumok.trace/3", trace: JSON.stringify(info) })));
  }
}

/** A given target as the decoder reads it: without its last token. */
function withoutLast(row: Sequence, most: number): Sequence {
  const cut = <T>(values: readonly T[]) => values.slice(0, -1).slice(0, most);
  return { ...row, pieces: cut(row.pieces), ids: cut(row.ids), spans: cut(row.spans), special: cut(row.special), real: cut(row.real), words: cut(row.words) };
}

/** A text without a word and the spaces after it, or before it at the end. */
function withoutSpan(characters: readonly string[], [begin, end]: readonly [number, number]): string {
  const isSpace = (each: string | undefined) => each !== undefined && !each.trim() && each !== "\t";
  while (isSpace(characters[end])) end++;
  if (end === characters.length || characters[end] === "\t") while (begin && isSpace(characters[begin - 1])) begin--;
  return [...characters.slice(0, begin), ...characters.slice(end)].join("");
}

function softmax(logits: readonly number[]): number[] {
  const maximum = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = logits.map((x) => Math.exp(x - maximum));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}

function logSoftmax(logits: Float32Array, at: number): number {
  const maximum = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  return logits[at] - maximum - Math.log(logits.reduce((sum, x) => sum + Math.exp(x - maximum), 0));
}
