/** The prompt of a language model. */

import type { Decoding, Sequence } from "./format";

/** The text that a language model continued; without a recorded one, the text of the given tokens. */
export function promptText({ text, spans }: Sequence, { text: given, prompt }: Decoding): string {
  const end = prompt > 0 ? (spans[prompt - 1]?.[1] ?? Infinity) : 0;
  return given ?? Array.from(text).slice(0, end).join("");
}
