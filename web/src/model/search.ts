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
}

/** Generated tokens without the end token, their log-probabilities with it, and whether it ended them. */
export interface Hypothesis {
  readonly ids: readonly number[];
  readonly logProbabilities: readonly number[];
  readonly rank: number;
  readonly finished: boolean;
}

const CALL_BYTES = 64; // of SearchCall where addresses have 32 bits
const LENGTH_PENALTY_OFFSET = 56;
const ALL_STEPS = 2 ** 31 - 1;

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
        check(kernel.jumok_start_search(request, arena.bytes(new Uint8Array(call.buffer))));
        return new Search(kernel, request, end);
      });
    } catch (error) {
      kernel.jumok_free_request(request);
      throw error;
    }
  }

  /** Computes up to so many tokens; returns whether the search is over. */
  run(steps = ALL_STEPS): boolean {
    check(this.kernel.jumok_search(this.request, steps, 1));
    return this.kernel.jumok_unfinished(this.request) === 0;
  }

  /** The hypotheses, the best first; of a greedy search the tokens so far. */
  hypotheses(): Hypothesis[] {
    const n = this.kernel.jumok_n_found(this.request, 0);
    return Array.from({ length: n }, (_, number) => this.hypothesis(number));
  }

  private hypothesis(number: number): Hypothesis {
    const { kernel, request } = this;
    return Arena.use(kernel, (arena) => {
      const n = kernel.jumok_found_length(request, 0, number);
      const [tokens, scores, rank] = [arena.allocate(8 * n), arena.floats(n), arena.allocate(8)];
      const finished = kernel.jumok_read_found(request, 0, number, tokens, scores, rank) !== 0;
      const ids = arena.readInt64(tokens, n);
      if (ids.at(-1) === this.end) ids.pop();
      return { ids, logProbabilities: [...arena.readFloats(scores, n)], rank: arena.readDouble(rank), finished };
    });
  }

  free(): void {
    this.kernel.jumok_free_request(this.request);
  }
}
