/** The Python figure that corresponds to the current view. */

import { setting } from "../state/settings";
import * as state from "../state/state";
import type { TraceInfo } from "../trace/format";
import { pooling, rows, scope } from "../views/alignment/alignmentData";
import { selected } from "../views/choice";
import { HEADS, heads, mass } from "../views/lines/series";

const FIGURES: Readonly<Record<string, string>> = {
  lines: "lines",
  matrix: "attention",
  alignment: "alignment",
  neuron: "neuron",
  positions: "positions",
  explanation: "explanation",
  heads: "model",
};

export type FigureOption = string | number | TraceInfo["muted"]; // pinned heads as [block, layer, head]

/** The kind of a figure and the arguments of `trace.figure`; defaults are omitted. */
export interface Figure {
  readonly kind: string;
  readonly options: Readonly<Record<string, FigureOption>>;
}

/** The figure of the current view; null: Python has no figure for it. */
export function currentFigure(info: TraceInfo): Figure | null {
  const kind = FIGURES[state.view.value];
  if (!kind) return null;
  const { sequence, block, layer, head } = displayedHead(info);
  const options: Record<string, FigureOption> = kind === "explanation" || kind === "model" ? {} : { block, layer, head };
  if (sequence) options.sequence = sequence;
  const hasQuery = block === state.focusedHead.value.block && (kind === "attention" || kind === "lines" || kind === "neuron");
  if (hasQuery && state.query.value !== null) options.query = state.query.value;
  if (kind === "lines") addLineOptions(options, info.blocks.find(({ name }) => name === block)?.heads ?? 0);
  if (kind === "attention" || kind === "lines" || kind === "alignment") {
    if (state.unit.value !== "piece") options.unit = state.unit.value;
    if (state.specials.value !== "plain") options.specials = state.specials.value;
    if (state.measure.value !== "weights") options.measure = state.measure.value;
    if (state.scale.value === "sqrt") options.scale = "sqrt";
  }
  const chosen = setting("explanation", "label", -1).value; // -1: the most probable
  if (kind === "explanation" && info.classification?.labels[chosen] !== undefined) options.label = chosen;
  if (kind === "alignment") {
    options.rows = rows.value;
    if (scope.value !== "head") options.head = pooling.value;
    if (scope.value === "model") options.layer = "all";
  }
  return { kind, options };
}

/** Which heads' lines are drawn, and what fraction of their weight. */
function addLineOptions(options: Record<string, FigureOption>, count: number): void {
  const headMode = selected(heads, HEADS);
  const { block, layer } = state.focusedHead.value;
  const pins =
    headMode === "all"
      ? Array.from({ length: count }, (_, head) => ({ block, layer, head }))
      : state.pinned.value.filter((pin) => headMode === "pinned" && pin.block === block);
  if (headMode === "mean" || headMode === "max") options.head = headMode;
  if (pins.length) {
    options.pins = pins.map(({ block, layer, head }) => [block, layer, head] as const);
    delete options.head;
  }
  if (mass.value !== 0.9) options.mass = mass.value;
}

/** The displayed head: the focused one, in the matrix view the first pinned one; the alignment view always shows cross-attention. */
export function displayedHead(info: TraceInfo) {
  const cross = info.blocks.find(({ name }) => name === "cross");
  const focus = (state.view.value === "matrix" && state.pinned.value[0]) || state.focusedHead.value;
  if (state.view.value !== "alignment" || !cross) return focus;
  return {
    ...focus,
    block: cross.name,
    layer: Math.min(focus.layer, cross.layers - 1),
    head: Math.min(focus.head, cross.heads - 1),
  };
}
