/** Replaying the decoding: the candidates of each step, the cache, and the scores that rank. */

import type { Beam, Candidate, Decoding, Step } from "../../trace/format";

export interface CandidateRow {
  readonly id: number;
  readonly piece: string;
  readonly before: number | null; // null: not in the top candidates
  readonly after: number | null;
  readonly forbidden: boolean;
  readonly chosen: boolean;
}

/** The candidates of a step by decreasing probability before the filters, each with its probability after them. */
export function candidateRows({ before, after, chosen }: Step): CandidateRow[] {
  const probabilityAfter = new Map(after.map((candidate) => [candidate.id, candidate.probability]));
  const probabilityBefore = new Map(before.map((candidate) => [candidate.id, candidate.probability]));
  const named: readonly Pick<Candidate, "id" | "piece">[] = [...(chosen ? [chosen] : []), ...after, ...before];
  const unique = new Map(named.map((each) => [each.id, each]));
  return [...unique.values()]
    .map(({ id, piece }) => ({
      id,
      piece,
      before: probabilityBefore.get(id) ?? null,
      after: probabilityAfter.get(id) ?? null,
      forbidden: probabilityAfter.get(id) === 0,
      chosen: id === chosen?.id,
    }))
    .sort((a, b) => (b.before ?? -1) - (a.before ?? -1) || (b.after ?? -1) - (a.after ?? -1));
}

/** The step in which each cache position was written, up to `step`; -1: not yet. One entry per position of the last step. */
export function cacheSteps(steps: readonly Step[], step: number): number[] {
  const ends = steps.map((each, i) => steps[i + 1]?.cache ?? each.cache + 1); // cache length after each step
  const count = Math.max(0, ...ends);
  return Array.from({ length: count }, (_, position) => {
    const at = ends.findIndex((end) => end > position);
    return at <= step ? at : -1;
  });
}

/** The divisor of the score of t tokens as a formula, as in `jumok.decoding.beam.length_norm`; null: finished hypotheses are ranked by the sum. */
export function normFormula({ method, settings }: Pick<Decoding, "method" | "settings">): string | null {
  const penalty = Number(settings.length_penalty ?? 0);
  if (method !== "beam" || !penalty) return null;
  const base = settings.length_norm === "gnmt" ? "((5 + t) / 6)" : "t";
  return penalty === 1 ? base : `${base}^${penalty}`;
}

/** The score that ranks a finished hypothesis: the sum of log-probabilities divided by the length norm; null: not finished, or ranked by the sum. */
export function rankingScore(decoding: Pick<Decoding, "method" | "settings">, { ended, score }: Pick<Beam, "ended" | "score">, step: number): number | null {
  if (!ended || !normFormula(decoding)) return null;
  const tokens = step + 1;
  const base = decoding.settings.length_norm === "gnmt" ? (5 + tokens) / 6 : tokens;
  return score / base ** Number(decoding.settings.length_penalty);
}
