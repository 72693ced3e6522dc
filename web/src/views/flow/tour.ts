/** The guided tour: the stages of figure 1 in the order in which they are computed, a paragraph each. */

import type { Message } from "../../i18n/i18n";
import type { TraceInfo } from "../../trace/format";
import { type Column, type Flow, momentsOf } from "./flowData";
import { addsPositions, type FlowLayout } from "./layout";

export interface Stage {
  readonly moment: number; // the last one that is drawn
  readonly title: Message;
  readonly text: Message;
}

/** The stages of a model: each kind of sublayer of each side once, in the first layer that is drawn in full. */
export function stagesOf(flow: Flow, info: TraceInfo, { stacks }: FlowLayout): readonly Stage[] {
  const moments = momentsOf(flow);
  const seen = new Set<string>();
  return moments.flatMap(({ side, column }, moment) => {
    const at = flow.sides[side].columns[column];
    const stages: Stage[] = [];
    const key = `${side} ${at.kind}`;
    if (!seen.has(key) && stacks[side].parts[column].expanded) {
      stages.push({ moment, ...describe(at, flow, info) });
      seen.add(key);
    }
    const isMemory = flow.sides.length > 1 && side === 0 && moments[moment + 1]?.side === 1;
    if (isMemory) stages.push({ moment, ...memory(info) });
    return stages;
  });
}

/** The stage of a moment of the replay: of the same sublayer of an earlier layer. */
export function stageAt(stages: readonly Stage[], flow: Flow, moment: number): number {
  const moments = momentsOf(flow);
  const of = (at: number) => {
    const { side, column } = moments[at];
    return `${side} ${flow.sides[side].columns[column].kind}`;
  };
  const wanted = of(moment);
  return Math.max(0, stages.findIndex((stage) => of(stage.moment) === wanted));
}

/** The whole picture, before the first stage. */
export function overview({ model, blocks, sides }: TraceInfo): Pick<Stage, "title" | "text"> {
  const shape = blocks.map(({ name, layers, heads }) => ({ name, layers, heads }));
  const [first] = shape;
  const size = { ko: `레이어 ${first.layers}개, 레이어마다 헤드 ${first.heads}개`, en: `${first.layers} layers of ${first.heads} heads` };
  const width = model.d_model ? { ko: `, d_model = ${model.d_model}`, en: `, d_model = ${model.d_model}` } : { ko: "", en: "" };
  const read: Message = {
    ko: "아래에서 위로 계산하고, 곡선은 선택한 토큰이 읽는 토큰입니다. 다른 토큰이나 레이어를 클릭해 보세요.",
    en: "Read it from the bottom to the top; curves show what the chosen token attends to. Click another token or layer.",
  };
  if (sides.source && sides.target)
    return {
      title: { ko: "트랜스포머 전체", en: "The whole Transformer" },
      text: {
        ko: `논문의 그림 1을 이 모델의 실제 수치로 그렸습니다(${size.ko}${width.ko}). 왼쪽은 인코더, 오른쪽은 디코더입니다. ${read.ko}`,
        en: `Figure 1 of the paper with the numbers of this model (${size.en}${width.en}): the encoder on the left, the decoder on the right. ${read.en}`,
      },
    };
  const half = sides.target ? { ko: "디코더", en: "decoder" } : { ko: "인코더", en: "encoder" };
  return {
    title: { ko: `${half.ko} 전체`, en: `The whole ${half.en}` },
    text: {
      ko: `논문의 그림 1에서 ${half.ko}만 있는 모델입니다(${size.ko}${width.ko}). ${read.ko}`,
      en: `The ${half.en} half of figure 1 of the paper (${size.en}${width.en}). ${read.en}`,
    },
  };
}

function memory({ blocks }: TraceInfo): Pick<Stage, "title" | "text"> {
  const layers = blocks.find(({ name }) => name === "encoder")?.layers ?? 1;
  return {
    title: { ko: "인코더의 출력: 키와 값", en: "The encoder's output: keys and values" },
    text: {
      ko: `레이어 ${layers}개를 모두 지난 인코더의 출력입니다. 디코더의 모든 레이어가 이 출력에서 키 K와 값 V를 계산합니다(주황색 선). 중간 레이어의 출력은 디코더로 가지 않습니다.`,
      en: `The output of the encoder after all of its ${layers} layers. Every layer of the decoder computes its keys K and values V from it (orange lines); the outputs of the layers before do not reach the decoder.`,
    },
  };
}

