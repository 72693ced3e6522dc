/** Messages in Korean and English, defined where they are used: `t({ ko: "층", en: "layer" })`. */

import { language } from "../state/state";

export interface Message {
  readonly ko: string;
  readonly en: string;
}

/** The message in the language of the page. */
export function t(words: Message): string {
  return words[language.value];
}
