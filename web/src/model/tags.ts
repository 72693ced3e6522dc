/** From the logits of pieces to the entities of a text: jumok/tasks/inputs/bio.py and token_classification.py. */

import type { Span } from "./spans";
import { isBlank } from "./warnings";

/** A span of a text with its type; `start` and `end` count characters (code points). */
export interface Entity {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

const OUTSIDE = "O";

/** The entities of a text, from log p of the tags of its pieces. */
export function entitiesOf(text: string, spans: readonly Span[], logP: readonly (readonly number[])[], labels: readonly string[]): Entity[] {
  const covering = spans.flatMap(([start, end], i) => (start < end ? [i] : []));
  const best = viterbi(covering.map((i) => logP[i]), labels);
  const characters = [...text];
  const tags = characterTags(best.map((label) => labels[label]), covering.map((i) => spans[i]), characters);
  const found: Entity[] = [];
  let [kind, start] = ["", 0];
  [...tags, OUTSIDE].forEach((tag, i) => {
    if (kind && tag !== `I-${kind}`) {
      found.push({ type: kind, start, end: i, text: characters.slice(start, i).join("") });
      kind = "";
    }
    if (tag.startsWith("B-")) [kind, start] = [tag.slice(2), i];
  });
  return found;
}

/** The valid sequence of tags with the largest sum of log p: I-X only follows B-X and I-X. */
export function viterbi(logP: readonly (readonly number[])[], labels: readonly string[]): number[] {
  if (!logP.length) return [];
  const isInside = labels.map((label) => label.startsWith("I-"));
  const kinds = labels.map((label) => label.slice(2));
  let best = logP[0].map((value, label) => (isInside[label] ? Number.NEGATIVE_INFINITY : value));
  const back: number[][] = [];
  for (const row of logP.slice(1)) {
    const from = labels.map((_, to) => {
      const allowed = best.map((value, old) => (isInside[to] && kinds[old] !== kinds[to] ? Number.NEGATIVE_INFINITY : value));
      return allowed.indexOf(Math.max(...allowed));
    });
    best = row.map((value, to) => (isInside[to] && kinds[from[to]] !== kinds[to] ? Number.NEGATIVE_INFINITY : best[from[to]]) + value);
    back.push(from);
  }
  const path = [best.indexOf(Math.max(...best))];
  for (const from of back.reverse()) path.push(from[path[path.length - 1]]);
  return path.reverse();
}

/** The tag of each character from those of the pieces; an entity never starts with a space. */
export function characterTags(tags: readonly string[], spans: readonly Span[], characters: readonly string[]): string[] {
  const found: string[] = characters.map(() => OUTSIDE);
  let [postponed, kind, end] = ["", "", 0]; // the type of an entity that a piece of spaces would start; of the last piece
  tags.forEach((given, i) => {
    let [tag, start, stop] = [given, ...spans[i]];
    const begins = tag.startsWith("B-") || (postponed && tag === `I-${postponed}`);
    postponed = "";
    if (tag === OUTSIDE) {
      kind = "";
      return;
    }
    if (begins) {
      while (start < stop && isBlank(characters[start])) start++;
      if (start === stop) {
        [postponed, kind] = [tag.slice(2), ""];
        return;
      }
      found.fill(`I-${tag.slice(2)}`, start, stop);
      found[start] = tag = `B-${tag.slice(2)}`;
    } else found.fill(tag, kind === tag.slice(2) ? (start = end) : start, stop);
    [kind, end] = [tag.slice(2), Math.max(start, stop)];
  });
  return found;
}
