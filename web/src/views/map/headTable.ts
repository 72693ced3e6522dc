/** All heads of a trace with their scores, sorted and searched. */

import { PATTERNS, type Pattern, patternScores } from "../../trace/headPatterns";
import type { BlockName } from "../../trace/format";
import type { Matrix } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import { changeOf, type Effects } from "./effects";

export type Column = "head" | "entropy" | "effect" | Pattern;

export interface HeadRow {
  readonly block: BlockName;
  readonly layer: number;
  readonly head: number;
  /** Null: not recorded or not measured. */
  readonly scores: Readonly<Record<Exclude<Column, "head">, number | null>>;
}

/** The scores of all heads on one sequence, without their effects. */
export async function loadRows(trace: Trace, sequence: number): Promise<readonly HeadRow[]> {
  const rows: HeadRow[] = [];
  for (const block of trace.info.blocks) {
    const entropy = await trace.entropy(block.name, sequence);
    const byPattern: Matrix[] = [];
    for (const pattern of PATTERNS) byPattern.push(await patternScores(trace, block, sequence, pattern));
    for (let layer = 0; layer < block.layers; layer++)
      for (let head = 0; head < block.heads; head++) {
        const at = layer * block.heads + head;
        const scores = Object.fromEntries(PATTERNS.map((pattern, i) => [pattern, byPattern[i].data[at]]));
        rows.push({ block: block.name, layer, head, scores: { ...scores, entropy: entropy?.data[at] ?? null, effect: null } as HeadRow["scores"] });
      }
  }
  return rows;
}

export function withEffects(rows: readonly HeadRow[], effects: Effects | null): readonly HeadRow[] {
  if (!effects) return rows;
  return rows.map((row) => ({ ...row, scores: { ...row.scores, effect: changeOf(effects, row.block, row.layer, row.head) } }));
}

/** The rows with at least `least` in a column (an effect: of either sign), largest first; "head": all, in the order of the model. Low entropy is focused, so it comes first and `least` is the most. */
export function selectRows(rows: readonly HeadRow[], by: Column, least: number): readonly HeadRow[] {
  if (by === "head") return rows;
  const score = ({ scores }: HeadRow) => {
    const value = scores[by];
    if (value === null) return -Infinity;
    return by === "effect" ? Math.abs(value) : by === "entropy" ? -value : value;
  };
  const found = by === "entropy" ? rows.filter(({ scores }) => least === 0 || (scores.entropy ?? Infinity) <= least) : rows.filter((row) => score(row) >= least || least === 0);
  return [...found].sort((a, b) => score(b) - score(a));
}
