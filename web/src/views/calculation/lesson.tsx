/** The title, description and formula of each step, with the analogy of a market. */

import type { JSX } from "preact";
import { type Message, particle } from "../../i18n/i18n";
import { hasHalves, type LayerData } from "./layerData";
import { formatFactor } from "./formatSum";
import { frac, math, root, row, sub, sup } from "./mathml";
import type lessons from "./lessons.json";
import type { StepId } from "./steps";

export interface StepText {
  readonly title: Message | ((data: LayerData) => Message);
  readonly description: Message | ((data: LayerData) => Message);
  readonly formula?: (data: LayerData) => JSX.Element | null;
  /** The market analogy, or a variant of the step. */
  readonly remark?: Message;
}

/** The lesson of the course about each step. */
export const LESSON_OF: Readonly<Record<StepId, keyof typeof lessons>> = {
  pieces: "1", ids: "1",
  embedding: "2", positions: "2", sum: "2", rotate: "2", bias: "2",
  input: "3", project: "3", dot: "3", scale: "3", softmax: "3", weighted_sum: "3",
  heads: "4", head_norm: "4", concat: "4", output: "4",
  mask: "5",
  pre_norm: "6", add_attention: "6", feed_forward_pre_norm: "6", feed_forward_up: "6", feed_forward_down: "6", add_feed_forward: "6",
  add_cross: "7", final_norm: "7",
};

const PRODUCT = row("Q", sup("K", "T"));

/** The title of a step of this model. */
export function titleOf(step: StepId, data: LayerData): Message {
  const { title } = STEP_TEXTS[step];
  return typeof title === "function" ? title(data) : title;
}

function scores({ scaling, block }: LayerData): JSX.Element {
  if (scaling === "1") return PRODUCT;
  return scaling === "1/√d" ? frac(PRODUCT, root("d")) : row(PRODUCT, "·", formatFactor(block.scale));
}

const NORM: Message = { ko: "pre-norm", en: "pre-norm" };
const ADD_NORM = ({ model }: LayerData): Message => {
  const name = model.sublayer_norm ? "Norm & Add" : model.norm_first || model.sublayer_norm == null ? "Add" : "Add & Norm";
  return { ko: name, en: name };
};

function norm({ model }: LayerData): JSX.Element {
  return model.norm !== "layer"
    ? math(model.norm === "rms" ? "x · γ /" : "x · ( 1 + γ ) /", root(row("mean (", sup("x", "2"), ") + ε")))
    : math(frac("x − μ", root(row(sup("σ", "2"), "+ ε"))), "· γ + β");
}

function addNorm({ model, normName: N }: LayerData): JSX.Element | null {
  if (model.sublayer_norm == null) return null; // not known
  if (model.sublayer_norm) return math(model.norm_first ? `x + ${N} ( f ( ${N} ( x ) ) )` : `x + ${N} ( f ( x ) )`);
  return math(model.norm_first ? `x + f ( ${N} ( x ) )` : `${N} ( x + f ( x ) )`);
}

const RESIDUAL_TEXT = ({ model }: LayerData): Message =>
  model.sublayer_norm
    ? { ko: "결과를 행마다 정규화한 뒤 입력 x에 더합니다 (잔차 연결).", en: "Each row of the result is normalized, then added to the input x (residual connection)." }
  : model.norm_first || model.sublayer_norm == null
    ? { ko: "결과를 입력 x에 더합니다 (잔차 연결).", en: "The result is added to the input x (residual connection)." }
    : { ko: "결과를 입력 x에 더하고 (잔차 연결) 행마다 정규화합니다.", en: "The result is added to the input x (residual connection) and each row is normalized." };

const LATER_POSITIONS: Readonly<Record<string, Message>> = {
  rotary: { ko: "위치는 더하지 않고, 나중에 쿼리와 키를 회전합니다.", en: "No positions are added: queries and keys are rotated later." },
  relative: { ko: "위치는 더하지 않고, 나중에 점수에 거리별 편향을 더합니다.", en: "No positions are added: a bias per distance is added to the scores later." },
  none: { ko: "이 모델에는 위치 인코딩이 없습니다.", en: "This model has no positional encoding." },
};

function hasSegments({ trace, side }: LayerData): boolean {
  return trace.has(`${side}.segments`);
}

function hasEmbeddingNorm({ trace, side }: LayerData): boolean {
  return trace.has(`parameters.${side}.embedding.norm.weight`);
}