function describe({ kind, side, block }: Column, flow: Flow, info: TraceInfo): Pick<Stage, "title" | "text"> {
  const { model, blocks } = info;
  const isTarget = side === "target";
  const both = flow.sides.length > 1;
  const count = flow.sides.find((each) => each.side === side)?.tokens.length ?? 0;
  const causal = blocks.some(({ name, causal }) => name === block && causal);
  const norm = model.norm_first
    ? { ko: "이 모델은 계산하기 전에 정규화하고(Norm), 결과를 잔차 흐름에 더합니다(Add).", en: "This model normalizes before it computes (Norm) and adds the result to the residual stream (Add)." }
    : { ko: "결과를 잔차 흐름에 더한 뒤 정규화합니다(Add & Norm). 원의 넓이는 더한 벡터의 크기입니다.", en: "The result is added to the residual stream, which is then normalized (Add & Norm); the area of a circle is the norm of what is added." };
  switch (kind) {
    case "tokens":
      return isTarget && both
        ? {
            title: { ko: "출력 토큰 (한 칸 밀림)", en: "Output tokens, shifted right" },
            text: { ko: `디코더의 입력은 지금까지의 출력 ${count}토큰입니다. [BOS]로 시작하므로, 각 열은 위쪽에서 바로 다음 토큰을 예측합니다.`, en: `The decoder reads the output so far, ${count} tokens. It begins with [BOS], so that each column predicts, at the top, the token that follows it.` },
          }
        : {
            title: { ko: "토큰", en: "tokens" },
            text: { ko: `텍스트를 토큰 ${count}개로 나눕니다. 열 하나가 토큰 하나이고, 위로 올라가며 벡터가 바뀝니다.`, en: `The text is split into ${count} tokens. Each column is a token; its vector changes on the way up.` },
          };
    case "embedding":
      return addsPositions(model)
        ? {
            title: { ko: "임베딩과 위치 인코딩", en: "Embedding and positional encoding" },
            text: { ko: `토큰마다 임베딩 표에서 ${model.d_model}차원 벡터를 꺼내고 위치 인코딩을 더합니다(⊕). 어텐션만으로는 토큰의 순서를 구별할 수 없기 때문입니다.`, en: `Each token takes its vector of ${model.d_model} numbers from the embedding table, and the positional encoding is added (⊕): attention alone cannot distinguish the order of the tokens.` },
          }
        : {
            title: { ko: "임베딩", en: "Embedding" },
            text: { ko: `토큰마다 임베딩 표에서 ${model.d_model}차원 벡터를 꺼냅니다. 이 모델은 위치를 여기서 더하지 않고 어텐션 안에서 나타냅니다.`, en: `Each token takes its vector of ${model.d_model} numbers from the embedding table. This model adds no positions here; they are represented inside of the attention.` },
          };
    case "attention":
      return causal
        ? {
            title: { ko: "마스크드 멀티 헤드 셀프 어텐션", en: "Masked multi-head self-attention" },
            text: { ko: `토큰마다 자신과 앞의 토큰만 읽습니다. 뒤의 토큰은 아직 생성되지 않았으므로 마스크로 가립니다. ${norm.ko}`, en: `Each token attends to itself and to the tokens before it; those after it are masked, because they are not generated yet. ${norm.en}` },
          }
        : {
            title: { ko: "멀티 헤드 셀프 어텐션", en: "Multi-head self-attention" },
            text: { ko: `토큰마다 모든 토큰의 값을 가중합합니다. 가중치는 쿼리와 키의 내적에 softmax를 적용한 것이고, 헤드마다 다릅니다(옆의 작은 사각형). ${norm.ko}`, en: `Each token computes a weighted sum of the values of all tokens. The weights are the softmax of the dot products of queries and keys, and differ by head (the small squares). ${norm.en}` },
          };
    case "cross":
      return {
        title: { ko: "교차 어텐션", en: "Cross-attention" },
        text: { ko: `쿼리 Q는 디코더에서, 키 K와 값 V는 인코더의 출력에서 옵니다. 주황색 곡선은 선택한 토큰이 다음 토큰을 예측하며 읽는 입력 토큰입니다. ${norm.ko}`, en: `The queries Q come from the decoder, the keys K and values V from the output of the encoder. Orange curves: the input tokens that the chosen token reads to predict the next one. ${norm.en}` },
      };
    case "feed_forward":
      return {
        title: { ko: "피드포워드 (feed-forward)", en: "Position-wise feed-forward" },
        text: { ko: `토큰마다 따로, 같은 선형층 두 개를 계산합니다${model.d_ff ? ` (${model.d_model} → ${model.d_ff} → ${model.d_model})` : ""}. 토큰끼리는 정보를 주고받지 않습니다. ${norm.ko}`, en: `The same two linear layers for each token alone${model.d_ff ? ` (${model.d_model} → ${model.d_ff} → ${model.d_model})` : ""}; tokens do not exchange information here. ${norm.en}` },
      };
    case "lens":
      return {
        title: { ko: "로짓 렌즈", en: "Logit lens" },
        text: { ko: "모델이 이 레이어에서 끝난다면 예측할 토큰입니다(nostalgebraist 2020). 굵은 글자는 최종 예측과 같습니다. 논문의 그림에는 없습니다.", en: "What the model would predict if it ended after this layer (nostalgebraist 2020); bold where it is the final prediction. Not part of the paper's figure." },
      };
    default:
      return info.classification || info.regression
        ? {
            title: { ko: "출력", en: "output" },
            text: { ko: "마지막 레이어의 벡터를 하나로 모아 분류층이 답을 계산합니다.", en: "The vectors of the last layer are pooled to one, from which the classifier computes the answer." },
          }
        : {
            title: { ko: "출력", en: "output" },
            text: { ko: "선형층이 벡터마다 어휘 전체의 점수를 계산하고 softmax가 확률로 바꿉니다. 생성할 때는 고른 토큰을 디코더 입력 뒤에 붙이고 다시 계산합니다.", en: "A linear layer computes a score for every token of the vocabulary, and softmax turns the scores into probabilities. In generation, the chosen token is appended to the decoder's input, and the computation is repeated." },
          };
  }
}
