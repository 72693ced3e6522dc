/** The answer of a model that generates text: the text while it is generated, the candidates of a beam. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n/i18n";
import type { Decoding, Generated, Model } from "./model";
import { Warnings } from "./warningList";

const MAX_BEAM = 16;
const DIGITS = 4;

/** The number of candidates that the user chose; null: that of the file. */
const beam = signal<number | null>(null);

interface Properties {
  readonly model: Model;
  readonly decoding: Decoding;
  readonly text: string;
}

export function GeneratedAnswer({ model, decoding, text }: Properties) {
  const [partial, setPartial] = useState("");
  const [found, setFound] = useState<Generated | string | null>(null);
  const chosen = beam.value ?? decoding.beam;
  useEffect(() => {
    let current = true;
    const show = (part: string) => {
      if (current) setPartial(part);
      return current;
    };
    setFound(null);
    setPartial("");
    if (text.trim() || model.task === "language_modeling")
      model
        .stream(text, show, beam.value === null ? {} : { beam: chosen, n_best: chosen })
        .then((output) => current && setFound(output))
        .catch((error: unknown) => current && setFound(String(error instanceof Error ? error.message : error)));
    return () => {
      current = false;
    };
  }, [model, text, chosen]);
  return (
    <>
      <label class="beam">
        {t({ ko: "빔 크기 (1: 그리디)", en: "beam size (1: greedy)" })}{" "}
        <input
          type="number"
          min={1}
          max={MAX_BEAM}
          value={chosen}
          onInput={({ currentTarget: { valueAsNumber } }) => {
            if (valueAsNumber >= 1 && valueAsNumber <= MAX_BEAM) beam.value = Math.trunc(valueAsNumber);
          }}
        />
      </label>
      {typeof found === "string" ? (
        <p role="alert">{found}</p>
      ) : (
        <>
          <output for="text" data-role="summary" class="generated" aria-busy={!found}>
            {found?.text ?? partial}
          </output>
          {found && !found.finished && <p>{t({ ko: "길이 제한에서 멈추었습니다", en: "a limit of the length ended the text" })}</p>}
          {found && <Warnings model={model} text={text} warnings={found.warnings} />}
          {found && found.candidates.length > 1 && <Candidates found={found} />}
        </>
      )}
    </>
  );
}

function Candidates({ found }: { readonly found: Generated }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{t({ ko: "후보", en: "candidate" })}</th>
          <th scope="col">{t({ ko: "로그 확률의 합", en: "sum of log-probabilities" })}</th>
        </tr>
      </thead>
      <tbody>
        {found.candidates.map((each, i) => (
          <tr key={i} class={i === 0 ? "chosen" : undefined}>
            <th scope="row">{each.text}</th>
            <td>
              <span class="number">{each.score.toFixed(DIGITS)}</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
