/** The lines of the library that computed a step of this model, selected by its config. */

import type { LayerData } from "./layerData";
import sources from "./sources.json";
import type { StepId } from "./steps";

export interface SourceLines {
  readonly file: string;
  readonly line: number; // of the first
  readonly code: string;
}

type SourceName = keyof typeof sources;

/** The lines of a step; of a step with several matrices, those of the named one. Null if code other than jumok's computed it. */
export function sourceOf(step: StepId, data: LayerData, matrix?: string): SourceLines | null {
  if (data.model.implementation !== "jumok") return null;
  const name = nameOf(step, data, matrix);
  return name && sources[name];
}

function nameOf(step: StepId, data: LayerData, matrix: string | undefined): SourceName | null {
  const { model, block } = data;
  switch (step) {
    case "pieces":
      return data.isGenerated || !model.tokenizer ? null : `pieces.${model.tokenizer}`;
    case "positions":
      return model.positions === "learned" ? "positions.learned" : "positions";
    case "sum":
      if (data.hasPositions) return "sum";
      return data.trace.has(`${data.side}.segments`) ? "sum.segments" : "sum.norm";
    case "project":
    case "head_norm":
      if (data.part === "self_attention") return "project.self";
      return matrix === "Q" ? "project.query" : "project";
    case "bias":
      if (model.positions === "unknown") return null; // of an extension
      return model.positions === "relative" ? "bias" : "bias.disentangled";
    case "mask":
      if (data.window !== null) return "mask.window";
      return block.causal && data.queries.pieces.length > 1 ? "mask.causal" : "mask";
    case "add_attention":
      return model.norm_first ? "add_attention.pre_norm" : "add_attention";
    case "feed_forward_up":
      return model.gated ? "feed_forward_up.gated" : "feed_forward_up";
    case "feed_forward_down":
      return model.gated ? "feed_forward_down.gated" : "feed_forward_down";
    default:
      return step;
  }
}
