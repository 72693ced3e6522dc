/** Messages in Korean and English, defined where they are used: `t({ ko: "레이어", en: "layer" })`; Korean particles. */

import { language } from "../state/state";

export interface Message {
  readonly ko: string;
  readonly en: string;
}

/** The message in the language of the page. */
export function t(message: Message): string {
  return message[language.value];
}

const CONSONANT_DIGITS = "136780"; // 일 삼 육 칠 팔 영 end in a consonant

/** `particle("봄", "이", "가")` is "이": the first form after a consonant, the second after a vowel, both if unknown. */
export function particle(word: string, consonant: string, vowel: string): string {
  const last = word.trim().at(-1) ?? "";
  const code = last.charCodeAt(0) - 0xac00;
  if (code >= 0 && code < 11172) return code % 28 ? consonant : vowel;
  if (/\d/.test(last)) return CONSONANT_DIGITS.includes(last) ? consonant : vowel;
  return `${consonant}(${vowel})`;
}
