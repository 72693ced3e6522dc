/** The attention weights and the logits of one pass of the kernel. */

import { Arena, check, type Exports } from "../model/heap";
import type { KernelAttention } from "./forward";
import type { Dims } from "./weights";

/** The weights (L, H, T, T) of an encoder without a decoder. */
export function encoderAttention(kernel: Exports, model: number, ids: readonly number[], dims: Dims): KernelAttention {
  return Arena.use(kernel, (arena) => {
    const size = dims.encoder_layers * dims.n_heads * ids.length ** 2;
    const [weights, hidden] = [arena.floats(size), arena.floats(ids.length * dims.d_model)];
    check(kernel.jumok_attend_ids(model, arena.int32(ids), 0, ids.length, weights, hidden, 1));
    return { encoder: arena.readFloats(weights, size) };
  });
}

/** The logits (T, V) after each of these tokens. */
export function allLogits(kernel: Exports, model: number, source: readonly number[] | null, tokens: readonly number[], V: number): Float32Array {
  return Arena.use(kernel, (arena) => {
    const request = kernel.jumok_create_request(model);
    try {
      if (source) check(kernel.jumok_encode_sources(request, arena.int32(source), arena.int32([0, source.length]), 1, 1));
      else check(kernel.jumok_reset(request, 0, 1));
      const logits = arena.floats(tokens.length * V);
      check(kernel.jumok_step(request, arena.int64(tokens), tokens.length, 1, logits, 1));
      return arena.readFloats(logits, tokens.length * V);
    } finally {
      kernel.jumok_free_request(request);
    }
  });
}

/** The weights of every block, and the logits (T, V) after each target token; without a source a language model reads the target. */
export function decoderAttention(kernel: Exports, model: number, source: readonly number[] | null, target: readonly number[], dims: Dims): { attention: KernelAttention; logits: Float32Array } {
  const [T, V] = [target.length, dims.vocabulary];
  const pass = <Result>(task: (request: number, arena: Arena, encoder: () => Float32Array) => Result): Result =>
    Arena.use(kernel, (arena) => {
      const request = kernel.jumok_create_request(model);
      try {
        if (!source) {
          check(kernel.jumok_reset(request, 0, 1));
          return task(request, arena, () => new Float32Array());
        }
        const size = dims.encoder_layers * dims.n_heads * source.length ** 2;
        const weights = arena.floats(size);
        kernel.jumok_record_encoder(request, weights);
        check(kernel.jumok_encode_sources(request, arena.int32(source), arena.int32([0, source.length]), 1, 1));
        return task(request, arena, () => arena.readFloats(weights, size));
      } finally {
        kernel.jumok_free_request(request);
      }
    });

  /** The weights (L, H, T, keys) of one block, token by token. */
  const recorded = (cross: boolean) =>
    pass((request, arena) => {
      const heads = Array.from({ length: dims.decoder_layers * dims.n_heads }, (_, i) => i);
      const S = cross ? source!.length : T;
      const found = new Float32Array(heads.length * T * S);
      check(kernel.jumok_record_attention(request, Number(cross), arena.int32(heads), heads.length));
      const [logits, weights] = [arena.floats(V), arena.floats(heads.length * S)];
      target.forEach((token, t) => {
        check(kernel.jumok_step(request, arena.int64([token]), 1, 0, logits, 1));
        const width = kernel.jumok_attention_width(request);
        kernel.jumok_read_attention(request, weights);
        const row = arena.readFloats(weights, heads.length * width);
        for (const head of heads) found.set(row.subarray(head * width, (head + 1) * width), (head * T + t) * S);
      });
      return found;
    });

  const whole = pass((request, arena, encoder) => {
    const logits = arena.floats(T * V);
    check(kernel.jumok_step(request, arena.int64(target), T, 1, logits, 1));
    return { logits: arena.readFloats(logits, T * V), encoder: encoder() };
  });
  const attention = source ? { encoder: whole.encoder, decoder: recorded(false), cross: recorded(true) } : { decoder: recorded(false) };
  return { attention, logits: whole.logits };
}
