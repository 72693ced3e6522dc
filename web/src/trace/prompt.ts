/** What a model was asked. */

import type { Decoding, Sequence } from "./format";

/** The text that a language model went on from; of files that do not say, what its given tokens spell. */
export function promptText({ text, spans }: Sequence, { text: given, prompt }: Decoding): string {
  const end = prompt > 0 ? (spans[prompt - 1]?.[1] ?? Infinity) : 0;
  return given ?? Array.from(text).slice(0, end).join("");
}
