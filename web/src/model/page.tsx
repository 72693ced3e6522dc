/** The page of an exported model: a text, its answer as a table with bars, and the check of the numbers. */

import { computed, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { shade } from "../draw/palette";
import { type Message, t } from "../i18n/i18n";
import { language, languageSetting, theme } from "../state/state";
import { GeneratedAnswer } from "./generated";
import { type Check, type Entity, type Input, type Model, similarity, type Task, type Warning } from "./model";
import { Warnings } from "./warningList";

/** The model, how it compares with the exporting program, and when it was ready. */
export const loaded = signal<{ readonly model: Model; readonly check: Check; readonly milliseconds: number } | null>(null);
export const failure = signal("");
export const text = signal<string | null>(null); // null: the first examples of the file
export const second = signal<string | null>(null); // the other text of a pair

/** A row of the table; `bar` is its length from 0 to 1, null: none. */
interface Row {
  readonly name: string;
  readonly value: number | string;
  readonly bar: number | null;
  readonly chosen: boolean;
}

interface Result {
  readonly rows: readonly Row[];
  readonly summary: string;
  readonly warnings: readonly Warning[];
}

const DIGITS = 4;

const TASKS: Readonly<Record<Task, Message>> = {
  classification: { ko: "분류", en: "classification" },
  multi_label_classification: { ko: "다중 레이블 분류", en: "multi-label classification" },
  regression: { ko: "회귀", en: "regression" },
  similarity: { ko: "문장 유사도", en: "similarity" },
  tagging: { ko: "토큰 분류", en: "token classification" },
  masked_language_modeling: { ko: "빈칸 채우기", en: "masked words" },
  sequence_to_sequence: { ko: "텍스트 변환", en: "text to text" },
  language_modeling: { ko: "텍스트 생성", en: "text generation" },
};

const COLUMNS: Readonly<Partial<Record<Task, readonly [Message, Message]>>> = {
  classification: [{ ko: "레이블", en: "label" }, { ko: "확률", en: "probability" }],
  multi_label_classification: [{ ko: "레이블", en: "label" }, { ko: "확률", en: "probability" }],
  regression: [{ ko: "출력", en: "output" }, { ko: "점수", en: "score" }],
  similarity: [{ ko: "텍스트", en: "text" }, { ko: "코사인", en: "cosine" }],
  tagging: [{ ko: "개체", en: "entity" }, { ko: "유형", en: "type" }],
  masked_language_modeling: [{ ko: "조각", en: "piece" }, { ko: "확률", en: "probability" }],
};

/** The text of the field. */
const shown = computed(() => {
  const model = loaded.value?.model;
  if (text.value !== null || !model) return text.value ?? "";
  const examples = model.examples.map((each) => each.text);
  return model.task === "similarity" ? examples.join("\n") : (examples[0] ?? "");
});

/** The second text of the field; empty for a model that reads one. */
const shownSecond = computed(() => second.value ?? (text.value === null ? loaded.value?.model.examples[0]?.pair : "") ?? "");

const result = computed<Result | string | null>(() => {
  const model = loaded.value?.model;
  const [input, other] = [shown.value, shownSecond.value].map((each) => each.replace(/\n+$/, "")); // of the key Enter
  if (!model || !(input.trim() || other.trim())) return null;
  if (`${input}${other}`.includes("\0")) return t({ ko: "텍스트에 U+0000(NUL)이 있습니다; 지우십시오", en: "a text must not contain U+0000 (NUL); remove it" });
  const paired = model.pairs === "always" || (model.pairs === "optional" && other !== "");
  try {
    return answer(model, paired ? [input, other] : input);
  } catch (error) {
    return String(error instanceof Error ? error.message : error);
  }
});

/** The rows of the table for the text of the field: labels, a score, entities, pieces, or lines compared with the first. */
export function answer(model: Model, input: Input): Result {
  if (model.task === "similarity") return compare(model, String(input).split("\n").filter((line) => line.trim()));
  const found = model.predict(input);
  const { warnings } = found;
  if (found.task === "tagging") {
    const rows = found.entities.map(({ text, type }) => ({ name: text, value: type, bar: null, chosen: false }));
    return { rows, summary: bracketed(String(input), found.entities), warnings };
  }
  if (found.task === "masked_language_modeling") {
    const numbered = found.masks.length > 1;
    const rows = found.masks.flatMap((pieces, mask) =>
      pieces.map(({ piece, logProbability }, i) => {
        const value = Math.exp(logProbability);
        return { name: numbered ? `${mask + 1}: ${piece}` : piece, value, bar: value, chosen: i === 0 };
      }),
    );
    return { rows, summary: found.text, warnings };
  }
  if (found.task === "regression") {
    const name = t({ ko: "점수", en: "score" });
    return { rows: [{ name, value: found.score, bar: null, chosen: true }], summary: `${name}: ${found.score.toFixed(DIGITS)}`, warnings };
  }
  if (found.task !== "classification" && found.task !== "multi_label_classification") throw new Error(`${found.task} has no labels`);
  const chosen = found.task === "classification" ? [found.label] : found.labels;
  const rows = model.labels.map((name, i) => ({
    name,
    value: found.probabilities[i],
    bar: found.probabilities[i],
    chosen: chosen.includes(name),
  }));
  rows.sort((a, b) => b.value - a.value);
  const best = rows.filter((row) => row.chosen).map((row) => `${row.name} ${row.value.toFixed(DIGITS)}`);
  return { rows, summary: best.join(", ") || t({ ko: "레이블 없음", en: "no label" }), warnings };
}

/** A text with its entities in brackets, as `jumok predict` prints it. */
function bracketed(input: string, entities: readonly Entity[]): string {
  const characters = [...input];
  let [found, done] = ["", 0];
  for (const { type, start, end, text } of entities) {
    found += `${characters.slice(done, start).join("")}[${text} ${type}]`;
    done = end;
  }
  return found + characters.slice(done).join("");
}

function compare(model: Model, lines: readonly string[]): Result {
  const vectors = lines.map((line) => model.outputs(line));
  const warnings = lines.flatMap((line) => model.predict(line).warnings);
  const cosines = vectors.map((vector) => similarity(vectors[0], vector));
  const rows = lines.map((name, i) => ({ name, value: cosines[i], bar: Math.max(0, cosines[i]), chosen: i === 0 }));
  const nearest = rows.slice(1).reduce<(typeof rows)[number] | null>((best, row) => (best && best.value >= row.value ? best : row), null);
  const summary = nearest
    ? `${t({ ko: "가장 비슷한 텍스트", en: "most similar text" })}: ${nearest.name} ${nearest.value.toFixed(DIGITS)}`
    : t({ ko: "비교할 텍스트를 다음 줄에 쓰십시오", en: "write texts to compare on the next lines" });
  return { rows, summary, warnings };
}

export function ModelPage() {
  const ready = loaded.value;
  return (
    <div class="model-page" data-role={ready ? "stage" : undefined}>
      <header>
        <h1>{ready?.model.name ?? "jumok"}</h1>
        {ready && <p class="model-line">{t(TASKS[ready.model.task])}</p>}
        <div class="actions">
          <button
            type="button"
            lang={language.value === "ko" ? "en" : "ko"}
            onClick={() => (languageSetting.value = language.value === "ko" ? "en" : "ko")}
          >
            {t({ ko: "English", en: "한국어" })}
          </button>
          <button type="button" aria-label={t({ ko: "테마 바꾸기", en: "change the theme" })} onClick={() => (theme.value = shade.value === "dark" ? "light" : "dark")}>
            ◐
          </button>
        </div>
      </header>
      <main>
        {failure.value ? <p role="alert">{failure.value}</p> : ready ? <Form model={ready.model} /> : null}
        <p role="status" class="hint">
          {!ready && !failure.value && t({ ko: "모델을 여는 중입니다", en: "opening the model" })}
          {ready && <Checked check={ready.check} milliseconds={ready.milliseconds} />}
        </p>
      </main>
    </div>
  );
}

function Form({ model }: { readonly model: Model }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  const lines = model.task === "similarity";
  const paired = model.pairs !== "never";
  const label = lines
    ? t({ ko: "텍스트: 한 줄에 하나씩, 첫 줄과 비교합니다", en: "texts, one a line; the first is compared with the others" })
    : model.task === "masked_language_modeling"
      ? t({ ko: "텍스트: 빈칸은 [MASK]로 씁니다", en: "text; [MASK] is what the model fills in" })
      : paired
        ? t({ ko: "첫째 텍스트", en: "first text" })
        : t({ ko: "텍스트", en: "text" });
  return (
    <>
      <label for="text">{label}</label>
      <textarea
        id="text"
        ref={field}
        rows={lines ? 6 : 3}
        value={shown.value}
        onInput={(event) => {
          second.value = shownSecond.value;
          text.value = event.currentTarget.value;
        }}
      />
      {paired && (
        <>
          <label for="second">
            {model.pairs === "optional" ? t({ ko: "둘째 텍스트 (없어도 됩니다)", en: "second text (optional)" }) : t({ ko: "둘째 텍스트", en: "second text" })}
          </label>
          <textarea
            id="second"
            rows={3}
            value={shownSecond.value}
            onInput={(event) => {
              text.value = shown.value;
              second.value = event.currentTarget.value;
            }}
          />
        </>
      )}
      {!lines && model.examples.length > 1 && (
        <ul class="examples" aria-label={t({ ko: "예문", en: "examples" })}>
          {model.examples.map((each) => (
            <li key={each.text + each.pair}>
              <button
                type="button"
                onClick={() => {
                  text.value = each.text;
                  second.value = each.pair ?? "";
                }}
              >
                {each.pair === undefined ? each.text : `${each.text} / ${each.pair}`}
              </button>
            </li>
          ))}
        </ul>
      )}
      {model.decoding ? <GeneratedAnswer model={model} decoding={model.decoding} text={shown.value} /> : <Answer model={model} />}
    </>
  );
}

function Answer({ model }: { readonly model: Model }) {
  const found = result.value;
  if (typeof found === "string") return <p role="alert">{found}</p>;
  const [name, value] = COLUMNS[model.task]!;
  return (
    <>
      <output for={model.pairs === "never" ? "text" : "text second"} data-role="summary">
        {found?.summary ?? t({ ko: "텍스트를 쓰십시오", en: "write a text" })}
      </output>
      {found && <Warnings model={model} text={shown.value + shownSecond.value} warnings={found.warnings} />}
      {found && found.rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">{t(name)}</th>
              <th scope="col">{t(value)}</th>
            </tr>
          </thead>
          <tbody>
            {found.rows.map((row, i) => (
              <tr key={i} class={row.chosen ? "chosen" : undefined}>
                <th scope="row">{row.name}</th>
                <td>
                  <span class="number">{typeof row.value === "number" ? row.value.toFixed(DIGITS) : row.value}</span>
                  {row.bar !== null && (
                    <svg aria-hidden="true" viewBox="0 0 100 10" preserveAspectRatio="none">
                      <rect width={100 * row.bar} height={10} />
                    </svg>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Checked({ check, milliseconds }: { readonly check: Check; readonly milliseconds: number }) {
  if (!check.text && check.difference === 0) return null; // the file has no example
  const numbers = `${check.difference.toExponential(1)} (≤ ${check.tolerance})`;
  if (check.passed)
    return (
      <span data-role="check">
        {t({ ko: "이 브라우저의 출력과 내보낼 때의 출력의 차이", en: "outputs of this browser and of the export differ by" })} {numbers} ·{" "}
        {t({ ko: "여는 데", en: "opened in" })} {Math.round(milliseconds)} ms
      </span>
    );
  return (
    <span data-role="check" class="failed">
      {t({ ko: "이 브라우저의 출력이 내보낼 때와 다릅니다", en: "the outputs of this browser differ from those of the export" })}: {numbers} — {check.text}
    </span>
  );
}
