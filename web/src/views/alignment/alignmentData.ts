/** The cross-attention that the settings select: one head or several, by tokens read or by tokens predicted. */

import { head, layer, measure, sequence } from "../../state/state";
import { setting } from "../../state/settings";
import type { HeadLocation } from "../../trace/format";
import type { Matrix } from "../../trace/matrix";
import { sliceRows } from "../../trace/rowSlice";
import { type DisplayedWeights, displayWeights } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { headName } from "../../i18n/blocks";
import type { Message } from "../../i18n/i18n";
import { selected } from "../choice";
import { coverage, hardAlignment, meanPositions, monotonicity, type Pool, poolHeads } from "./alignmentMath";

export const scope = setting<"head" | "layer" | "model">("alignment", "over", "layer");
export const pooling = setting<Pool>("alignment", "pool", "mean");
export const rows = setting<"read" | "predicted">("alignment", "rows", "predicted");
export const marks = setting<"argmax" | "mutual" | "none">("alignment", "marks", "argmax");
export const showMeanPath = setting("alignment", "path", true);

export const SCOPES: Readonly<Record<"head" | "layer" | "model", Message>> = {
  head: { ko: "현재 헤드", en: "this head" },
  layer: { ko: "현재 레이어의 모든 헤드", en: "heads of the layer" },
  model: { ko: "모든 레이어의 모든 헤드", en: "all heads of all layers" },
};
export const POOLINGS: Readonly<Record<Pool, Message>> = {
  mean: { ko: "평균", en: "mean" },
  max: { ko: "최댓값", en: "maximum" },
};
export const ROWS: Readonly<Record<"read" | "predicted", Message>> = {
  read: { ko: "읽은 토큰", en: "token read" },
  predicted: { ko: "예측한 토큰", en: "token predicted" },
};
export const MARKS: Readonly<Record<"argmax" | "mutual" | "none", Message>> = {
  argmax: { ko: "행마다 최댓값", en: "row maximum" },
  mutual: { ko: "행과 열 모두 최댓값", en: "maximum of row and column" },
  none: { ko: "없음", en: "none" },
};

export interface AlignmentData extends Pick<DisplayedWeights, "queries" | "keys" | "rowOf" | "columnOf"> {
  readonly matrix: Matrix;
  readonly title: Message;
  readonly predicted: boolean;
  readonly marked: readonly number[]; // the column of each row; -1: none
  readonly coverage: Float32Array;
  readonly centres: readonly number[];
  readonly monotone: number | null;
  readonly path: boolean;
  /** Unprocessed weights of one head, from 0 to 1. */
  readonly single: boolean;
  /** Whether all heads have exact weights. */
  readonly exact: boolean;
}

/** The focused head, clamped to the cross-attention. */
export function crossHead(trace: Trace): HeadLocation {
  const { layers, heads } = trace.block("cross");
  return {
    sequence: sequence.value,
    block: "cross",
    layer: Math.min(layer.value, layers - 1),
    head: Math.min(head.value, heads - 1),
  };
}

export async function loadAlignment(trace: Trace): Promise<AlignmentData> {
  const first = crossHead(trace);
  const predicted = selected(rows, ROWS) === "predicted";
  const [pooledScope, poolMode, markMode, withPath] = [selected(scope, SCOPES), selected(pooling, POOLINGS), selected(marks, MARKS), showMeanPath.value];
  const single = pooledScope === "head" && measure.value === "weights";
  // Row t was read at t and predicts token t + 1; the prediction of the last row is not in the trace.
  const source = predicted ? sliceRows(trace, 0, trace.queries(first).pieces.length - 1, 1) : trace;
  const heads = headsToPool(trace, first, pooledScope);
  const all = await Promise.all(heads.map((location) => displayWeights(source, location)));
  const [one] = all;
  const matrix = withoutPadding(poolHeads(all.map((each) => each.matrix), poolMode), one);
  const means = meanPositions(matrix);
  return {
    ...one,
    queries: one.queries.filter(({ real }) => real),
    keys: one.keys.filter(({ real }) => real),
    matrix,
    title: titleOf(first, pooledScope, poolMode, trace.block("cross").layers),
    predicted,
    marked: markMode === "none" ? [] : hardAlignment(matrix, markMode === "mutual"),
    coverage: coverage(matrix),
    centres: means,
    monotone: monotonicity(means),
    path: withPath,
    single,
    exact: heads.every((location) => trace.hasExactWeights(location)),
  };
}

function headsToPool(trace: Trace, first: HeadLocation, pooledScope: keyof typeof SCOPES): readonly HeadLocation[] {
  if (pooledScope === "head") return [first];
  const { layers, heads } = trace.block("cross");
  const layerNumbers = pooledScope === "layer" ? [first.layer] : Array.from({ length: layers }, (_, each) => each);
  return layerNumbers.flatMap((each) => Array.from({ length: heads }, (_, number) => ({ ...first, layer: each, head: number })));
}

/** Removes padding, which is on the right of both sides. */
function withoutPadding({ data, columns }: Matrix, { queries, keys }: DisplayedWeights): Matrix {
  const [height, width] = [queries, keys].map((labels) => labels.filter(({ real }) => real).length);
  const unpadded = new Float32Array(height * width);
  for (let row = 0; row < height; row++) unpadded.set(data.subarray(row * columns, row * columns + width), row * width);
  return { rows: height, columns: width, data: unpadded };
}

function titleOf({ layer, head }: HeadLocation, pooledScope: keyof typeof SCOPES, poolMode: Pool, layers: number): Message {
  if (pooledScope === "head") return { ko: headName({ layer, head }), en: headName({ layer, head }) };
  const which = pooledScope === "layer" ? `L${layer}` : `L0–${layers - 1}`;
  return { ko: `${which} 모든 헤드의 ${POOLINGS[poolMode].ko}`, en: `${POOLINGS[poolMode].en} of all heads, ${which}` };
}
