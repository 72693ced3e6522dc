/** The contribution of a word to a label: the probability of the label minus its probability without the word. */

import type { Classification, Sequence } from "../../trace/format";

type Explained = Classification["sequences"][number];

export function argmax(probabilities: readonly number[]): number {
  return probabilities.indexOf(Math.max(...probabilities));
}

/** p(label) − p(label without the word), for each word. */
export function wordContributions(explained: Explained, label: number): number[] {
  return explained.words.map((word) => explained.probabilities[label] - word.without[label]);
}

export interface TextPart {
  readonly text: string;
  readonly word: number; // -1: between words
  readonly read: boolean; // false: a part of a text that is longer than the model's max_length
}

/**
 * The text split at the words, and where the model stopped reading; spans count code points, and overlapping words are
 * split where the first ends.
 */
export function textParts(source: Pick<Sequence, "text" | "spans" | "special" | "truncated">, words: Explained["words"]): TextPart[] {
  const points = Array.from(source.text);
  const isRead = charactersRead(source, points);
  const result: TextPart[] = [];
  const push = (from: number, to: number, word: number) => {
    for (let start = from, end = from; start < to; start = end) {
      while (end < to && (word >= 0 || isRead[end] === isRead[start])) end++;
      result.push({ text: points.slice(start, end).join(""), word, read: word >= 0 || isRead[start] });
    }
  };
  let end = 0;
  for (const [span, word] of words.map((each, i) => [each.span, i] as const).sort(([a], [b]) => a[0] - b[0])) {
    push(end, span[0], -1);
    push(Math.max(end, span[0]), span[1], word);
    end = Math.max(end, span[1]);
  }
  push(end, points.length, -1);
  return result;
}

/** Which characters the model read: of a truncated text, those up to its last piece, in each text of a pair. */
function charactersRead({ spans, special, truncated }: Pick<Sequence, "spans" | "special" | "truncated">, points: readonly string[]): boolean[] {
  if (!truncated) return points.map(() => true);
  const tab = points.indexOf("\t");
  const textOf = (at: number) => (tab >= 0 && at > tab ? 1 : 0);
  const ends = [0, 0];
  spans.forEach(([from, to], i) => {
    if (!special[i] && to > from) ends[textOf(from)] = Math.max(ends[textOf(from)], to);
  });
  return points.map((point, i) => i < ends[textOf(i)] || point === "\t");
}

/** The text without a word and the blanks after it; at the end of a text (also of the first of a pair), without the blanks before it. */
export function withoutWord(text: string, [from, to]: readonly [number, number]): string {
  const points = Array.from(text);
  const blank = (i: number) => /^[^\S\t]$/.test(points[i] ?? "");
  while (blank(to)) to++;
  if (to === points.length || points[to] === "\t") while (blank(from - 1)) from--;
  return points.slice(0, from).concat(points.slice(to)).join("");
}

/** A number with its sign, with a true minus sign. */
export function signed(value: number, digits = 3): string {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return text;
  return (value < 0 ? "\u2212" : "+") + text;
}
