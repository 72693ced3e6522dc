/** Typical implementation bugs, applied on purpose: the effect of each on the numbers of this trace. */

import type { HeadLocation } from "../../trace/format";
import { scaleScore } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import type { Message } from "../../i18n/i18n";
import * as a from "./arithmetic";
import { type Numbers, valueAt } from "./arithmetic";
import { LayerData } from "./layerData";
import { pieceNames } from "./steps";
import { formatNumber } from "../../draw/numbers";

export type BugId = "scale" | "zero" | "axis" | "true" | "first" | "residual";

export interface Bug {
  readonly id: BugId;
  readonly title: Message;
  /** The line with the bug, and the correct line. */
  readonly wrong: string;
  readonly correct: string;
}

export interface BugEffect {
  readonly before: Numbers;
  readonly after: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[];
  /** 1 where masked, by index. */
  readonly hidden?: readonly number[];
  /** The effect of the bug, in numbers. */
  readonly description: Message;
}

export const BUGS: readonly Bug[] = [
  { id: "scale", title: { ko: "√d로 나누지 않음", en: "no division by √d" }, wrong: "q @ k.mT", correct: "q @ k.mT * d**-0.5" },
  { id: "zero", title: { ko: "마스크된 점수에 0", en: "masked scores set to 0" }, wrong: "score[mask] = 0", correct: "score[mask] = -inf" },
  { id: "axis", title: { ko: "잘못된 softmax 축", en: "wrong softmax axis" }, wrong: "score.softmax(-2)", correct: "score.softmax(-1)" },
  { id: "true", title: { ko: "뒤집힌 마스크", en: "inverted mask" }, wrong: "score[allowed] = -inf", correct: "score[~allowed] = -inf" },
  {
    id: "first",
    title: { ko: "반복문 안의 return", en: "return inside the loop" },
    wrong: "for layer in layers:\n    x = layer(x)\n    return x",
    correct: "for layer in layers:\n    x = layer(x)\nreturn x",
  },
  { id: "residual", title: { ko: "잘못된 교차 어텐션 잔차", en: "wrong cross-attention residual" }, wrong: "x + cross_attention", correct: "after_self_attention + cross_attention" },
];

/** The bugs that this trace can show. */
export function availableBugs(trace: Trace, location: HeadLocation): readonly Bug[] {
  const data = new LayerData(trace, location);
  const { scaling, block } = data;
  const scored = trace.has(data.attentionName("scores")) || trace.has(data.attentionName("q"));
  return BUGS.filter(({ id }) => {
    if (id === "scale" && scaling === "1") return false; // correct in this model
    if (id === "first") return data.block.layers > 1 && trace.has(`${data.side}.hidden.1`);
    if (id === "residual") return trace.has(data.stepName("cross_attention")) && trace.has(data.stepName("after_cross_attention"));
    return scored;
  }).map((bug) => (bug.id === "scale" && scaling === "other" ? { ...bug, title: { ko: "스케일하지 않음", en: "no scaling" }, correct: `q @ k.mT * ${formatNumber(block.scale)}` } : bug));
}

/** The effect of a bug; null if the trace lacks the data. */
export async function bugEffect(trace: Trace, location: HeadLocation, id: BugId): Promise<BugEffect | null> {
  const data = new LayerData(trace, location);
  return id === "first" ? effectOfEarlyReturn(data) : id === "residual" ? effectOfWrongResidual(data) : effectOnWeights(data, id);
}

