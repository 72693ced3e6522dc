/** Names of blocks, heads and checkpoints. */

import type { BlockName, Frame, HeadLocation } from "../trace/format";
import { type Message, t } from "../i18n/i18n";

export const BLOCKS: Readonly<Record<BlockName, Message>> = {
  encoder: { ko: "인코더", en: "encoder" },
  decoder: { ko: "디코더", en: "decoder" },
  cross: { ko: "교차", en: "cross" },
};

/** "L2 H5": layer and head, counted from 0. */
export function headName({ layer, head }: Pick<HeadLocation, "layer" | "head">): string {
  return `L${layer} H${head}`;
}

/** "step 400 · dev accuracy 0.8120". */
export function frameName({ step, metric, score }: Frame): string {
  const name = t({ ko: `${step}스텝`, en: `step ${step}` });
  if (score === null) return name;
  return `${name} · ${t({ ko: `검증 ${metric} ${score.toFixed(4)}`, en: `dev ${metric} ${score.toFixed(4)}` })}`;
}
