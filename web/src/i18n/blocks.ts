/** Names of blocks and heads. */

import type { BlockName, HeadLocation } from "../trace/format";
import type { Message } from "../i18n/i18n";

export const BLOCKS: Readonly<Record<BlockName, Message>> = {
  encoder: { ko: "인코더", en: "encoder" },
  decoder: { ko: "디코더", en: "decoder" },
  cross: { ko: "교차", en: "cross" },
};

/** "L2 H5": layer and head, counted from 0. */
export function headName({ layer, head }: Pick<HeadLocation, "layer" | "head">): string {
  return `L${layer} H${head}`;
}