/** What is done to the token embedding before the first layer. */
function addedTo(data: LayerData): Message {
  const [position, segment, norm] = [data.hasPositions, hasSegments(data), hasEmbeddingNorm(data)];
  return {
    ko: `${position ? " + 위치 임베딩" : ""}${segment ? " + 세그먼트 임베딩" : ""}${norm ? "을 정규화한 값" : ""}`,
    en: `${position ? " + position" : ""}${segment ? " + segment" : ""}${norm ? ", normalized," : ""}`,
  };
}

const bias = (exists: boolean | null | undefined, name: string) => (exists ? ["+", sub("b", name)] : []);

/** The factor of the token embedding; without a text if it is not known. */
function embeddingScale(scale: number | null | undefined): readonly [ko: string, en: string] {
  if (scale == null) return ["을 고릅니다", ""];
  if (scale === 1) return ["입니다. 이 모델은 √d를 곱하지 않습니다", "; this model does not multiply by √d"];
  return ["에 √d를 곱합니다 (3.4절)", ", multiplied by √d (section 3.4)"];
}

const POSITIONS: Readonly<Record<string, Message>> = {
  unknown: { ko: "위치 인코딩.", en: "The encoding of the position." },
  learned: { ko: "위치마다 학습된 표의 한 행.", en: "A row of a learned table for each position." },
};

