/** Who may see whom: of padding, of time, of both; and what a mask of zeros lets through. */

import type { HeadLocation, Sequence } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { cell, type Numbers, softmax, table } from "../calculation/arithmetic";

export interface Masks {
  readonly padding: Numbers; // 1 = may attend
  readonly causal: Numbers;
  readonly combined: Numbers; // as recorded
  /** Whether the combined mask is padding ∧ causal, for every real query. */
  readonly agrees: boolean;
  readonly scores: Numbers | null; // before the mask
  readonly masked: Numbers | null;
  readonly weights: Numbers;
  /** The weights when hidden scores are filled with 0 (note 001). */
  readonly zeros: Numbers | null;
  /** Of those, the share that hidden keys take: the mean over real queries that have some, and the largest. */
  readonly lost: { readonly mean: number; readonly most: number; readonly row: number } | null;
}

export async function masksOf(trace: Trace, place: HeadLocation): Promise<Masks> {
  const block = trace.block(place.block);
  const [queries, keys] = [trace.queries(place), trace.keys(place)];
  const scored = trace.has(`${place.block}.${place.layer}.scores`) || trace.has(`${place.block}.${place.layer}.q`);
  const [combined, weights, scores] = await Promise.all([
    trace.mask(place.block, place.sequence),
    trace.weights(place),
    scored ? trace.scores(place) : null,
  ]);
  const { rows, columns } = combined;
  const padding = paddingMask(rows, keys);
  const causal = block.causal ? causalMask(rows) : table(rows, columns, () => 1);
  const may = (r: number, c: number) => cell(combined, r, c) === 1;
  const agrees = queries.real.every(
    (real, r) => !real || keys.real.every((_, c) => may(r, c) === (cell(padding, r, c) * cell(causal, r, c) === 1)),
  );
  const masked = scores && table(rows, columns, (r, c) => (may(r, c) ? cell(scores, r, c) : -Infinity));
  const zeros = scores && softmax(table(rows, columns, (r, c) => (may(r, c) ? cell(scores, r, c) : 0)));
  return { padding, causal, combined, agrees, scores, masked, weights, zeros, lost: zeros && lostOf(zeros, combined, queries) };
}

/** Padding is hidden from everybody. */
export function paddingMask(rows: number, keys: Sequence): Numbers {
  return table(rows, keys.real.length, (_, c) => keys.real[c]);
}

/** Nobody sees what comes later. */
export function causalMask(size: number): Numbers {
  return table(size, size, (r, c) => (c <= r ? 1 : 0));
}

/** What hidden keys take of the weights. */
export function lostOf(weights: Numbers, mask: Numbers, queries: Sequence): Masks["lost"] {
  let [sum, count, most, at] = [0, 0, 0, 0];
  queries.real.forEach((real, r) => {
    if (!real) return;
    let share = 0;
    let some = false;
    for (let c = 0; c < mask.columns; c++)
      if (!cell(mask, r, c)) {
        share += cell(weights, r, c);
        some = true;
      }
    if (!some) return;
    sum += share;
    count++;
    if (share > most) [most, at] = [share, r];
  });
  return count ? { mean: sum / count, most, row: at } : null;
}

/** A row of a mask as torch prints it: what True means is the reader's to choose. */
export function printed(mask: Numbers, row: number, visible: boolean): string {
  const length = Math.min(mask.columns, 9);
  const said = Array.from({ length }, (_, c) => ((cell(mask, row, c) === 1) === visible ? "True" : "False"));
  return `tensor([${said.join(", ")}${mask.columns > length ? ", …" : ""}])`;
}
