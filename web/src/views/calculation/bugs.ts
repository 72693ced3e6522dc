/** The slips of the study notes, made on purpose: what each does to the numbers of this very trace. */

import type { HeadLocation } from "../../trace/format";
import { scaleScore } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import type { Message } from "../../i18n/i18n";
import * as a from "./arithmetic";
import { valueAt, type Numbers } from "./arithmetic";
import { LayerData } from "./layerData";
import { pieceNames } from "./steps";
import { formatNumber } from "./formatSum";

export type BugId = "scale" | "zero" | "axis" | "true" | "first" | "residual";

export interface Bug {
  readonly id: BugId;
  readonly title: Message;
  /** The line as it was written, and as it should be. */
  readonly wrong: string;
  readonly correct: string;
}

export interface BugEffect {
  readonly before: Numbers;
  readonly after: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[];
  /** By number in the table: what may not be seen. */
  readonly hidden?: readonly number[];
  /** What goes wrong, in numbers. */
  readonly description: Message;
}

export const BUGS: readonly Bug[] = [
  { id: "scale", title: { ko: "√d로 나누지 않음", en: "no division by √d" }, wrong: "q @ k.mT", correct: "q @ k.mT * d**-0.5" },
  { id: "zero", title: { ko: "가린 점수에 0", en: "hidden scores 0" }, wrong: "score[mask] = 0", correct: "score[mask] = -inf" },
  { id: "axis", title: { ko: "softmax의 축", en: "softmax axis" }, wrong: "score.softmax(-2)", correct: "score.softmax(-1)" },
  { id: "true", title: { ko: "True를 거꾸로", en: "True the other way" }, wrong: "score[allowed] = -inf", correct: "score[~allowed] = -inf" },
  {
    id: "first",
    title: { ko: "반복 안의 return", en: "return in the loop" },
    wrong: "for layer in layers:\n    x = layer(x)\n    return x",
    correct: "for layer in layers:\n    x = layer(x)\nreturn x",
  },
  { id: "residual", title: { ko: "교차 잔차에 x", en: "wrong cross residual" }, wrong: "norm(x + cross)", correct: "norm(after_attention + cross)" },
];

/** The slips that this trace can show. */
export function availableBugs(trace: Trace, place: HeadLocation): readonly Bug[] {
  const data = new LayerData(trace, place);
  const scored = trace.has(data.attentionName("scores")) || trace.has(data.attentionName("q"));
  return BUGS.filter(({ id }) => {
    if (id === "first") return data.block.layers > 1 && trace.has(`${data.side}.hidden.1`);
    if (id === "residual") return trace.has(data.stepName("cross")) && trace.has(data.stepName("after_cross"));
    return scored;
  });
}

