/** The characters of a text that its pieces cover, in code points: jumok/text/offsets.py. */

import type { Piece } from "./algorithm";

export type Span = readonly [number, number];

const SPACE = "▁"; // a space in pieces of SentencePiece

/** The characters of a text for each character that the pieces spell, by their decompositions; null if they spell another text. */
export function aligned(text: string, spelled: string): readonly Span[] | null {
  const [given, found] = [owners(text), owners(spelled)];
  const inserted = found.length - given.length; // the space before the text
  if (inserted !== 0 && inserted !== 1) return null;
  if (spelled.normalize("NFD") !== " ".repeat(inserted) + text.normalize("NFD")) return null;
  const spans: Span[] = Array.from(spelled, () => [0, 0]);
  given.forEach((at, i) => {
    const own = found[i + inserted];
    const [begin, end] = spans[own];
    spans[own] = [end ? begin : at, at + 1];
  });
  return spans;
}

/** The span of each piece, empty for a space before the text. Throws for a tokenizer that rewrites the text. */
export function exactSpans(text: string, pieces: readonly Piece[]): Span[] {
  const spelled = pieces.map(({ piece }) => piece).join("").replaceAll(SPACE, " ");
  const own = pieces[0]?.span ? null : aligned(text.replaceAll(SPACE, " "), spelled);
  if (!own && !pieces.every(({ span }) => span)) throw new Error("the tokenizer rewrites this text, so its pieces have no place in it; change the text");
  let start = 0;
  return pieces.map(({ piece, span }) => {
    if (span) return span;
    const covered = own!.slice(start, (start += [...piece].length));
    return [covered[0][0], covered[covered.length - 1][1]];
  });
}

/** For each character of the decomposed text, the number of its character in the text. */
function owners(text: string): number[] {
  return [...text].flatMap((each, i) => Array.from(each.normalize("NFD"), () => i));
}
