/** Padding mask, causal or window mask and their combination; and the weight that leaks when masked scores are 0. */

import type { HeadLocation, Sequence } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { type Numbers, softmax, table, valueAt } from "../calculation/arithmetic";

export interface MaskData {
  readonly window: number | null; // of the layer, in tokens
  readonly isCausal: boolean; // false: later tokens are visible
  readonly padding: Numbers; // 1 = may attend
  readonly causal: Numbers; // and within the window
  readonly combined: Numbers; // as recorded
  /** Whether the combined mask is padding ∧ causal, for every query that is not padding. */
  readonly agrees: boolean;
  readonly scores: Numbers | null; // before the mask
  readonly masked: Numbers | null;
  readonly weights: Numbers;
  /** The weights when masked scores are set to 0 instead of −∞. */
  readonly zeros: Numbers | null;
  /** The fraction of those weights on masked keys: the mean over queries that have masked keys, and the maximum. */
  readonly leaked: { readonly mean: number; readonly max: number; readonly row: number } | null;
}

export async function loadMasks(trace: Trace, location: HeadLocation): Promise<MaskData> {
  const block = trace.block(location.block);
  const [queries, keys] = [trace.queries(location), trace.keys(location)];
  const scored = trace.has(`${location.block}.${location.layer}.scores`) || trace.has(`${location.block}.${location.layer}.q`);
  const [combined, weights, scores] = await Promise.all([
    trace.mask(location),
    trace.weights(location),
    scored ? trace.scores(location) : null,
  ]);
  const { rows, columns } = combined;
  const padding = paddingMask(rows, keys);
  const window = trace.windowOf(location);
  const causal = table(rows, columns, (r, c) => ((block.causal && c > r) || (window !== null && Math.abs(r - c) >= window) ? 0 : 1));
  const mayAttend = (r: number, c: number) => valueAt(combined, r, c) === 1;
  const agrees = queries.real.every(
    (real, r) => !real || keys.real.every((_, c) => mayAttend(r, c) === (valueAt(padding, r, c) * valueAt(causal, r, c) === 1)),
  );
  const masked = scores && table(rows, columns, (r, c) => (mayAttend(r, c) ? valueAt(scores, r, c) : -Infinity));
  const zeros = scores && softmax(table(rows, columns, (r, c) => (mayAttend(r, c) ? valueAt(scores, r, c) : 0)));
  return { window, isCausal: block.causal, padding, causal, combined, agrees, scores, masked, weights, zeros, leaked: zeros && leakedWeight(zeros, combined, queries) };
}

/** Padding keys are masked for every query. */
export function paddingMask(rows: number, keys: Sequence): Numbers {
  return table(rows, keys.real.length, (_, c) => keys.real[c]);
}

/** Later keys are masked. */
export function causalMask(size: number): Numbers {
  return table(size, size, (r, c) => (c <= r ? 1 : 0));
}

/** The weight on masked keys. */
export function leakedWeight(weights: Numbers, mask: Numbers, queries: Sequence): MaskData["leaked"] {
  let [sum, count, max, at] = [0, 0, 0, 0];
  queries.real.forEach((real, r) => {
    if (!real) return;
    let fraction = 0;
    let hasHidden = false;
    for (let c = 0; c < mask.columns; c++)
      if (!valueAt(mask, r, c)) {
        fraction += valueAt(weights, r, c);
        hasHidden = true;
      }
    if (!hasHidden) return;
    sum += fraction;
    count++;
    if (fraction > max) [max, at] = [fraction, r];
  });
  return count ? { mean: sum / count, max, row: at } : null;
}

/** A row of a mask as torch prints it, with either meaning of True. */
export function printMaskRow(mask: Numbers, row: number, visible: boolean): string {
  const length = Math.min(mask.columns, 9);
  const values = Array.from({ length }, (_, c) => ((valueAt(mask, row, c) === 1) === visible ? "True" : "False"));
  return `tensor([${values.join(", ")}${mask.columns > length ? ", …" : ""}])`;
}