export const STEP_TEXTS: Readonly<Record<StepId, StepText>> = {
  pieces: {
    title: { ko: "토큰화", en: "tokenization" },
    description: { ko: "문장을 어휘의 토큰으로 나눕니다.", en: "Sentences are split into tokens of the vocabulary." },
  },
  ids: {
    title: { ko: "토큰 ID + 패딩", en: "ids + padding" },
    description: { ko: "토큰을 ID로 바꾸고, 짧은 문장은 [PAD]로 채웁니다.", en: "Tokens become ids; short sentences are padded with [PAD]." },
  },
  embedding: {
    title: { ko: "임베딩", en: "embedding" },
    description: ({ model, hasPositions }) => {
      const later = hasPositions ? null : LATER_POSITIONS[model.positions];
      const [ko, en] = embeddingScale(model.embedding_scale);
      return {
        ko: `ID마다 임베딩 표 E의 한 행${ko}.${later ? ` ${later.ko}` : ""}`,
        en: `Each id selects a row of the embedding table E${en}.${later ? ` ${later.en}` : ""}`,
      };
    },
    formula: ({ model }) =>
      model.embedding_scale == null ? null : math(sub("x", "t"), "=", sub("E", sub("id", "t")), ...(model.embedding_scale === 1 ? [] : ["·", root("d")])),
  },
  positions: {
    title: { ko: "위치", en: "positions" },
    description: ({ model }) => POSITIONS[model.positions] ?? { ko: "위치의 사인·코사인 인코딩.", en: "The position, encoded as sines and cosines." },
    formula: ({ model: { positions } }) => {
      const [sine, cosine] = hasHalves(positions) ? ["i", "i + d / 2"] : ["2 i", "2 i + 1"];
      return positions.startsWith("sin") ? math(sub("PE", `p , ${sine}`), "= sin", frac("p", sup("10000", "2 i / d")), ",", sub("PE", `p , ${cosine}`), "= cos …") : null;
    },
  },
  sum: {
    title: { ko: "합", en: "sum" },
    description: (data) => {
      const { ko, en } = addedTo(data);
      return { ko: `토큰 임베딩${ko}이 첫 레이어의 입력입니다.`, en: `The token embedding${en} is the input of the first layer.` };
    },
    formula: (data) => {
      const sum = `x${data.hasPositions ? " + PE" : ""}${hasSegments(data) ? " + S" : ""}`;
      return math(hasEmbeddingNorm(data) ? `X = ${data.normName} ( ${sum} )` : `X = ${sum}`);
    },
  },
  input: {
    title: { ko: "입력", en: "input" },
    description: ({ part }) =>
      part === "cross_attention"
        ? { ko: "쿼리는 디코더에서, 키와 값은 인코더에서 계산합니다.", en: "Queries come from the decoder, keys and values from the encoder." }
        : { ko: "이전 레이어의 출력.", en: "The output of the previous layer." },
  },
  pre_norm: { title: NORM, description: { ko: "어텐션 앞에서 행마다 정규화합니다.", en: "Each row is normalized before the attention." }, formula: norm },
  project: {
    title: { ko: "W_Q W_K W_V", en: "W_Q W_K W_V" },
    description: { ko: "한 벡터의 세 투영: 찾는 것 Q, 찾아지는 이름 K, 전달할 내용 V.", en: "Three projections of one vector: what it looks for Q, how it is found K, what it provides V." },
    formula: () => math("Q = X", sub("W", "Q"), ", K = X", sub("W", "K"), ", V = X", sub("W", "V")),
    remark: { ko: "마트 비유: 쿼리 = 살 물건, 키 = 이름표, 값 = 상품.", en: "A market as an analogy: query = what to buy, key = label, value = goods." },
  },
  heads: {
    title: { ko: "헤드 분할", en: "split heads" },
    description: ({ block: { heads, key_heads } }) =>
      heads === key_heads
        ? { ko: "벡터를 헤드 수만큼 나눕니다; 값은 그대로입니다.", en: "Vectors are split into heads; the numbers do not change." }
        : {
            ko: `쿼리는 헤드 ${heads}개로, 키와 값은 ${key_heads}개로 나눕니다. 키 헤드 하나를 쿼리 헤드 ${heads / key_heads}개가 함께 씁니다 (grouped-query attention).`,
            en: `Queries are split into ${heads} heads, keys and values into ${key_heads}: each is shared by ${heads / key_heads} query heads (grouped-query attention).`,
          },
    formula: () => math(sub("Q", "h"), "= Q [ : , h · d : ( h + 1 ) · d ]"),
  },
  head_norm: {
    title: { ko: "Q·K 정규화", en: "norm of Q and K" },
    description: { ko: "헤드마다 쿼리와 키를 정규화합니다.", en: "The queries and keys of each head are normalized." },
    formula: norm,
  },
  rotate: {
    title: { ko: "회전 (RoPE)", en: "rotary" },
    description: { ko: "차원 쌍마다 위치 × 각도만큼 회전합니다.", en: "Each pair of dimensions is rotated by position × angle." },
    formula: () => math(sub("q", "i"), "cos p", sub("θ", "i"), "−", sub("q", "i + K / 2"), "sin p", sub("θ", "i")),
  },
  dot: {
    title: { ko: "QKᵀ", en: "QKᵀ" },
    description: { ko: "쿼리와 키의 내적: 클수록 잘 맞습니다.", en: "Dot products of queries and keys: larger means a better match." },
    formula: () => math("S = Q", sup("K", "T")),
    remark: { ko: "마트: 살 물건을 이름표와 비교합니다.", en: "The market: compare what to buy with each label." },
  },
  scale: {
    title: ({ scaling, block }) => {
      const factor = `×${formatFactor(block.scale)}`;
      return scaling === "1/√d" ? { ko: "÷√d", en: "÷√d" } : { ko: factor, en: factor };
    },
    description: ({ scaling, block }) =>
      scaling === "1"
        ? { ko: "이 모델은 √d로 나누지 않습니다.", en: "This model does not divide by √d." }
        : scaling === "other"
          ? { ko: `이 모델은 √d로 나누는 대신 ${formatFactor(block.scale)}${particle(formatFactor(block.scale), "을", "를")} 곱합니다.`, en: `This model multiplies by ${formatFactor(block.scale)} instead of dividing by √d.` }
          : { ko: "헤드 차원의 제곱근으로 나눕니다; 나누지 않으면 softmax가 한 키에 집중됩니다.", en: "Divided by the square root of the head dimension; otherwise the softmax saturates." },
    formula: (data) => math("S =", scores(data)),
  },
  bias: {
    title: { ko: "상대 위치 편향", en: "relative bias" },
    description: ({ model }) =>
      model.positions === "relative"
        ? { ko: "거리마다 학습된 편향을 더합니다.", en: "A learned bias for each distance is added." }
        : { ko: "토큰의 내용과 상대 위치 사이의 점수를 더합니다 (DeBERTa).", en: "The scores between the tokens and relative positions are added (DeBERTa)." },
    formula: (data) => math("S =", scores(data), "+", sub("B", "s − t")),
  },
  mask: {
    title: { ko: "마스크", en: "mask" },
    description: ({ block, window }) => ({
      ko: `[PAD]${block.causal ? ", 뒤의 토큰" : ""}${window === null ? "" : `, ${window}칸 이상 떨어진 토큰(이 레이어의 윈도 밖)`}의 점수는 −∞가 됩니다.`,
      en: `Scores of [PAD]${block.causal ? ", of later tokens" : ""}${window === null ? "" : `, of tokens ${window} or more positions away (outside the window of this layer)`} become −∞.`,
    }),
    formula: () => math("S + M , M ∈ { 0 , − ∞ }"),
    remark: { ko: "−∞ 대신 −1e9를 넣는 구현도 많습니다; 0을 넣으면 버그입니다.", en: "Many implementations fill in −1e9 instead of −∞; filling in 0 is a bug." },
  },
  softmax: {
    title: { ko: "softmax", en: "softmax" },
    description: { ko: "행마다 합이 1인 가중치로 바꿉니다.", en: "Each row becomes weights that sum to 1." },
    formula: () => math(sub("A", "t , s"), "=", frac(sup("e", sub("S", "t , s")), row(sub("Σ", "j"), sup("e", sub("S", "t , j"))))),
    remark: { ko: "마트: 이름표가 맞는 정도를 합이 1인 비율로 바꿉니다.", en: "The market: the match of each label as a fraction; the sum is 1." },
  },
  weighted_sum: {
    title: { ko: "·V", en: "·V" },
    description: { ko: "값 벡터의 가중합을 계산합니다.", en: "The weighted sum of the value vectors." },
    formula: () => math(sub("head", "h"), "= A V"),
    remark: { ko: "마트: 이름표가 맞는 만큼 상품(값)을 가져옵니다.", en: "The market: take goods (values) in proportion to the match." },
  },
  concat: {
    title: { ko: "헤드 결합", en: "concat" },
    description: { ko: "헤드의 출력을 이어 붙입니다.", en: "The outputs of the heads are concatenated." },
  },
  output: {
    title: { ko: "Linear", en: "Linear" },
    description: { ko: "W_O가 헤드의 출력을 섞습니다.", en: "W_O mixes the heads." },
    formula: () => math("Y = concat (", sub("head", "1"), ", … ,", sub("head", "H"), ")", sub("W", "O")),
  },
  add_attention: { title: ADD_NORM, description: RESIDUAL_TEXT, formula: addNorm },
  add_cross: {
    title: (data) => {
      const { ko, en } = ADD_NORM(data);
      return { ko: `교차 ${ko}`, en: `cross ${en}` };
    },
    description: RESIDUAL_TEXT,
    formula: addNorm,
    remark: { ko: "여기에 레이어의 입력을 더하는 것은 흔한 버그입니다.", en: "Adding the input of the layer here is a common bug." },
  },
  feed_forward_pre_norm: { title: NORM, description: { ko: "FFN 앞에서 행마다 정규화합니다.", en: "Each row is normalized before the FFN." }, formula: norm },
  feed_forward_up: {
    title: { ko: "FFN 첫 번째 선형층", en: "FFN: first layer" },
    description: ({ model }) => ({ ko: `위치마다 차원을 늘리고 활성화 함수 f를 적용합니다 (f = ${model.activation}).`, en: `Each position is projected to d_ff and passed through the activation f = ${model.activation}.` }),
    formula: ({ model }) => {
      if (model.bias == null) return null; // not known
      const map = (name: string) => ["( X", sub("W", name), ...bias(model.bias, name), ")"];
      return math("H = f", ...map("1"), ...(model.gated ? ["⊙", ...map("g")] : []));
    },
    remark: { ko: "Conv1d로 구현하면 축이 바뀌어 크기가 [B, d_ff, T]입니다.", en: "In a Conv1d implementation the shape is [B, d_ff, T], with the axes swapped." },
  },
  feed_forward_down: {
    title: { ko: "FFN 두 번째 선형층", en: "FFN: second layer" },
    description: { ko: "d_model 차원으로 되돌립니다.", en: "Projected back to d_model." },
    formula: ({ model }) => (model.bias == null ? null : math("Y = H", sub("W", "2"), ...bias(model.bias, "2"))),
  },
  add_feed_forward: { title: ADD_NORM, description: RESIDUAL_TEXT, formula: addNorm },
  final_norm: { title: { ko: "마지막 norm", en: "final norm" }, description: { ko: "마지막 레이어의 출력을 한 번 정규화합니다.", en: "The output of the last layer is normalized once." }, formula: norm },
};
