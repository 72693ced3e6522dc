/** The decoding of a trace, as recorded or of given tokens, with readable pieces. */

import { NO_BYTES, pieceReader } from "../draw/text";
import type { Decoding, Sequence, Step, TraceInfo } from "./format";
import type { Trace } from "./trace";

/** The recorded decoding of a sequence; null if there is none. */
export function recordedDecoding(info: TraceInfo, sequence: number): Decoding | null {
  return (sequence === 0 ? info.decoding : info.more_decodings?.[sequence - 1]) ?? null;
}

/** The recorded decoding; without one, the given tokens with the predicted candidates (teacher forcing). */
export function decodingOf(info: TraceInfo, sequence: number): Decoding | null {
  const recorded = recordedDecoding(info, sequence);
  if (recorded) return recorded;
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
  return steps.length ? { method: "given", settings: {}, text: null, prompt: 1, steps, output: "" } : null;
}

/** The attention row that predicted the token of a step: the last token before it; negative: outside the window. */
export function rowOfStep({ prompt }: Pick<Decoding, "prompt">, step: number): number {
  return prompt - 1 + step;
}

/** The decoding with bytes decoded to characters: those of a candidate follow the bytes before it. */
export function readableDecoding(trace: Trace, sequence: number): Decoding | null {
  const decoding = decodingOf(trace.info, sequence);
  const target = trace.info.sides.target?.[sequence];
  return decoding && target ? readBytes(decoding, target) : decoding;
}

function readBytes(decoding: Decoding, target: Sequence): Decoding {
  const { steps } = decoding;
  const pieces = steps.flatMap(({ before, after, beams, chosen }) => [...before, ...after, ...beams, ...(chosen ? [chosen] : [])].map(({ piece }) => piece));
  const reader = pieceReader(target, pieces);
  let pending = target.pieces.slice(0, Math.max(rowOfStep(decoding, 0) + 1, 0)).reduce((bytes, piece) => reader.pending(piece, bytes), NO_BYTES);
  const after = new Map([[0, pending]]); // the incomplete bytes after each hypothesis
  return {
    ...decoding,
    steps: steps.map((step) => {
      const read = <T extends { readonly piece: string }>(each: T, bytes = pending): T => ({ ...each, piece: reader.text(each.piece, bytes) });
      const beams = step.beams.map((beam) => {
        const bytes = after.get(beam.parent) ?? NO_BYTES;
        after.set(beam.id, reader.pending(beam.piece, bytes));
        return read(beam, bytes);
      });
      const decoded = { ...step, beams, before: step.before.map((each) => read(each)), after: step.after.map((each) => read(each)), chosen: step.chosen && read(step.chosen) };
      if (step.chosen) pending = reader.pending(step.chosen.piece, pending);
      return decoded;
    }),
  };
}
