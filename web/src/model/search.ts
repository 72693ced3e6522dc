/** A search of the kernel (kernel/search.h): from the ids of one text to its hypotheses, a few steps at a time. */

import { Arena, check, type Exports } from "./heap";

/** The settings of a search, as `DecodingConfig` of jumok/decoding/config.py. */
export interface Decoding {
  readonly beam: number; // 1: greedy
  readonly n_best: number;
  readonly length_penalty: number;
  readonly length_norm: "power" | "gnmt";
  readonly early_stopping: boolean | "never";
  readonly min_length: number;
  readonly max_length: number; // generated tokens, the end token included
  readonly max_ratio: number; // of the source tokens; 0: no limit
  readonly max_extra: number;
  readonly sample: boolean;
  readonly seed: number | null; // null: another one for each text
  readonly temperature: number;
  readonly top_k: number; // 0: all tokens
  readonly top_p: number;
  readonly min_p: number;
  readonly typical_p: number;
  readonly repetition_penalty: number;
  readonly no_repeat_ngram: number; // 0: any
  readonly stop: readonly string[]; // texts that end a single hypothesis
}

/** Generated tokens without the end token, their log-probabilities with it, and whether it ended them. */
export interface Hypothesis {
  readonly ids: readonly number[];
  readonly logProbabilities: readonly number[];
  readonly rank: number;
  readonly finished: boolean;
}

const CALL_BYTES = 104; // of SearchCall where addresses have 32 bits
const LENGTH_PENALTY_OFFSET = 56;
const KEYS_OFFSET = 64;
const CHANGES_OFFSET = 72;
const MAX_DRAWN_SEED = 2 ** 31;
const MAX_INT32 = 2 ** 31 - 1;

/** The settings with a seed: a random one where they sample without it. */
export function seeded<D extends Decoding>(decoding: D): D {
  return decoding.sample && decoding.seed === null ? { ...decoding, seed: Math.floor(Math.random() * MAX_DRAWN_SEED) } : decoding;
}

/** The keys of the random numbers of a text: the seed, and FNV-1a of its ids (jumok/decoding/random_numbers.py). */
function randomKeys(seed: number, ids: readonly number[]): BigUint64Array {
  let key = 0xcbf29ce484222325n;
  for (const id of ids) key = BigInt.asUintN(64, (key ^ BigInt(id)) * 0x100000001b3n);
  return BigUint64Array.of(BigInt.asUintN(64, BigInt(seed)), key);
}

/** Writes ScoreChanges of kernel/sampling.h. */
function writeChanges(to: DataView, offset: number, decoding: Decoding): void {
  const { repetition_penalty, temperature, top_p, min_p, typical_p, no_repeat_ngram, top_k } = decoding;
  [repetition_penalty, temperature, top_p, min_p, typical_p].forEach((value, i) => to.setFloat32(offset + 4 * i, value, true));
  [no_repeat_ngram, top_k].forEach((value, i) => to.setInt32(offset + 20 + 4 * i, Math.min(value, MAX_INT32), true));
}

/** Logits after these tokens, changed as a greedy search or a sample changes them. */
export function changedScores(kernel: Exports, decoding: Decoding, tokens: readonly number[], logits: Float32Array): Float32Array {
  return Arena.use(kernel, (arena) => {
    const changes = new DataView(new ArrayBuffer(CALL_BYTES - CHANGES_OFFSET));
    writeChanges(changes, 0, decoding);
    const scores = arena.float32(logits);
    check(kernel.jumok_change_scores(arena.bytes(new Uint8Array(changes.buffer)), arena.int64(tokens), tokens.length, scores, logits.length));
    return arena.readFloats(scores, logits.length);
  });
}

export class Search {
  private constructor(
    private readonly kernel: Exports,
    private readonly request: number,
    private readonly end: number,
  ) {}

  /** Starts a search: `source` are the ids of an encoder-decoder, null for a language model; `window`: see kernel/search.h. */
  static start(kernel: Exports, model: number, source: readonly number[] | null, prompt: readonly number[], end: number, limit: number, window: number, decoding: Decoding): Search {
    const request = kernel.jumok_create_request(model);
    try {
      return Arena.use(kernel, (arena) => {
        if (source) check(kernel.jumok_encode_sources(request, arena.int32(source), arena.int32([0, source.length]), 1, 1));
        else check(kernel.jumok_reset(request, 0, 1));
        const early = decoding.early_stopping === "never" ? 2 : Number(decoding.early_stopping);
        const fields = [
          ...[1, prompt.length, arena.int64(prompt), 0, arena.int32([limit]), 1, arena.int64([end])],
          ...[decoding.beam, decoding.n_best, early, Number(decoding.length_norm === "gnmt"), decoding.min_length, window],
        ];
        const call = new DataView(new ArrayBuffer(CALL_BYTES));
        fields.forEach((value, i) => call.setInt32(4 * i, value, true));
        call.setFloat64(LENGTH_PENALTY_OFFSET, decoding.length_penalty, true);
        if (decoding.sample) call.setInt32(KEYS_OFFSET, arena.bytes(new Uint8Array(randomKeys(decoding.seed ?? 0, source ?? prompt).buffer)), true);
        writeChanges(call, CHANGES_OFFSET, decoding);
        check(kernel.jumok_start_search(request, arena.bytes(new Uint8Array(call.buffer))));
        return new Search(kernel, request, end);
      });
    } catch (error) {
      kernel.jumok_free_request(request);
      throw error;
    }
  }

  /** Computes up to so many tokens; returns whether the search is over. */
  run(steps: number): boolean {
    check(this.kernel.jumok_search(this.request, steps, 1));
    return this.kernel.jumok_unfinished(this.request) === 0;
  }

  /** The hypotheses, the best first; of a greedy search the tokens so far. With -1 those of the newest step, which ended or go on; the rank of a beam is its score. */
  hypotheses(text = 0): Hypothesis[] {
    const n = this.kernel.jumok_n_found(this.request, text);
    return Array.from({ length: n }, (_, number) => this.hypothesis(text, number));
  }

  private hypothesis(text: number, number: number): Hypothesis {
    const { kernel, request } = this;
    return Arena.use(kernel, (arena) => {
      const n = kernel.jumok_found_length(request, text, number);
      const [tokens, scores, rank] = [arena.allocate(8 * n), arena.floats(n), arena.allocate(8)];
      const finished = kernel.jumok_read_found(request, text, number, tokens, scores, rank) !== 0;
      const ids = arena.readInt64(tokens, n);
      if (ids.at(-1) === this.end) ids.pop();
      return { ids, logProbabilities: [...arena.readFloats(scores, n)], rank: arena.readDouble(rank), finished };
    });
  }

  free(): void {
    this.kernel.jumok_free_request(this.request);
  }
}
