/** Blocks and heads by name. */

import type { BlockName, Place } from "../trace/format";
import type { Words } from "./words";

export const BLOCKS: Readonly<Record<BlockName, Words>> = {
  encoder: { ko: "인코더", en: "encoder" },
  decoder: { ko: "디코더", en: "decoder" },
  cross: { ko: "교차", en: "cross" },
};

/** "L2 H5": layer and head, counted from 0 as everywhere. */
export function headName({ layer, head }: Pick<Place, "layer" | "head">): string {
  return `L${layer} H${head}`;
}
