/** What each step is called, what it does in one sentence, and its formula; the market of note 004 beside. */

import type { JSX } from "preact";
import type { Message } from "../../i18n/i18n";
import type { LayerData } from "./layerData";
import { frac, math, root, row, sub, sup } from "./mathml";
import type { StepId } from "./steps";

export interface StepText {
  readonly title: Message;
  readonly description: Message | ((data: LayerData) => Message);
  readonly formula?: (data: LayerData) => JSX.Element | null;
  /** Note 004's market, or what another note does. */
  readonly aside?: Message;
}

const SCORE = frac(row("Q", sup("K", "T")), root("d"));
const NORM: Message = { ko: "앞 norm", en: "norm first" };
const ADD_NORM: Message = { ko: "Add & Norm", en: "Add & Norm" };

function norm({ model }: LayerData): JSX.Element {
  return model.norm === "rms"
    ? math("x · γ /", root(row("mean (", sup("x", "2"), ") + ε")))
    : math(frac("x − μ", root(row(sup("σ", "2"), "+ ε"))), "· γ + β");
}

function addNorm({ model }: LayerData): JSX.Element {
  return math(model.norm_first ? "x + f ( LN ( x ) )" : "LN ( x + f ( x ) )");
}

const RESIDUAL_TEXT = ({ model }: LayerData): Message =>
  model.norm_first
    ? { ko: "결과를 들어온 x에 더합니다.", en: "The result is added to the x that came in." }
    : { ko: "결과를 들어온 x에 더하고 행마다 고르게 합니다.", en: "The result is added to the x that came in; rows are normalised." };

const POSITIONS: Readonly<Record<string, Message>> = {
  rotary: { ko: "더하지 않고, 뒤에서 질의와 키를 돌립니다.", en: "None is added: queries and keys are turned later." },
  relative: { ko: "더하지 않고, 뒤에서 점수에 거리의 수를 더합니다.", en: "None is added: distances join the scores later." },
  none: { ko: "이 모델에는 위치가 없습니다.", en: "This model has no positions." },
  learned: { ko: "자리마다 배운 표의 한 줄.", en: "A row of a learned table for each place." },
};

