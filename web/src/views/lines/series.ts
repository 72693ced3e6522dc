/** The settings of the line view, and the heads and pairs that they select in a trace. */

import { focusedHead, pinned } from "../../state/state";
import { setting } from "../../state/settings";
import type { HeadLocation, Sequence } from "../../trace/format";
import type { Matrix } from "../../trace/matrix";
import { type DisplayedWeights, displayOptions, displayWeights } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import type { Message } from "../../i18n/i18n";
import { headName } from "../../i18n/blocks";
import { selected } from "../choice";
import { combineHeads, MAX_LINES, type SelectedLines, selectLines, type Visible } from "./selectLines";

export type Heads = "focus" | "pinned" | "mean" | "max" | "all";
export type Segments = "all" | "aa" | "ab" | "ba" | "bb";

export const LAYOUTS = {
  columns: { ko: "두 열", en: "two columns" },
  arcs: { ko: "한 문장", en: "one sentence" },
} satisfies Record<"columns" | "arcs", Message>;
export const HEADS: Readonly<Record<Heads, Message>> = {
  focus: { ko: "현재 헤드", en: "focused head" },
  pinned: { ko: "고정한 헤드", en: "pinned" },
  mean: { ko: "모든 헤드의 평균", en: "mean of all" },
  max: { ko: "모든 헤드의 최댓값", en: "maximum of all" },
  all: { ko: "모든 헤드", en: "all" },
};
export const SEGMENTS: Readonly<Record<Segments, Message>> = {
  all: { ko: "모두", en: "all" },
  aa: { ko: "A→A", en: "A→A" },
  ab: { ko: "A→B", en: "A→B" },
  ba: { ko: "B→A", en: "B→A" },
  bb: { ko: "B→B", en: "B→B" },
};
export const SIDES: Readonly<Record<"query" | "key", Message>> = {
  query: { ko: "쿼리", en: "query" },
  key: { ko: "키", en: "key" },
};

export const layout = setting<"columns" | "arcs">("lines", "layout", "columns");
export const heads = setting<Heads>("lines", "heads", "focus");
export const mass = setting("lines", "mass", 0.9);
export const segments = setting<Segments>("lines", "segments", "all");
/** In the one-sentence layout, the side that a hovered token belongs to. */
export const side = setting<"query" | "key">("lines", "side", "query");

/** One head, or a combination of all. */
export interface Series {
  readonly name: string;
  readonly matrix: Matrix;
  readonly colour: number | null; // index of the pinned head; null: no colour of its own
}

export interface LinesData {
  readonly location: HeadLocation;
  readonly weights: DisplayedWeights;
  readonly series: readonly Series[];
  readonly max: number; // the weight of the darkest line
  readonly lines: SelectedLines;
  readonly visible: Visible;
  readonly heads: Heads; // as drawn: "pinned" without a pinned head is "focus"
  readonly dim: boolean; // lines from and to special tokens are faint
  readonly pairs: boolean; // the text has two segments
  readonly filtered: boolean; // only pairs between the selected segments are drawn
  readonly sentence: boolean; // queries and keys are the same short text
}

/** Loads the lines for the current state; signals are read before the first await. */
export async function loadLines(trace: Trace): Promise<LinesData> {
  const at = focusedHead.value;
  const pins = pinned.value;
  const pinnedHere = pins.filter((pin) => pin.block === at.block);
  const requested = selected(heads, HEADS);
  const mode = requested === "pinned" && pinnedHere.length === 0 ? "focus" : requested;
  const fraction = mass.value;
  const part = selected(segments, SEGMENTS);
  const block = trace.block(at.block);
  const colourOf = (one: HeadLocation) => {
    const found = pins.findIndex((pin) => pin.block === one.block && pin.layer === one.layer && pin.head === one.head);
    return found < 0 ? null : found;
  };
  const locations: readonly HeadLocation[] =
    mode === "focus"
      ? [at]
      : mode === "pinned"
        ? pinnedHere.map((pin) => ({ ...pin, sequence: at.sequence }))
        : Array.from({ length: block.heads }, (_, number) => ({ ...at, head: number }));
  const options = displayOptions();
  const all = await Promise.all(locations.map((one) => displayWeights(trace, one, options)));
  const matrices = all.map(({ matrix }) => matrix);
  const series: readonly Series[] =
    mode === "mean" || mode === "max"
      ? [{ name: mode, matrix: combineHeads(matrices, mode), colour: null }]
      : locations.map((one, i) => ({
          name: headName(one),
          matrix: matrices[i],
          colour: mode === "pinned" || mode === "all" ? colourOf(one) : null,
        }));
  const [first] = all;
  const { segmentOfQuery, segmentOfKey } = segmentsOf(trace, at, first);
  const { queries } = first;
  const filtered = part !== "all" && segmentOfQuery !== null && segmentOfKey !== null;
  const [from, to] = [part.charCodeAt(0) - 97, part.charCodeAt(1) - 97]; // a is 0, b is 1
  const isReal = (query: number) => queries[query].real;
  const visible: Visible = (query, key) =>
    isReal(query) && (!filtered || (segmentOfQuery[query] === from && segmentOfKey[key] === to));
  return {
    location: at,
    weights: first,
    series,
    // Weights times value norms have no fixed maximum.
    max:
      options.measure === "weights"
        ? 1
        : Math.max(...series.map(({ matrix }) => matrix.data.reduce((a, b) => Math.max(a, b), 0))),
    lines: selectLines(
      series.map(({ matrix }) => matrix),
      fraction,
      visible,
      MAX_LINES,
      isReal,
    ),
    visible,
    heads: mode,
    pairs: segmentOfQuery !== null && segmentOfKey !== null,
    dim: options.specials === "dim",
    filtered,
    sentence: block.queries === block.keys && first.keys.length <= 40,
  };
}

/** The segment of each label; null for a single segment. Padding may be of any. */
function segmentsOf(trace: Trace, at: HeadLocation, { queries, keys }: DisplayedWeights) {
  const of = ({ segments: list, real }: Sequence, labels: DisplayedWeights["queries"]) => {
    if (!list || new Set(list.filter((_, i) => real[i])).size < 2) return null;
    return labels.map(({ pieces }) => list[pieces[0]]);
  };
  return { segmentOfQuery: of(trace.queries(at), queries), segmentOfKey: of(trace.keys(at), keys) };
}
