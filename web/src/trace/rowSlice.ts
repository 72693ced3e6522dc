/** A slice of the attention rows, each labelled with a token of choice. */

import type { WeightSource } from "./display";
import type { Trace } from "./trace";

/** Rows `from` up to `to`; row t is labelled with token t + `shift`. */
export function sliceRows(trace: Trace, from: number, to: number, shift = 0): WeightSource {
  const cut = <N extends Float32Array | Uint8Array>({ columns, data }: { columns: number; data: N }) => ({
    rows: to - from,
    columns,
    data: data.slice(from * columns, to * columns) as N,
  });
  return {
    has: (name) => trace.has(name),
    weights: async (location) => cut(await trace.weights(location)),
    valueNorms: (location) => trace.valueNorms(location),
    mask: async (at) => cut(await trace.mask(at)),
    keys: (location) => trace.keys(location),
    queries: (location) => {
      const all = trace.queries(location);
      const part = <T>(list: readonly T[]) => list.slice(from + shift, to + shift);
      return {
        text: all.text,
        pieces: part(all.pieces),
        ids: part(all.ids),
        spans: part(all.spans),
        special: part(all.special),
        real: part(all.real),
        words: part(all.words),
        segments: all.segments && part(all.segments),
        truncated: all.truncated,
      };
    },
  };
}
