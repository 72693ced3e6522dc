/** The rows and columns of the head in focus, by name, in the unit of the page. */

import { computed } from "@preact/signals";
import { type Label, labels } from "../trace/display";
import { currentTrace } from "./session";
import { block, sequence, unit } from "./state";

export interface Axes {
  readonly queries: readonly Label[];
  readonly keys: readonly Label[];
}

/** Null until a trace is open. */
export const axes = computed<Axes | null>(() => {
  const trace = currentTrace.value;
  if (!trace?.info.blocks.some(({ name }) => name === block.value)) return null;
  const place = { block: block.value, sequence: sequence.value };
  const { queries, keys } = trace.block(place.block);
  if (!trace.info.sides[queries]?.[place.sequence] || !trace.info.sides[keys]?.[place.sequence]) return null;
  const asking = labels(trace.queries(place), unit.value);
  return { queries: asking, keys: queries === keys ? asking : labels(trace.keys(place), unit.value) };
});

/** Which label a piece is under; -1: none. */
export function labelIndex(labels: readonly Label[], piece: number | null): number {
  return piece === null ? -1 : labels.findIndex(({ pieces }) => pieces.includes(piece));
}
