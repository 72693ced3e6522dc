/** The contribution of a word to a label: the probability of the label minus its probability without the word. */

import type { Classification } from "../../trace/format";

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
}

/** The text split at the words; spans count code points, and overlapping words are split where the first ends. */
export function textParts(text: string, words: Explained["words"]): TextPart[] {
  const points = Array.from(text);
  const result: TextPart[] = [];
  const push = (from: number, to: number, word: number) => {
    if (to > from) result.push({ text: points.slice(from, to).join(""), word });
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