export const STEP_TEXTS: Readonly<Record<StepId, StepText>> = {
  pieces: {
    title: { ko: "조각", en: "pieces" },
    description: { ko: "문장을 낱말집의 조각으로 자릅니다.", en: "Sentences are cut into pieces of the vocabulary." },
  },
  ids: {
    title: { ko: "번호 + pad", en: "ids + pad" },
    description: { ko: "조각을 번호로; 짧은 문장은 [PAD]로 채웁니다.", en: "Pieces become ids; short sentences are filled with [PAD]." },
  },
  embedding: {
    title: { ko: "임베딩", en: "embedding" },
    description: { ko: "번호마다 표 E의 한 줄 (3.4절: × √d).", en: "Each id takes its row of E (section 3.4: × √d)." },
    formula: () => math(sub("x", "t"), "=", sub("E", sub("id", "t")), "·", root("d")),
  },
  positions: {
    title: { ko: "위치", en: "positions" },
    description: ({ model }) => POSITIONS[model.positions] ?? { ko: "몇 번째인지를 사인과 코사인으로.", en: "Where a token stands, in sines and cosines." },
    formula: ({ model }) =>
      model.positions.startsWith("sin")
        ? math(sub("PE", "p , 2 i"), "= sin", frac("p", sup("10000", "2 i / d")), ",", sub("PE", "p , 2 i + 1"), "= cos …")
        : null,
  },
  sum: {
    title: { ko: "합", en: "sum" },
    description: { ko: "토큰 + 위치 (+ 구간)가 첫 층에 들어갑니다.", en: "Token + position (+ segment) enters the first layer." },
    formula: () => math("X = x + PE"),
  },
  input: {
    title: { ko: "들어온 것", en: "input" },
    description: ({ part }) =>
      part === "cross"
        ? { ko: "질의는 디코더에서, 키와 값은 인코더에서.", en: "Queries from the decoder, keys and values from the encoder." }
        : { ko: "앞 층의 출력.", en: "The output of the layer before." },
  },
  before: { title: NORM, description: { ko: "주목 앞에서 행마다 고르게.", en: "Rows are normalised before the attention." }, formula: norm },
  project: {
    title: { ko: "W_Q W_K W_V", en: "W_Q W_K W_V" },
    description: { ko: "한 벡터의 세 역할: 찾는 것 Q, 이름 K, 주는 것 V.", en: "One vector, three roles: what it seeks Q, its label K, what it gives V." },
    formula: () => math("Q = X", sub("W", "Q"), ", K = X", sub("W", "K"), ", V = X", sub("W", "V")),
    aside: { ko: "노트 004의 마트: 질의 = 살 것, 키 = 이름표, 값 = 상품.", en: "Note 004's market: query = what to buy, key = label, value = goods." },
  },
  heads: {
    title: { ko: "머리 나누기", en: "heads" },
    description: { ko: "줄을 머리 수만큼 자릅니다; 수는 그대로.", en: "Rows are cut into heads; the numbers stay." },
    formula: () => math(sub("Q", "h"), "= Q [ : , h · d : ( h + 1 ) · d ]"),
  },
  rotate: {
    title: { ko: "돌리기", en: "rotary" },
    description: { ko: "짝마다 위치 × 각도만큼 돌립니다.", en: "Each pair turns by position × angle." },
    formula: () => math(sub("q", "i"), "cos p", sub("θ", "i"), "−", sub("q", "i + K / 2"), "sin p", sub("θ", "i")),
  },
  dot: {
    title: { ko: "QKᵀ", en: "QKᵀ" },
    description: { ko: "질의와 키의 내적: 클수록 맞습니다.", en: "Query times key: the larger, the better they match." },
    formula: () => math("S = Q", sup("K", "T")),
    aside: { ko: "마트: 살 것과 이름표를 견줍니다.", en: "The market: what one wants against each label." },
  },
  scale: {
    title: { ko: "÷√d", en: "÷√d" },
    description: ({ block }) =>
      block.scale === 1
        ? { ko: "이 모델은 나누지 않습니다 (T5).", en: "This model does not divide (T5)." }
        : { ko: "머리 너비의 제곱근으로 나눕니다: 안 그러면 softmax가 몰립니다.", en: "Divided by the root of the head's width, else the softmax settles on one." },
    formula: () => math("S =", SCORE),
  },
  bias: {
    title: { ko: "거리 더하기", en: "relative bias" },
    description: { ko: "거리마다 배운 수를 더합니다.", en: "A number learnt for each distance is added." },
    formula: () => math("S =", SCORE, "+", sub("B", "s − t")),
  },
  mask: {
    title: { ko: "가림", en: "mask" },
    description: ({ block }) =>
      block.causal
        ? { ko: "[PAD]와 뒤에 올 것의 점수는 −∞.", en: "Scores of [PAD] and of what comes later become −∞." }
        : { ko: "[PAD]의 점수는 −∞.", en: "Scores of [PAD] become −∞." },
    formula: () => math("S + M , M ∈ { 0 , − ∞ }"),
    aside: { ko: "노트 000은 −1e9, 노트 001은 0(실수)을 넣습니다.", en: "Note 000 fills in −1e9, note 001 0 (a slip)." },
  },
  softmax: {
    title: { ko: "softmax", en: "softmax" },
    description: { ko: "행마다 합이 1인 몫: 가중치.", en: "Rows become shares that sum to 1: the weights." },
    formula: () => math(sub("A", "t , s"), "=", frac(sup("e", sub("S", "t , s")), row(sub("Σ", "j"), sup("e", sub("S", "t , j"))))),
    aside: { ko: "마트: 달걀 12개를 사려다 10개, 오믈렛 1개, 치킨 윙 1개.", en: "The market: 12 eggs wanted; 10, an omelette and a chicken wing taken." },
  },
  mixed: {
    title: { ko: "·V", en: "·V" },
    description: { ko: "값을 가중치만큼 섞습니다.", en: "Values are mixed by their weights." },
    formula: () => math(sub("head", "h"), "= A V"),
    aside: { ko: "마트: 맞는 만큼 상품(값)을 꺼냅니다.", en: "The market: goods as far as the labels match." },
  },
  concat: {
    title: { ko: "이어 붙이기", en: "concat" },
    description: { ko: "머리를 옆으로 이어 붙입니다.", en: "Heads are laid side by side." },
  },
  output: {
    title: { ko: "Linear", en: "Linear" },
    description: { ko: "W_O가 머리들을 섞습니다.", en: "W_O mixes the heads." },
    formula: () => math("Y = concat (", sub("head", "1"), ", … ,", sub("head", "H"), ")", sub("W", "O")),
  },
  add_attention: { title: ADD_NORM, description: RESIDUAL_TEXT, formula: addNorm },
  add_cross: {
    title: { ko: "교차 Add & Norm", en: "cross Add & Norm" },
    description: RESIDUAL_TEXT,
    formula: addNorm,
    aside: { ko: "노트 001은 층의 처음 x를 더합니다 (실수).", en: "Note 001 adds the layer's first x (a slip)." },
  },
  before_feed_forward: { title: NORM, description: { ko: "FFN 앞에서 행마다 고르게.", en: "Rows are normalised before the FFN." }, formula: norm },
  widen: {
    title: { ko: "FFN 넓히기", en: "FFN: widen" },
    description: ({ model }) => ({ ko: `자리마다 넓히고 f = ${model.activation}로 굽힙니다.`, en: `Each place is widened and bent by f = ${model.activation}.` }),
    formula: ({ model }) => math("H = f ( X", sub("W", "1"), model.gated ? ") ⊙ X" : "+", model.gated ? sub("W", "g") : sub("b", "1"), model.gated ? "" : ")"),
    aside: { ko: "노트 000의 Conv1d는 축을 바꿔 [B, 4·D, T]로 찍습니다.", en: "Note 000's Conv1d prints [B, 4·D, T], axes exchanged." },
  },
  narrow: {
    title: { ko: "FFN 좁히기", en: "FFN: narrow" },
    description: { ko: "모델의 너비로 되돌립니다.", en: "Back to the width of the model." },
    formula: () => math("Y = H", sub("W", "2"), "+", sub("b", "2")),
  },
  add_feed_forward: { title: ADD_NORM, description: RESIDUAL_TEXT, formula: addNorm },
  closing: { title: { ko: "끝 norm", en: "closing norm" }, description: { ko: "pre-norm 층들의 합을 한 번 고르게.", en: "The sum of pre-norm layers is normalised once." }, formula: norm },
};
