/** The cross-attention of the settings: of one head or of many, by tokens read or by tokens predicted. */

import { head, layer, measure, sequence } from "../../state/state";
import { setting } from "../../state/settings";
import type { HeadLocation } from "../../trace/format";
import type { Matrix } from "../../trace/matrix";
import { sliceRows } from "../../trace/rowSlice";
import { type DisplayedWeights, displayWeights } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { headName } from "../../i18n/blocks";
import type { Message } from "../../i18n/i18n";
import { chosen } from "../choice";
import { type Pool, centres, coverage, hardAlignment, monotone, pooled } from "./alignmentMath";

export const over = setting<"head" | "layer" | "model">("alignment", "over", "head");
export const pool = setting<Pool>("alignment", "pool", "mean");
export const rows = setting<"read" | "predicted">("alignment", "rows", "read");
export const marks = setting<"argmax" | "mutual" | "none">("alignment", "marks", "argmax");
export const path = setting("alignment", "path", true);

export const OVER: Readonly<Record<"head" | "layer" | "model", Message>> = {
  head: { ko: "이 머리", en: "this head" },
  layer: { ko: "이 층의 모든 머리", en: "all heads of the layer" },
  model: { ko: "모든 층의 모든 머리", en: "all heads of all layers" },
};
export const POOL: Readonly<Record<Pool, Message>> = {
  mean: { ko: "평균", en: "mean" },
  max: { ko: "최댓값", en: "maximum" },
};
export const ROWS: Readonly<Record<"read" | "predicted", Message>> = {
  read: { ko: "읽은 토큰", en: "token read" },
  predicted: { ko: "예측한 토큰", en: "token predicted" },
};
export const MARKS: Readonly<Record<"argmax" | "mutual" | "none", Message>> = {
  argmax: { ko: "행마다 가장 큰 칸", en: "largest of each row" },
  mutual: { ko: "서로 가장 큰 칸", en: "largest of row and column" },
  none: { ko: "없음", en: "none" },
};

export interface Alignment extends Pick<DisplayedWeights, "queries" | "keys" | "ofQuery" | "ofKey"> {
  readonly matrix: Matrix;
  readonly where: Message;
  readonly predicted: boolean;
  readonly marked: readonly number[]; // the column of each row, -1: none
  readonly coverage: Float32Array;
  readonly centres: readonly number[];
  readonly monotone: number | null;
  readonly path: boolean;
  /** Weights of one head as they are, from 0 to 1. */
  readonly single: boolean;
  /** Whether no head was read off its thumbnail. */
  readonly exact: boolean;
}

/** The head in focus, among those of the cross-attention. */
export function crossPlace(trace: Trace): HeadLocation {
  const { layers, heads } = trace.block("cross");
  return {
    sequence: sequence.value,
    block: "cross",
    layer: Math.min(layer.value, layers - 1),
    head: Math.min(head.value, heads - 1),
  };
}

export async function alignment(trace: Trace): Promise<Alignment> {
  const first = crossPlace(trace);
  const predicted = chosen(rows, ROWS) === "predicted";
  const [wanted, how, mark, withPath] = [chosen(over, OVER), chosen(pool, POOL), chosen(marks, MARKS), path.value];
  const single = wanted === "head" && measure.value === "weights";
  // Row t was read at t and predicts token t + 1; what the last row predicts is not in the trace.
  const readings = predicted ? sliceRows(trace, 0, trace.queries(first).pieces.length - 1, 1) : trace;
  const heads = places(trace, first, wanted);
  const all = await Promise.all(heads.map((place) => displayWeights(readings, place)));
  const [one] = all;
  const matrix = withoutPadding(pooled(all.map((each) => each.matrix), how), one);
  const means = centres(matrix);
  return {
    ...one,
    queries: one.queries.filter(({ real }) => real),
    keys: one.keys.filter(({ real }) => real),
    matrix,
    where: whereOf(first, wanted, how, trace.block("cross").layers),
    predicted,
    marked: mark === "none" ? [] : hardAlignment(matrix, mark === "mutual"),
    coverage: coverage(matrix),
    centres: means,
    monotone: monotone(means),
    path: withPath,
    single,
    exact: heads.every((place) => trace.hasExactWeights(place)),
  };
}

function places(trace: Trace, first: HeadLocation, wanted: keyof typeof OVER): readonly HeadLocation[] {
  if (wanted === "head") return [first];
  const { layers, heads } = trace.block("cross");
  const every = wanted === "layer" ? [first.layer] : Array.from({ length: layers }, (_, each) => each);
  return every.flatMap((each) => Array.from({ length: heads }, (_, number) => ({ ...first, layer: each, head: number })));
}

/** Padding stands on the right of both sides: what is left of it. */
function withoutPadding({ data, columns }: Matrix, { queries, keys }: DisplayedWeights): Matrix {
  const [height, width] = [queries, keys].map((labels) => labels.filter(({ real }) => real).length);
  const kept = new Float32Array(height * width);
  for (let row = 0; row < height; row++) kept.set(data.subarray(row * columns, row * columns + width), row * width);
  return { rows: height, columns: width, data: kept };
}

function whereOf({ layer, head }: HeadLocation, wanted: keyof typeof OVER, how: Pool, layers: number): Message {
  if (wanted === "head") return { ko: headName({ layer, head }), en: headName({ layer, head }) };
  const which = wanted === "layer" ? `L${layer}` : `L0–${layers - 1}`;
  return { ko: `${which} 모든 머리의 ${POOL[how].ko}`, en: `${POOL[how].en} of all heads, ${which}` };
}
