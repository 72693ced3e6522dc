/** Which heads are drawn, and which pairs: the choices of the view, and what they make of a trace. */

import { pinned, focusedHead } from "../../state/state";
import { setting } from "../../state/settings";
import type { HeadLocation, Sequence } from "../../trace/format";
import type { Matrix } from "../../trace/matrix";
import { type DisplayedWeights, displayOptions, displayWeights } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import type { Message } from "../../i18n/i18n";
import { headName } from "../../i18n/blocks";
import { selected } from "../choice";
import { type SelectedLines, selectLines, combineHeads, MAX_LINES, type Visible } from "./arcs";

export type Heads = "focus" | "pinned" | "mean" | "max" | "all";
export type Segments = "all" | "aa" | "ab" | "ba" | "bb";

export const LAYOUTS = {
  columns: { ko: "두 열", en: "two columns" },
  arcs: { ko: "한 문장", en: "one sentence" },
} satisfies Record<"columns" | "arcs", Message>;
export const HEADS: Readonly<Record<Heads, Message>> = {
  focus: { ko: "보던 머리", en: "the one in focus" },
  pinned: { ko: "고정한 머리", en: "pinned" },
  mean: { ko: "모두의 평균", en: "mean of all" },
  max: { ko: "모두의 최대", en: "largest of all" },
  all: { ko: "모두 겹쳐", en: "all" },
};
export const SEGMENTS: Readonly<Record<Segments, Message>> = {
  all: { ko: "모두", en: "all" },
  aa: { ko: "A→A", en: "A→A" },
  ab: { ko: "A→B", en: "A→B" },
  ba: { ko: "B→A", en: "B→A" },
  bb: { ko: "B→B", en: "B→B" },
};
export const SIDES: Readonly<Record<"query" | "key", Message>> = {
  query: { ko: "질의", en: "query" },
  key: { ko: "키", en: "key" },
};

export const layout = setting<"columns" | "arcs">("lines", "layout", "columns");
export const heads = setting<Heads>("lines", "heads", "focus");
export const mass = setting("lines", "mass", 0.9);
export const segments = setting<Segments>("lines", "segments", "all");
/** In one sentence, what a token is when it is pointed at. */
export const side = setting<"query" | "key">("lines", "side", "query");

/** One head, or all as one. */
export interface Series {
  readonly name: string;
  readonly matrix: Matrix;
  readonly colour: number | null; // of the pinned heads; null: none of its own
}

export interface LinesData {
  readonly location: HeadLocation;
  readonly weights: DisplayedWeights;
  readonly series: readonly Series[];
  readonly max: number; // what the darkest line stands for
  readonly lines: SelectedLines;
  readonly visible: Visible;
  readonly heads: Heads; // as drawn: "pinned" without a pinned head is "focus"
  readonly dim: boolean; // lines from and to special tokens are faint
  readonly pairs: boolean; // the texts are joined of two segments
  readonly filtered: boolean; // only pairs between chosen segments are drawn
  readonly sentence: boolean; // queries and keys are the same few tokens
}

/** What the view draws now; signals are read before anything is awaited. */
export async function loadLines(trace: Trace): Promise<LinesData> {
  const at = focusedHead.value;
  const pins = pinned.value;
  const here = pins.filter((pin) => pin.block === at.block);
  const requested = selected(heads, HEADS);
  const mode = requested === "pinned" && here.length === 0 ? "focus" : requested;
  const fraction = mass.value;
  const part = selected(segments, SEGMENTS);
  const block = trace.block(at.block);
  const colourOf = (one: HeadLocation) => {
    const found = pins.findIndex((pin) => pin.block === one.block && pin.layer === one.layer && pin.head === one.head);
    return found < 0 ? null : found;
  };
  const places: readonly HeadLocation[] =
    mode === "focus"
      ? [at]
      : mode === "pinned"
        ? here.map((pin) => ({ ...pin, sequence: at.sequence }))
        : Array.from({ length: block.heads }, (_, number) => ({ ...at, head: number }));
  const options = displayOptions();
  const all = await Promise.all(places.map((one) => displayWeights(trace, one, options)));
  const matrices = all.map(({ matrix }) => matrix);
  const series: readonly Series[] =
    mode === "mean" || mode === "max"
      ? [{ name: mode, matrix: combineHeads(matrices, mode), colour: null }]
      : places.map((one, i) => ({
          name: headName(one),
          matrix: matrices[i],
          colour: mode === "pinned" || mode === "all" ? colourOf(one) : null,
        }));
  const [first] = all;
  const { segmentOfQuery, segmentOfKey } = segmentsOf(trace, at, first);
  const { queries } = first;
  const filtered = part !== "all" && segmentOfQuery !== null && segmentOfKey !== null;
  const [from, to] = [part.charCodeAt(0) - 97, part.charCodeAt(1) - 97]; // a is 0, b is 1
  const asks = (query: number) => queries[query].real;
  const visible: Visible = (query, key) =>
    asks(query) && (!filtered || (segmentOfQuery[query] === from && segmentOfKey[key] === to));
  return {
    location: at,
    weights: first,
    series,
    // Weights times values have no largest of their own.
    max:
      options.measure === "weights"
        ? 1
        : Math.max(...series.map(({ matrix }) => matrix.data.reduce((a, b) => Math.max(a, b), 0))),
    lines: selectLines(
      series.map(({ matrix }) => matrix),
      fraction,
      visible,
      MAX_LINES,
      asks,
    ),
    visible,
    heads: mode,
    pairs: segmentOfQuery !== null && segmentOfKey !== null,
    dim: options.specials === "dim",
    filtered,
    sentence: block.queries === block.keys && first.keys.length <= 40,
  };
}

/** The segment of each label; null where the texts are not of two segments. Padding may be of any. */
function segmentsOf(trace: Trace, at: HeadLocation, { queries, keys }: DisplayedWeights) {
  const of = ({ segments: list, real }: Sequence, labels: DisplayedWeights["queries"]) => {
    if (!list || new Set(list.filter((_, i) => real[i])).size < 2) return null;
    return labels.map(({ pieces }) => list[pieces[0]]);
  };
  return { segmentOfQuery: of(trace.queries(at), queries), segmentOfKey: of(trace.keys(at), keys) };
}
