/** Scores of the head patterns of `jumok heads`, from 0 to 1; jumok/interpret/head_patterns.py defines them. */

import type { Block, Sequence } from "./format";
import { type Matrix, rowOf } from "./matrix";
import type { Trace } from "./trace";

export const PATTERNS = ["previous_token", "duplicate_token", "induction", "positional", "separator", "rare_word"] as const;
export type Pattern = (typeof PATTERNS)[number];

/** The score of one head on one sequence. */
export function patternScore(pattern: Pattern, weights: Matrix, block: Block, queries: Sequence, keys: Sequence): number {
  const plain = (tokens: Sequence) => tokens.real.map((real, i) => real === 1 && !tokens.special[i]);
  const [asked, found] = [plain(queries), plain(keys)];
  const same = block.queries === block.keys;
  const duplicates = (i: number) =>
    queries.ids.flatMap((id, j) => (j !== i && (!block.causal || j < i) && asked[j] && id === queries.ids[i] ? [j] : []));
  const rows = asked.flatMap((is, i) => (is ? [i] : []));
  const sum = (i: number, columns: readonly number[]) => columns.reduce((total, j) => total + rowOf(weights, i)[j], 0);
  const mean = (values: readonly number[]) => (values.length ? Math.min(values.reduce((a, b) => a + b, 0) / values.length, 1) : 0);
  const sums = (of: (i: number) => readonly number[]) =>
    mean(rows.flatMap((i) => (of(i).length ? [sum(i, of(i))] : [])));
  switch (pattern) {
    case "previous_token":
      return same ? mean(queries.real.flatMap((real, i) => (i && real && queries.real[i - 1] ? [sum(i, [i - 1])] : []))) : 0;
    case "duplicate_token":
      return same ? sums(duplicates) : 0;
    case "induction":
      return same ? sums((i) => duplicates(i).flatMap((j) => (queries.real[j + 1] ? [j + 1] : []))) : 0;
    case "positional": {
      const counts = new Map<number, number>();
      for (const i of rows) {
        const distance = largest(rowOf(weights, i)) - i;
        counts.set(distance, (counts.get(distance) ?? 0) + 1);
      }
      return Math.max(0, ...counts.values()) / Math.max(rows.length, 1);
    }
    case "separator":
      return sums(() => keys.special.flatMap((special, j) => (special || j === keys.real.indexOf(1) ? [j] : [])));
    case "rare_word": {
      const rarest = Math.max(...keys.ids.filter((_, j) => found[j]));
      if (!found.includes(true)) return 0;
      const first = keys.ids.findIndex((id, j) => found[j] && id === rarest);
      const able = rows.filter((i) => !block.causal || i >= first);
      return mean(able.map((i) => (keys.ids[largest(rowOf(weights, i), found)] === rarest ? 1 : 0)));
    }
  }
}

/** The scores of all heads of a block, (L, H). */
export async function patternScores(trace: Trace, block: Block, sequence: number, pattern: Pattern): Promise<Matrix> {
  const { layers, heads, name } = block;
  const data = new Float32Array(layers * heads);
  const place = { block: name, sequence };
  const [queries, keys] = [trace.queries(place), trace.keys(place)];
  for (let layer = 0; layer < layers; layer++)
    for (let head = 0; head < heads; head++) {
      const weights = await trace.weights({ ...place, layer, head });
      data[layer * heads + head] = patternScore(pattern, weights, block, queries, keys);
    }
  return { rows: layers, columns: heads, data };
}

/** The index of the largest number, the first of equals, among those `allowed`. */
function largest(row: Float32Array, allowed?: readonly boolean[]): number {
  let best = -1;
  for (let j = 0; j < row.length; j++) if ((!allowed || allowed[j]) && (best < 0 || row[j] > row[best])) best = j;
  return best;
}
