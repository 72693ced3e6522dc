/** What the tabs say of the views that come in scripts of their own (`parts.ts`). */

import type { ViewInfo } from "./view";

export const neuron: ViewInfo = {
  id: "neuron",
  title: { ko: "뉴런", en: "neuron" },
  description: {
    ko: "가중치 하나가 어떻게 나오는지: 질의 q와 키 k를 차원마다 곱해 더하고, 나누고, 가리고, softmax를 합니다.",
    en: "How a weight comes about: q and k multiplied dimension by dimension, summed, scaled, masked, softmax.",
  },
  supports: () => true,
  missing: {
    ko: "여기에는 이 층의 q와 k가 없습니다: 가중치만 남긴 기록이라 그 앞의 계산은 보일 수 없습니다.",
    en: "No q and k of this layer are here: weights alone were kept, so what came before them cannot be shown.",
  },
};

export const calculation: ViewInfo = {
  id: "calculation",
  title: { ko: "계산", en: "calculation" },
  description: {
    ko: "조각에서 층의 출력까지: 페이지가 기록된 수를 앞 걸음에서 다시 계산합니다.",
    en: "From pieces to a layer's output: the page computes each recorded number again.",
  },
  supports: (info) => info.blocks.some(({ d_head }) => d_head > 0),
  missing: {
    ko: "가중치만 남긴 기록이라 그 앞뒤의 계산은 보일 수 없습니다.",
    en: "Weights alone were kept: what came before and after them cannot be shown.",
  },
};

export const alignment: ViewInfo = {
  id: "alignment",
  title: { ko: "정렬", en: "alignment" },
  description: {
    ko: "행은 번역문, 열은 원문. 동그라미는 가장 큰 칸, 점선은 행마다 평균 자리, 아래 막대는 원문 토큰이 받은 주목의 합입니다.",
    en: "Rows: target; columns: source. Rings: largest cells; dashed: the mean place of each row; bars: what each source token received in all.",
  },
  supports: (info) => info.blocks.some(({ name }) => name === "cross"),
  missing: {
    ko: "정렬은 교차 주목에서 읽습니다. 인코더만 또는 디코더만 있는 모델에는 없습니다.",
    en: "Alignment is read from cross-attention; a model with an encoder or a decoder alone has none.",
  },
};

export const generation: ViewInfo = {
  id: "generation",
  title: { ko: "생성", en: "generation" },
  description: {
    ko: "글이 한 토큰씩 쓰입니다: 앞의 글, 그 걸음에서 본 곳, 후보의 확률(거르기 전과 후), 빔 나무, 캐시.",
    en: "The text is written token by token: what stood before, where the step looked, the candidates before and after the filters, the beam tree, the cache.",
  },
  supports: (info) => info.decoding !== null || Boolean(info.next && info.sides.target?.[0]),
  missing: {
    ko: "이 기록에는 글을 쓴 과정이 없습니다. 디코더가 있는 모델을 기록하면 보입니다.",
    en: "Nothing was written in this trace; record a model with a decoder.",
  },
};

export const positions: ViewInfo = {
  id: "positions",
  title: { ko: "위치", en: "positions" },
  description: {
    ko: "토큰이 어디에 있는지 적는 다섯 가지 생각과 (노트 002), 이 모델이 쓰는 것.",
    en: "Five ideas for saying where a token stands (note 002), and what this model does.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
};

export const masks: ViewInfo = {
  id: "masks",
  title: { ko: "가림", en: "masks" },
  description: {
    ko: "빗금은 가려진 칸; 아래는 가림 앞뒤의 점수와 가중치.",
    en: "Hatched cells are hidden; below, scores before and after, and the weights.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
};

export const explanation: ViewInfo = {
  id: "explanation",
  title: { ko: "설명", en: "explanation" },
  description: {
    ko: "낱말을 하나씩 지우고 다시 물었습니다. 수는 그 낱말이 확률에 더한 만큼입니다. 낱말을 누르면 지운 답이 나옵니다.",
    en: "Each word was deleted and the model asked again; a number is what its word adds to the probability. Press a word for the answer without it.",
  },
  supports: (info) => info.classification !== null,
  missing: { ko: "설명은 분류 모델의 기록에만 있습니다.", en: "Only traces of classifiers hold an explanation." },
};