async function effectOnWeights(data: LayerData, id: "scale" | "zero" | "axis" | "true"): Promise<BugEffect> {
  const [scores, bias, mask] = await Promise.all([data.trace.scores(data.location), data.trace.bias(data.location), data.mask()]);
  const { real } = data.queries;
  const hidden = Array.from(mask.data, (may) => 1 - may);
  const before = a.softmax(scores, mask.data);
  const filled = (fill: number) => a.mapCells(scores, (score, i) => (mask.data[i] ? score : fill));
  const { softcap, scale } = data.block;
  const root = 1 / scale;
  const unscaled = (score: number) => scaleScore((softcap ? softcap * Math.atanh(score / softcap) : score) / scale, { scale: 1, softcap: softcap ?? null });
  const variants: Readonly<Record<typeof id, () => Numbers>> = {
    scale: () => a.softmax(a.mapCells(scores, (score, i) => unscaled(score - (bias?.data[i] ?? 0)) + (bias?.data[i] ?? 0)), mask.data),
    zero: () => a.softmax(filled(0)),
    axis: () => a.transpose(a.softmax(a.transpose(filled(-Infinity)))),
    true: () => a.softmax(scores, hidden),
  };
  const after = variants[id]();
  const fraction = (weights: Numbers) => `${formatNumber(100 * mean(real, (row) => rowSum(weights, row, (i) => hidden[i])), 1)} %`;
  const peaks = [before, after].map((weights) => formatNumber(mean(real, (row) => rowMax(weights, row)), 2)).join(" → ");
  const sums = real.flatMap((is, row) => (is ? [rowSum(after, row)] : []));
  const range = [Math.min(...sums), Math.max(...sums)].map((sum) => formatNumber(sum, 2)).join(" … ");
  const descriptions: Readonly<Record<typeof id, Message>> = {
    scale: {
      ko: `점수가 ${formatNumber(root, 2)}배가 됩니다 (최대 가중치 평균 ${peaks}). softmax가 키 하나에 집중되면 기울기가 거의 소실됩니다.`,
      en: `Scores are ${formatNumber(root, 2)} times as large (mean largest weight ${peaks}). A softmax close to one key has almost no gradient.`,
    },
    zero: {
      ko: `0은 작은 점수가 아닙니다 (e⁰ = 1): 마스크된 키가 가중치의 ${fraction(after)}를 가져갑니다. −∞를 넣어야 합니다.`,
      en: `0 is not a small score (e⁰ = 1): masked keys receive ${fraction(after)} of the weight. Fill with −∞ instead.`,
    },
    axis: {
      ko: `열의 합이 1이고 행의 합은 ${range}입니다: 키마다 쿼리를 정규화합니다. 텐서 크기가 같아 오류가 나지 않습니다.`,
      en: `Columns sum to 1, rows to ${range}: weights are normalized over queries. The shape is the same, so no error is raised.`,
    },
    true: {
      ko: `마스크되어야 할 키가 가중치의 ${fraction(after)}를 가져가고, 마스크된 키가 없는 행은 어떤 키에도 어텐션하지 못합니다. jumok의 마스크에서 True는 항상 "어텐션 허용"입니다.`,
      en: `Keys that should be masked receive ${fraction(after)} of the weight; rows without masked keys attend to nothing. In jumok, True always means "may attend".`,
    },
  };
  return { before, after, rows: pieceNames(data.queries), columns: pieceNames(data.keys), hidden, description: descriptions[id] };
}

/** `return` inside the loop over layers: the output of layer 0 is returned. */
async function effectOfEarlyReturn(data: LayerData): Promise<BugEffect | null> {
  const { layers } = data.block;
  const before = await data.matrixOrNull(`${data.side}.hidden.${layers}`);
  return compare(data, before, await data.matrixOrNull(`${data.side}.hidden.1`), (cosine) => ({
    ko: `레이어 0의 출력이 그대로 반환되고 나머지 레이어 ${layers - 1}개는 실행도 학습도 되지 않습니다 (올바른 출력과의 코사인 유사도 ${cosine}).`,
    en: `The output of layer 0 is returned; the other layers (${layers - 1}) are never run or trained (cosine similarity to the correct output ${cosine}).`,
  }));
}

/** The cross-attention is added to the input of the layer instead of the self-attention's result. */
async function effectOfWrongResidual(data: LayerData): Promise<BugEffect | null> {
  const [before, x, y] = await Promise.all(
    [data.stepName("after_cross_attention"), `${data.side}.hidden.${data.location.layer}`, data.stepName("cross_attention")].map((name) => data.matrixOrNull(name)),
  );
  const added = x && y && a.add(x, y);
  const after = data.model.norm_first ? added : await data.norm(added, `${data.location.layer}.cross_attention_norm.norm`);
  return compare(data, before, after, (cosine) => ({
    ko: `셀프 어텐션의 결과가 버려집니다: 쿼리에는 쓰이지만 잔차로는 레이어의 입력 x가 더해집니다 (올바른 출력과의 코사인 유사도 ${cosine}).`,
    en: `The self-attention result is discarded: it forms the queries, but the residual is the layer input x (cosine similarity to the correct output ${cosine}).`,
  }));
}

function compare(data: LayerData, before: Numbers | null, after: Numbers | null, descriptions: (cosine: string) => Message): BugEffect | null {
  if (!before || !after) return null;
  const rowDot = (x: Numbers, y: Numbers, row: number) => rowSum(x, row, (i) => y.data[i]);
  const cosine = mean(
    data.queries.real,
    (row) => rowDot(before, after, row) / (Math.sqrt(rowDot(before, before, row) * rowDot(after, after, row)) || 1),
  );
  return { before, after, rows: pieceNames(data.queries), description: descriptions(formatNumber(cosine, 2)) };
}

function rowSum(x: Numbers, row: number, fraction: (index: number) => number = () => 1): number {
  let sum = 0;
  for (let i = row * x.columns; i < (row + 1) * x.columns; i++) sum += x.data[i] * fraction(i);
  return sum;
}

function rowMax(x: Numbers, row: number): number {
  let max = 0;
  for (let c = 0; c < x.columns; c++) max = Math.max(max, valueAt(x, row, c));
  return max;
}

/** The mean over the rows of tokens that are not padding. */
function mean(real: readonly number[], of: (row: number) => number): number {
  const rows = real.flatMap((is, row) => (is ? [of(row)] : []));
  return rows.reduce((sum, value) => sum + value, 0) / Math.max(rows.length, 1);
}
