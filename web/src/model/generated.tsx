/** The answer of a model that generates text: the text while it is generated, the candidates of a beam. */

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { t } from "../i18n/i18n";
import type { Decoding, Generated, Model } from "./model";
import { Warnings } from "./warningList";

const MAX_BEAM = 16;
const MAX_TEMPERATURE = 4;
const MAX_SEED = 2 ** 31 - 1;
const DIGITS = 4;

/** The number of candidates that the user chose; null: that of the file. */
const beam = signal<number | null>(null);
/** The temperature of a sample; 0: none. null: as in the file. */
const temperature = signal<number | null>(null);

/** The seed of samples; null: another one for each. */
const seed = signal<number | null>(null);
const draws = signal(0); // of samples of the same text

/** The settings that the user changed; a sample has one hypothesis. */
function changes(decoding: Decoding): Partial<Decoding> {
  const size = beam.value === null ? {} : { beam: beam.value, n_best: beam.value };
  if (temperature.value === null) return size;
  if (temperature.value) return { sample: true, beam: 1, n_best: 1, temperature: temperature.value, seed: seed.value };
  return { n_best: Math.min(decoding.n_best, decoding.beam), ...size, sample: false, temperature: 1, typical_p: 1 };
}

interface Properties {
  readonly model: Model;
  readonly decoding: Decoding;
  readonly text: string;
}

export function GeneratedAnswer({ model, decoding, text }: Properties) {
  const [partial, setPartial] = useState("");
  const [found, setFound] = useState<Generated | string | null>(null);
  const chosen = beam.value ?? decoding.beam;
  const warmth = temperature.value ?? (decoding.sample ? decoding.temperature : 0);
  const isWritten = Boolean(text.trim()) || model.task === "language_modeling";
  useEffect(() => {
    let current = true;
    const show = (part: string) => {
      if (current) setPartial(part);
      return current;
    };
    setFound(null);
    setPartial("");
    if (isWritten)
      model
        .stream(text, show, changes(decoding))
        .then((output) => current && setFound(output))
        .catch((error: unknown) => current && setFound(String(error instanceof Error ? error.message : error)));
    return () => {
      current = false;
    };
  }, [model, text, chosen, warmth, seed.value, draws.value]);
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
      <label class="beam">
        {t({ ko: "샘플링 온도 (0: 샘플링 안 함)", en: "temperature of a sample (0: none)" })}{" "}
        <input
          type="number"
          min={0}
          max={MAX_TEMPERATURE}
          step={0.1}
          value={warmth}
          onInput={({ currentTarget: { valueAsNumber } }) => {
            if (valueAsNumber >= 0 && valueAsNumber <= MAX_TEMPERATURE) temperature.value = valueAsNumber;
          }}
        />
      </label>
      {warmth > 0 && (
        <p class="beam">
          <label>
            {t({ ko: "시드 (비우면 매번 다른 시드)", en: "seed (empty: another one for each sample)" })}{" "}
            <input
              type="number"
              min={0}
              max={MAX_SEED}
              value={seed.value ?? ""}
              onInput={({ currentTarget: { valueAsNumber } }) => {
                seed.value = Number.isInteger(valueAsNumber) && valueAsNumber >= 0 && valueAsNumber <= MAX_SEED ? valueAsNumber : null;
              }}
            />
          </label>{" "}
          <button type="button" disabled={seed.value !== null} onClick={() => draws.value++}>
            {t({ ko: "다시 뽑기", en: "draw again" })}
          </button>
        </p>
      )}
      {typeof found === "string" ? (
        <p role="alert">{found}</p>
      ) : (
        <>
          <output for="text" data-role="summary" class="generated" aria-busy={isWritten && !found}>
            {isWritten ? (found?.text ?? partial) : t({ ko: "텍스트를 쓰십시오", en: "write a text" })}
          </output>
          {found && found.seed !== null && (
            <p class="hint" data-role="seed">
              {t({ ko: "이 출력의 시드", en: "seed of this output" })}: {found.seed}
            </p>
          )}
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
