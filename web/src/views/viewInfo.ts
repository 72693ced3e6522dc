/** The tabs of the views that are in bundles. */

import type { ViewInfo } from "./view";

export const flow: ViewInfo = {
  id: "flow",
  title: { ko: "흐름", en: "flow" },
  description: {
    ko: "모델 전체: 논문의 그림 1을 이 트레이스의 레이어, 헤드, 어텐션으로 그렸습니다.",
    en: "The whole model: figure 1 of the paper with the layers, heads and attention of this trace.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
};

export const neuron: ViewInfo = {
  id: "neuron",
  title: { ko: "뉴런", en: "neuron" },
  description: {
    ko: "가중치 하나의 계산 과정: 쿼리 q와 키 k를 차원마다 곱해 더하고, 스케일과 마스크를 적용한 뒤 softmax를 계산합니다.",
    en: "The computation of a weight: q and k multiplied by dimension, summed, scaled, masked, softmax.",
  },
  supports: () => true,
  missing: {
    ko: "이 레이어의 q와 k가 트레이스에 없습니다: 가중치만 기록되어 그 앞의 계산을 표시할 수 없습니다.",
    en: "This trace has no q and k of this layer: only weights were recorded, so their computation cannot be shown.",
  },
};

export const calculation: ViewInfo = {
  id: "calculation",
  title: { ko: "계산", en: "calculation" },
  description: {
    ko: "토큰화부터 레이어의 출력까지: 페이지가 기록된 수치를 단계마다 다시 계산합니다.",
    en: "From tokenization to the output of a layer: the page recomputes every recorded number.",
  },
  supports: (info) => info.blocks.some(({ d_head }) => d_head > 0),
  missing: {
    ko: "가중치만 기록된 트레이스라 앞뒤의 계산을 표시할 수 없습니다. jumok.trace로 모델을 다시 트레이스하면 모두 기록됩니다.",
    en: "Only weights were recorded, so the computation before and after them cannot be shown. Trace the model with jumok.trace, which records everything.",
  },
};

export const alignment: ViewInfo = {
  id: "alignment",
  title: { ko: "정렬", en: "alignment" },
  description: {
    ko: "행은 출력, 열은 입력. 동그라미는 최댓값, 점선은 행마다 평균 위치, 아래 막대는 입력 토큰이 받은 어텐션의 합입니다.",
    en: "Rows: output; columns: input. Rings: maxima; dashed line: mean position of a row; bars: attention that an input token receives.",
  },
  supports: (info) => info.blocks.some(({ name }) => name === "cross"),
  missing: {
    ko: "정렬은 교차 어텐션에서 계산하는데, 인코더나 디코더만 있는 모델에는 교차 어텐션이 없습니다. 선과 행렬 보기가 셀프 어텐션을 보여 줍니다. 번역 모델을 열려면 jumok view note \"겨울은 추워요.\"",
    en: "Alignment is computed from cross-attention, which encoder-only and decoder-only models do not have. The views lines and matrix show their self-attention; or open a translator: jumok view note TEXT.",
  },
};

export const generation: ViewInfo = {
  id: "generation",
  title: { ko: "생성", en: "generation" },
  description: {
    ko: "디코딩 과정: 앞의 텍스트, 단계별 어텐션, 후보의 확률(필터 전과 후), 빔 트리, KV 캐시.",
    en: "The decoding step by step: the text so far, the attention, the candidates before and after the filters, the beam tree, the KV cache.",
  },
  supports: (info) => info.decoding !== null || Boolean(info.next && info.sides.target?.[0]),
  missing: {
    ko: "이 트레이스에는 디코딩이 없습니다. 생성하는 모델을 여세요: jumok view note \"겨울은 추워요.\"",
    en: "This trace contains no decoding. Open a model that generates: jumok view note TEXT.",
  },
};

export const positions: ViewInfo = {
  id: "positions",
  title: { ko: "위치", en: "positions" },
  description: {
    ko: "위치를 인코딩하는 다섯 가지 방법과 이 모델의 방법.",
    en: "Five ways to encode positions, and the one this model uses.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
};

export const masks: ViewInfo = {
  id: "masks",
  title: { ko: "마스크", en: "masks" },
  description: {
    ko: "빗금은 마스크된 셀; 아래는 마스크 전후의 점수와 가중치입니다.",
    en: "Hatched cells are masked; below, scores before and after the mask, and the weights.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
};

export const explanation: ViewInfo = {
  id: "explanation",
  title: { ko: "설명", en: "explanation" },
  description: {
    ko: "단어를 하나씩 삭제하고 다시 예측했습니다. 숫자는 확률에 대한 그 단어의 기여도입니다. 단어를 클릭하면 삭제했을 때의 예측이 표시됩니다.",
    en: "Each word was deleted and the prediction repeated; a number is the contribution of its word to the probability. Click a word for the prediction without it.",
  },
  supports: (info) => info.classification !== null,
  missing: {
    ko: "설명은 분류 모델에만 있습니다. 분류 모델을 학습해 여세요: jumok train nsmc, 그다음 jumok view runs/nsmc \"이 영화 정말 재미있어요\". 이 모델에서는 정렬, 흐름, 헤드 보기가 입력의 어느 부분을 읽었는지 보여 줍니다.",
    en: "Only classifiers have an explanation. Train one and open it: jumok train nsmc, then jumok view runs/nsmc TEXT. For this model, the views flow, alignment and heads show what of the input was read.",
  },
};

export const circuit: ViewInfo = {
  id: "circuit",
  title: { ko: "회로", en: "circuit" },
  description: {
    ko: "아래에서 위로 토큰, 레이어의 특징, 로짓. 선은 한 노드가 다른 노드에 더하거나(파랑) 빼는(빨강 점선) 값입니다.",
    en: "Bottom to top: tokens, features of the layers, logits. Lines: what a node adds to another (blue) or subtracts (red, dashed).",
  },
  supports: (info) => Boolean(info.circuit),
  missing: {
    ko: "이 트레이스에는 회로가 없습니다: jumok circuit note --train, 그다음 jumok circuit note \"겨울은 추워요.\" --to circuit.html",
    en: "This trace has no circuit: jumok circuit note --train, then jumok circuit note TEXT --to circuit.html.",
  },
  optional: true,
};

export const compare: ViewInfo = {
  id: "compare",
  title: { ko: "비교", en: "compare" },
  description: {
    ko: "A | B | B − A: 다른 문장, 끈 헤드, 고친 단어, 다른 체크포인트, 또는 두 헤드의 가중치와 답을 비교합니다.",
    en: "A | B | B − A: weights and answer for another sentence, a muted head, an edited word, another checkpoint, or two heads.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
};

export const heads: ViewInfo = {
  id: "heads",
  title: { ko: "헤드", en: "heads" },
  description: {
    ko: "모든 헤드: 크게 그린 헤드 맵, 헤드마다 답에 주는 효과, 패턴 점수로 정렬하고 찾는 표.",
    en: "All heads: the map at full size, the effect of each head on the answer, and a table to sort and search by pattern.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
};
