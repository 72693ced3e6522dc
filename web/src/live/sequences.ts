/** The tokens of a trace with their spans and words in the text: jumok/interpret/tokens.py for SentencePiece. */

import type { Sequence } from "../trace/format";
import { aligned, type Span } from "../model/spans";
import type { Tokenizer } from "../model/tokenizer";

const SPACE = "▁";

/** The input of an encoder, or of a decoder whose target is given: special tokens have empty spans. */
export function textSequence(text: string, tokenizer: Tokenizer, before: readonly number[], after: readonly number[], most: number): Sequence {
  const all = tokenizer.encodeWithPieces(text);
  const room = Math.max(0, most - before.length - after.length);
  const kept = all.slice(0, room);
  const spans = pieceSpans(text, all).slice(0, room);
  return sequence(text, [...before, ...kept.map(({ id }) => id), ...after], [...before.map(() => null), ...spans, ...after.map(() => null)], tokenizer, all.length - kept.length);
}

/** The input of a decoder for generated ids. */
export function generatedSequence(ids: readonly number[], tokenizer: Tokenizer, start: number, most: number): Sequence {
  const all = [start, ...ids];
  const spans = [null, ...generatedSpans(ids, tokenizer)];
  return sequence(tokenizer.decode(ids), all.slice(0, most), spans.slice(0, most), tokenizer, Math.max(all.length - most, 0));
}

/** A text that a language model has read, and what it has added. */
export function continuationSequence(text: string, tokenizer: Tokenizer, before: readonly number[], more: readonly number[], most: number): Sequence {
  const own = tokenizer.encodeWithPieces(text);
  const ids = own.map(({ id }) => id);
  const [prompt, whole] = [tokenizer.decode(ids), tokenizer.decode([...ids, ...more])];
  const added = whole.startsWith(prompt) ? whole.slice(prompt.length) : tokenizer.decode(more);
  const start = [...text].length;
  const space = added.startsWith(" ") ? 1 : 0; // generated ids alone decode without it
  const spans = [
    ...before.map(() => null),
    ...pieceSpans(text, own),
    ...generatedSpans(more, tokenizer).map((span) => span && ([start + space + span[0], start + space + span[1]] as const)),
  ];
  const all = [...before, ...ids, ...more];
  const lost = Math.max(all.length - most, 0);
  return sequence(text + added, all.slice(lost), spans.slice(lost), tokenizer, spans.slice(0, lost).filter(Boolean).length);
}

function sequence(text: string, ids: readonly number[], found: readonly (Span | null)[], tokenizer: Tokenizer, truncated: number): Sequence {
  const characters = [...text];
  const pieces = ids.map((id) => tokenizer.config.pieces[id]);
  const spans: Span[] = [];
  for (const span of found.toReversed()) {
    const start = spans.at(-1)?.[0] ?? characters.length;
    spans.push(span ? trimmed(characters, span) : [start, start]);
  }
  spans.reverse();
  const words = eojeols(characters);
  return {
    text,
    pieces,
    ids,
    spans,
    special: found.map((span) => Number(!span)),
    real: ids.map(() => 1),
    words: found.map((span, i) => (span ? words.findIndex(([start, end]) => (spans[i][0] < end && spans[i][1] > start) || (pieces[i] === SPACE && start >= spans[i][1])) : -1)),
    segments: null,
    truncated,
  };
}

/** The span of each word between white space. */
export function eojeols(characters: readonly string[]): Span[] {
  const found: Span[] = [];
  characters.forEach((each, i) => {
    if (!each.trim()) return;
    const last = found.at(-1);
    if (last && last[1] === i) found[found.length - 1] = [last[0], i + 1];
    else found.push([i, i + 1]);
  });
  return found;
}

function trimmed(characters: readonly string[], [begin, end]: Span): Span {
  if (!characters.slice(begin, end).join("").trim()) return [begin, end];
  while (!characters[begin].trim()) begin++;
  while (!characters[end - 1].trim()) end--;
  return [begin, end];
}

/** The span of each piece: of a composed text those of its own characters. Pieces of a rewritten text have empty spans. */
function pieceSpans(text: string, pieces: readonly { readonly piece: string; readonly of: number }[]): Span[] {
  const given = [...text.replaceAll(SPACE, " ")];
  const whole = pieces.filter((each, i) => i === 0 || each.of !== pieces[i - 1].of); // the bytes of a piece count once
  const spelled = whole.map(({ piece }) => piece).join("").replaceAll(SPACE, " ");
  const characters = aligned(given.join(""), spelled) ?? Array.from(spelled, (): Span => [0, 0]);
  const spans = new Map<number, Span>();
  let start = 0;
  for (const { piece, of } of whole) {
    const covered = characters.slice(start, (start += [...piece].length));
    const span: Span = covered.length ? [covered[0][0], covered.at(-1)![1]] : [0, 0];
    const word = given.slice(...span).join("").trim();
    spans.set(of, piece === SPACE && word ? [span[0], span[0]] : span);
  }
  return pieces.map(({ of }) => spans.get(of)!);
}

/** The span of each id in the text that they decode to; null for special ones. */
function generatedSpans(ids: readonly number[], tokenizer: Tokenizer): (Span | null)[] {
  const length = (n: number) => [...tokenizer.decode(ids.slice(0, n))].length;
  const spans: (Span | null)[] = ids.map((id, i) => (tokenizer.isSpecial(id) ? null : [length(i), length(i + 1)]));
  for (let i = 0; i < ids.length; i++) {
    let end = i;
    while (end < ids.length && tokenizer.isByte(ids[end])) end++;
    if (end === i) continue;
    byteSpans(ids.slice(i, end), length(i), tokenizer).forEach((span, at) => (spans[i + at] = span));
    i = end - 1;
  }
  return spans;
}

/** Every byte of a character has its span. */
function byteSpans(ids: readonly number[], from: number, tokenizer: Tokenizer): Span[] {
  const found: Span[] = [];
  for (let start = 0, at = from; start < ids.length; at++) {
    let end = start + 1;
    while (end < ids.length && [...tokenizer.decode(ids.slice(start, end + 1))].length === 1) end++;
    while (end > start + 1 && tokenizer.decode(ids.slice(start, end)).includes("\ufffd")) end--; // an invalid byte is one character
    for (; start < end; start++) found.push([at, at + 1]);
  }
  return found;
}
