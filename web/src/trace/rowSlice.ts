/** Some rows of the attention alone, each under a token of choice. */

import type { WeightSource } from "./display";
import type { Trace } from "./trace";

/** Rows `from` up to `to`, row t under token t + `shift`. */
export function sliceRows(trace: Trace, from: number, to: number, shift = 0): WeightSource {
  const cut = <N extends Float32Array | Uint8Array>({ columns, data }: { columns: number; data: N }) => ({
    rows: to - from,
    columns,
    data: data.slice(from * columns, to * columns) as N,
  });
  return {
    has: (name) => trace.has(name),
    weights: async (place) => cut(await trace.weights(place)),
    valueNorms: (place) => trace.valueNorms(place),
    mask: async (name, number) => cut(await trace.mask(name, number)),
    keys: (place) => trace.keys(place),
    queries: (place) => {
      const all = trace.queries(place);
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
      };
    },
  };
}
