/** Replaying the decoding: the context and the candidates of each step. */

import type { Beam, Candidate, Decoding, Step, TraceInfo } from "../../trace/format";

/** The recorded decoding; without one, the given tokens with the predicted candidates (teacher forcing). */
export function decodingOf(info: TraceInfo, sequence: number): Decoding | null {
  if (info.decoding) return info.decoding;
  const target = info.sides.target?.[sequence];
  if (!info.next || sequence > 0 || !target) return null; // `next` is recorded for the first sequence only
  const count = target.real.filter(Boolean).length;
  const steps = Array.from({ length: count - 1 }, (_, t): Step => {
    const given = info.next?.[t].find(({ id }) => id === target.ids[t + 1]);
    return {
      cache: t,
      before: info.next?.[t] ?? [],
      after: [],
      chosen: {
        id: target.ids[t + 1],
        piece: target.pieces[t + 1],
        log_probability: given ? Math.log(given.probability) : Number.NaN,
      },
      beams: [],
    };
  });
  return steps.length ? { method: "given", settings: {}, prompt: 1, steps, output: "" } : null;
}

/** The attention row that predicted the token of a step: the last token before it; negative: outside the window. */
export function rowOfStep({ prompt }: Pick<Decoding, "prompt">, step: number): number {
  return prompt - 1 + step;
}

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
