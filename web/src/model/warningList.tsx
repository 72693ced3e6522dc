/** The warnings of an answer, in the language of the page. */

import { type Message, t } from "../i18n/i18n";
import type { Model, Warning } from "./model";

const SENTENCES: Readonly<Record<Exclude<Warning["code"], "unknown_characters">, Message>> = {
  empty_text: { ko: "텍스트가 비어 있습니다", en: "the text is empty" },
  truncated: { ko: "텍스트가 길어 끝부분을 읽지 않았습니다", en: "the text is too long: its end was not read" },
  no_mask: { ko: "[MASK]가 없어 예측할 것이 없습니다", en: "the text has no [MASK], so nothing is predicted" },
  repetition: { ko: "출력이 같은 말을 반복합니다", en: "the output repeats itself" },
};

export function Warnings({ model, text, warnings }: { readonly model: Model; readonly text: string; readonly warnings: readonly Warning[] }) {
  const codes = [...new Set(warnings.map(({ code }) => code))];
  if (!codes.length) return null;
  return (
    <ul class="warnings" data-role="warnings">
      {codes.map((code) => (
        <li key={code}>
          {code !== "unknown_characters" ? (
            t(SENTENCES[code])
          ) : (
            <>
              {t({ ko: "어휘에 없어 읽지 못한 글자", en: "characters that are not in the vocabulary" })}:{" "}
              {[...new Set(model.unknownCharacters(text))].map((each) => (
                <mark key={each}>{each}</mark>
              ))}
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
