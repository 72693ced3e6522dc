/** What an answer does not show: the warnings of jumok/tasks/pipeline/text_warnings.py, with the same codes and sentences. */

import type { Tokenizer } from "./tokenizer";

export interface Warning {
  readonly code: "empty_text" | "unknown_characters" | "truncated" | "repetition" | "no_mask";
  readonly message: string;
}

export const EMPTY_TEXT: Warning = { code: "empty_text", message: "the text is empty" };
export const NO_MASK: Warning = { code: "no_mask", message: "the text has no [MASK], so nothing is predicted" };

/** White space as in `str.isspace` of Python. */
const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const BLANK = new RegExp(`^[${SPACE}]*$`);

/** Whether a text has no other characters than white space. */
export function isBlank(text: string): boolean {
  return BLANK.test(text);
}

/** The warnings for a text that the model reads with `tokenizer`. */
export function textWarnings(text: string, tokenizer: Tokenizer): Warning[] {
  return warningsOf([text], tokenizer.unreadTokens(text), tokenizer);
}

/** The warnings for a pair of texts. */
export function pairWarnings([text, pair]: readonly [string, string], tokenizer: Tokenizer): Warning[] {
  return warningsOf([text, pair], tokenizer.unreadTokens(text, pair), tokenizer);
}

function warningsOf(texts: readonly string[], unread: number, tokenizer: Tokenizer): Warning[] {
  if (texts.every(isBlank)) return [EMPTY_TEXT];
  const unknown = texts.reduce((sum, text) => sum + unknownCharacters(text, tokenizer).length, 0);
  const found: Warning[] = [];
  const are = unknown > 1 ? "characters are" : "character is";
  if (unknown) found.push({ code: "unknown_characters", message: `${grouped(unknown)} ${are} not in the vocabulary` });
  if (unread) found.push({ code: "truncated", message: `${grouped(unread)} token${unread > 1 ? "s" : ""} of the text w${unread > 1 ? "ere" : "as"} not read` });
  return found;
}

/** The characters of a text that the tokenizer reads as [UNK], in order. */
export function unknownCharacters(text: string, tokenizer: Tokenizer): string[] {
  const { unknown } = tokenizer.config;
  if (unknown < 0) return [];
  const characters = [...text.normalize("NFC")];
  const isUnknown = new Map<string, boolean>();
  for (const each of new Set(characters)) isUnknown.set(each, !isBlank(each) && tokenizer.encode(each).includes(unknown));
  const found = characters.filter((each) => isUnknown.get(each));
  // A vocabulary may have a character inside words only.
  return found.length && tokenizer.encode(text.normalize("NFC")).includes(unknown) ? found : [];
}

const MAX_PERIOD = 256, MIN_TOKENS = 12, MIN_REPEATS = 3; // of jumok/decoding/hypothesis.py

/** A warning if the ids end with a repetition. */
export function repetition(ids: readonly number[]): Warning[] {
  for (let period = 1; period <= Math.min(MAX_PERIOD, Math.floor(ids.length / MIN_REPEATS)); period++) {
    let start = ids.length - period;
    while (start > 0 && ids[start - 1] === ids[start - 1 + period]) start--;
    const length = ids.length - start;
    if (length < Math.max(MIN_REPEATS * period, MIN_TOKENS)) continue;
    const loop = `from token ${start} on, ${period} tokens repeat ${(length / period).toFixed(1)} times`;
    return [{ code: "repetition", message: `the output repeats: ${loop}` }];
  }
  return [];
}

function grouped(n: number): string {
  return n.toLocaleString("en-US");
}
