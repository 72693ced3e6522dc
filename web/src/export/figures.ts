/** The figures that Python draws, and how a view of now is one of them. */

import * as state from "../state/state";
import type { TraceInfo } from "../trace/format";
import { over, pool, rows } from "../views/alignment/alignments";

const FIGURES: Readonly<Record<string, string>> = {
  lines: "attention",
  matrix: "attention",
  alignment: "alignment",
  neuron: "neuron",
  positions: "positions",
  explanation: "explanation",
};

/** A figure and what `trace.figure` is told of it; what is as at first is left out. */
export interface Figure {
  readonly kind: string;
  readonly options: Readonly<Record<string, string | number>>;
}

/** The figure of the view in front; null: Python draws none like it. */
export function figureNow(info: TraceInfo): Figure | null {
  const kind = FIGURES[state.view.value];
  if (!kind) return null;
  const { sequence, block, layer, head } = placeNow(info);
  const options: Record<string, string | number> = kind === "explanation" ? {} : { block, layer, head };
  if (sequence) options.sequence = sequence;
  if (state.query.value !== null && (kind === "attention" || kind === "neuron")) options.query = state.query.value;
  if (kind === "attention" || kind === "alignment") {
    if (state.unit.value !== "piece") options.unit = state.unit.value;
    if (state.specials.value !== "plain") options.specials = state.specials.value;
    if (state.measure.value !== "weights") options.measure = state.measure.value;
    if (state.scale.value === "sqrt") options.scale = "sqrt";
  }
  if (kind === "alignment") {
    options.rows = rows.value;
    if (over.value !== "head") options.head = pool.value;
  }
  return { kind, options };
}

/** The head that is shown: that in focus; alignment is read from the cross-attention, whatever is in focus. */
export function placeNow(info: TraceInfo) {
  const cross = info.blocks.find(({ name }) => name === "cross");
  const focus = state.place.value;
  if (state.view.value !== "alignment" || !cross) return focus;
  return {
    ...focus,
    block: cross.name,
    layer: Math.min(focus.layer, cross.layers - 1),
    head: Math.min(focus.head, cross.heads - 1),
  };
}
