/** The row and column labels of the focused head, in the current unit. */

import { computed } from "@preact/signals";
import { type Label, labels } from "../trace/display";
import { currentTrace } from "./session";
import { block, sequence, unit } from "./state";

export interface Axes {
  readonly queries: readonly Label[];
  readonly keys: readonly Label[];
}

/** Null while no trace is loaded. */
export const axes = computed<Axes | null>(() => {
  const trace = currentTrace.value;
  if (!trace?.info.blocks.some(({ name }) => name === block.value)) return null;
  const location = { block: block.value, sequence: sequence.value };
  const { queries, keys } = trace.block(location.block);
  if (!trace.info.sides[queries]?.[location.sequence] || !trace.info.sides[keys]?.[location.sequence]) return null;
  const queryLabels = labels(trace.queries(location), unit.value);
  return { queries: queryLabels, keys: queries === keys ? queryLabels : labels(trace.keys(location), unit.value) };
});

/** The index of the label that contains a piece; -1: none. */
export function labelIndex(labels: readonly Label[], piece: number | null): number {
  return piece === null ? -1 : labels.findIndex(({ pieces }) => pieces.includes(piece));
}