/** What a slip does; null where the trace lacks what it takes. */
export async function bugEffect(trace: Trace, place: HeadLocation, id: BugId): Promise<BugEffect | null> {
  const data = new LayerData(trace, place);
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
  const undivided = (score: number) => scaleScore((softcap ? softcap * Math.atanh(score / softcap) : score) / scale, { scale: 1, softcap: softcap ?? null });
  const made: Readonly<Record<typeof id, () => Numbers>> = {
    scale: () => a.softmax(a.mapCells(scores, (score, i) => undivided(score - (bias?.data[i] ?? 0)) + (bias?.data[i] ?? 0)), mask.data),
    zero: () => a.softmax(filled(0)),
    axis: () => a.transpose(a.softmax(a.transpose(filled(-Infinity)))),
    true: () => a.softmax(scores, hidden),
  };
  const after = made[id]();
  const fraction = (weights: Numbers) => `${formatNumber(100 * mean(real, (row) => rowSum(weights, row, (i) => hidden[i])), 1)} %`;
  const peaks = [before, after].map((weights) => formatNumber(mean(real, (row) => rowMax(weights, row)), 2)).join(" → ");
  const sums = real.flatMap((is, row) => (is ? [rowSum(after, row)] : []));
  const range = [Math.min(...sums), Math.max(...sums)].map((sum) => formatNumber(sum, 2)).join(" … ");
  const descriptions: Readonly<Record<typeof id, Message>> = {
    scale: {
      ko: `점수가 ${formatNumber(root, 2)}배: softmax가 한 키에 몰리고 (가장 큰 가중치 평균 ${peaks}) 기울기가 거의 사라집니다.`,
      en: `Scores grow ${formatNumber(root, 2)} times: the softmax settles on one key (mean largest weight ${peaks}) and its gradient all but vanishes.`,
    },
    zero: {
      ko: `0은 작은 점수가 아닙니다 (e⁰ = 1): 가려야 할 키가 가중치의 ${fraction(after)}를 가져갑니다. 노트 001은 "매우 작은 값"이라 쓰고 0을 넣었습니다.`,
      en: `0 is no small score (e⁰ = 1): keys that should be hidden take ${fraction(after)} of the weight. Note 001 says "a very small value" and fills in 0.`,
    },
    axis: {
      ko: `열의 합이 1이고 행의 합은 ${range}: 키가 질의를 고릅니다. 모양이 같아서 오류도 없습니다.`,
      en: `Columns sum to 1, rows to ${range}: keys choose queries. The shape is the same, so no error is raised.`,
    },
    true: {
      ko: `가려야 할 키가 가중치의 ${fraction(after)}를 가져가고, 가릴 것이 없던 행은 아무것도 못 봅니다. jumok의 True는 언제나 "보아도 됨"입니다.`,
      en: `Keys that should be hidden take ${fraction(after)} of the weight; rows with none hidden see nothing. In jumok True always means "may attend".`,
    },
  };
  return { before, after, rows: pieceNames(data.queries), columns: pieceNames(data.keys), hidden, description: descriptions[id] };
}

/** `return` inside the loop over layers: what layer 0 makes goes out as the answer. */
async function effectOfEarlyReturn(data: LayerData): Promise<BugEffect | null> {
  const { layers } = data.block;
  const before = await data.matrixOrNull(`${data.side}.hidden.${layers}`);
  return compare(data, before, await data.matrixOrNull(`${data.side}.hidden.1`), (alike) => ({
    ko: `층 0의 출력이 그대로 나가고 나머지 층 ${layers - 1}개는 돌지도 배우지도 않습니다 (바른 출력과의 코사인 ${alike}).`,
    en: `The output of layer 0 goes out; the layers after it (${layers - 1}) never run and never learn (cosine with the right output ${alike}).`,
  }));
}

/** The cross-attention is added to what entered the layer, not to what self-attention made of it. */
async function effectOfWrongResidual(data: LayerData): Promise<BugEffect | null> {
  const [before, x, y] = await Promise.all(
    [data.stepName("after_cross"), `${data.side}.hidden.${data.location.layer}`, data.stepName("cross")].map((name) => data.matrixOrNull(name)),
  );
  const added = x && y && a.add(x, y);
  const after = data.model.norm_first ? added : await data.norm(added, `${data.location.layer}.around_cross.norm`);
  return compare(data, before, after, (alike) => ({
    ko: `자기 주목의 결과가 버려집니다: 그것으로 물었지만 더하는 것은 층에 들어온 x입니다 (바른 결과와의 코사인 ${alike}).`,
    en: `What self-attention made is thrown away: it asked, but the layer's own x is added (cosine with the right result ${alike}).`,
  }));
}

function compare(data: LayerData, before: Numbers | null, after: Numbers | null, descriptions: (alike: string) => Message): BugEffect | null {
  if (!before || !after) return null;
  const along = (x: Numbers, y: Numbers, row: number) => rowSum(x, row, (i) => y.data[i]);
  const alike = mean(
    data.queries.real,
    (row) => along(before, after, row) / (Math.sqrt(along(before, before, row) * along(after, after, row)) || 1),
  );
  return { before, after, rows: pieceNames(data.queries), description: descriptions(formatNumber(alike, 2)) };
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

/** The mean over the rows of real tokens. */
function mean(real: readonly number[], of: (row: number) => number): number {
  const rows = real.flatMap((is, row) => (is ? [of(row)] : []));
  return rows.reduce((sum, value) => sum + value, 0) / Math.max(rows.length, 1);
}
