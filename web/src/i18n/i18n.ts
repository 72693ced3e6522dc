/** Words in Korean and English, each kept where it is used: `say({ ko: "층", en: "layer" })`. */

import { language } from "../state/state";

export interface Message {
  readonly ko: string;
  readonly en: string;
}

/** The words in the language of the page. */
export function t(words: Message): string {
  return words[language.value];
}
