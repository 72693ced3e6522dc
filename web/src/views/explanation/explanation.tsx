/** Explanation of a classification: what each word does for a label, found by deleting it. */

import { effect } from "@preact/signals";
import { type Drawing, bars } from "../../draw/bars";
import { css, diverging } from "../../draw/colours";
import { signedTone, stepOf } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { type Inks, PAGE, PAPER, element, label as line, markup, picture, textWidth } from "../../draw/svg";
import { display } from "../../draw/text";
import { busy, model, opened, run } from "../../state/open";
import { setting } from "../../state/settings";
import { sequence } from "../../state/state";
import { explanation as about } from "../abouts";
import type { Classification, TraceInfo } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { type Words, say } from "../../words/words";
import type { StageProps, Drawn } from "../view";
import { contributions, likeliest, parts, signed, without } from "./contributions";
import "./explanation.css";
import { tint } from "./tint";

export const explanation: Drawn = {
  Stage,
  svg,
  table,
};

const label = setting("explanation", "label", -1); // -1: the likeliest
const deleted = setting("explanation", "without", -1); // number of the word, -1: none

// A word is deleted of one text: of the next none is, unless the address names both at once.
const current = () => ({ trace: opened.value, sequence: sequence.value, word: deleted.value });
let last = current();
effect(() => {
  const { trace, sequence, word } = current();
  const other = last.trace !== null && (trace !== last.trace || sequence !== last.sequence);
  if (other && word === last.word) deleted.value = -1;
  last = current();
});

interface Answer {
  readonly text: string;
  readonly labels: Classification["labels"];
  readonly explained: Classification["sequences"][number];
  readonly label: number;
  readonly deleted: number;
  readonly adds: readonly number[];
}

function answer(info: TraceInfo): Answer | null {
  const explained = info.classification?.sequences[sequence.value];
  if (!info.classification || !explained) return null;
  const { labels } = info.classification;
  const wanted = labels[label.value] === undefined ? likeliest(explained.probabilities) : label.value;
  return {
    text: info.sides.source?.[sequence.value]?.text ?? "",
    labels,
    explained,
    label: wanted,
    deleted: explained.words[deleted.value] ? deleted.value : -1,
    adds: contributions(explained, wanted),
  };
}

function Stage({ trace }: StageProps) {
  const found = answer(trace.info);
  if (!found) return <p>{say(about.why)}</p>;
  const { labels, explained, adds } = found;
  const { drawn, width, height } = classBars(found, PAGE);
  return (
    <div class="explanation">
      <svg role="img" aria-label={said(found)} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
        {drawn}
      </svg>
      <p aria-live="polite">
        {said(found)} <Again of={found} />
      </p>
      <label class="choice">
        {say({ ko: "낱말이 더하는 것:", en: "What words add to" })}
        <select value={found.label} onChange={(event) => (label.value = Number(event.currentTarget.value))}>
          {labels.map((name, i) => (
            <option key={i} value={i}>
              {display(name)}
            </option>
          ))}
        </select>
      </label>
      {explained.words.length ? <Text of={found} /> : <p>{say(NO_WORDS)}</p>}
      {adds.length ? <Legend most={largest(adds)} /> : null}
      <p>{agreement(explained.agreement)}</p>
      <p>{say(CAUTION)}</p>
    </div>
  );
}

/** Behind a live page the model can be asked again, and looked into, without the word. */
function Again({ of: { text, explained, deleted: gone } }: { readonly of: Answer }) {
  if (gone < 0 || !model.value?.traces) return null;
  const ask = () => run({ text: without(text, explained.words[gone].span), target: null, decode: null });
  return (
    <button type="button" disabled={busy.value} onClick={() => void ask()}>
      {say({ ko: "이 낱말 없이 다시 실행", en: "Run again without it" })}
    </button>
  );
}

const NO_WORDS: Words = {
  ko: "이 기록에는 낱말을 지운 답이 없습니다.",
  en: "This trace holds no answers without single words.",
};
const CAUTION: Words = {
  ko: "주목은 이유가 아닙니다: 많이 본 낱말을 지워도 답이 그대로일 수 있습니다. 하나씩 지워서는 낱말들이 함께 하는 일도 보이지 않습니다.",
  en: "Attention is not a reason: deleting a word that was looked at much may change nothing. Nor does deleting one at a time show what words do together.",
};

function agreement(value: number | null): string {
  const rho = value === null ? "–" : signed(value, 2);
  return say({
    ko: `주목과의 일치: 스피어만 ρ = ${rho} (유력한 답의 변화와 받은 주목의 순위; 낱말 셋부터).`,
    en: `Agreement with attention: Spearman ρ = ${rho} (ranks of the likeliest label's change and of attention paid; from three words on).`,
  });
}

/** The text: each word on the tint of what it adds, its number below. */
function Text({ of: { text, explained, adds, deleted: gone } }: { readonly of: Answer }) {
  const most = largest(adds);
  const ramp = diverging(shade.value);
  return (
    <p class="explanation-text">
      {parts(text, explained.words).map(({ text: part, word }, i) =>
        word < 0 ? (
          <Between key={i} text={part} />
        ) : (
          <button
            key={i}
            type="button"
            class="explanation-word"
            aria-pressed={word === gone}
            style={tint(ramp, adds[word], most)}
            onClick={() => (deleted.value = word === gone ? -1 : word)}
          >
            <bdi>{display(part)}</bdi>
            <small>{signed(adds[word])}</small>
          </button>
        ),
      )}
    </p>
  );
}

/** What stands between words: blanks, and a new line where one text of a pair ends. */
function Between({ text }: { readonly text: string }) {
  if (text.includes("\t") || text.includes("\n")) return <span class="explanation-break" />;
  return <span>{text.trim() ? display(text) : " "}</span>;
}

function Legend({ most }: { readonly most: number }) {
  const ramp = diverging(shade.value);
  return (
    <p class="choices hint">
      {signed(-most)}
      <span aria-hidden="true">
        {Array.from({ length: 11 }, (_, i) => (
          <i key={i} style={{ background: css(ramp, stepOf(signedTone(1.15)(i / 5 - 1))) }} />
        ))}
      </span>
      {signed(most)}
    </p>
  );
}

/** Where the colours end; what adds next to nothing must not look as if it did. */
function largest(adds: readonly number[]): number {
  return Math.max(0.05, ...adds.map(Math.abs));
}

/** The classes: their probabilities, and those without the deleted word below. */
function classBars({ labels, explained, label: wanted, deleted: gone }: Answer, inks: Inks): Drawing {
  return bars(
    labels.map((name, i) => ({
      name,
      values: gone < 0 ? [explained.probabilities[i]] : [explained.probabilities[i], explained.words[gone].without[i]],
      strong: i === wanted,
    })),
    inks,
    260,
    1,
  );
}

function said({ labels, explained, deleted: gone }: Answer): string {
  const best = likeliest(explained.probabilities);
  const sure = (p: number) => p.toFixed(4);
  const name = display(labels[best]);
  const before = explained.probabilities[best];
  if (gone < 0) return say({ ko: `답: ${name}, 확률 ${sure(before)}.`, en: `Answer: ${name}, probability ${sure(before)}.` });
  const word = display(explained.words[gone].text);
  const rest = explained.words[gone].without;
  const now = display(labels[likeliest(rest)]);
  return say({
    ko: `‘${word}’ 없이: ${name} ${sure(before)} → ${sure(rest[best])}; 답은 ${now === name ? "그대로" : now}.`,
    en: `Without “${word}”: ${name} ${sure(before)} → ${sure(rest[best])}; the answer ${now === name ? "stays" : `becomes ${now}`}.`,
  });
}

async function svg(trace: Trace): Promise<string> {
  const found = answer(trace.info);
  if (!found) return picture(300, 40, "", line(10, 24, say(about.why)));
  const classes = classBars(found, PAPER);
  const most = largest(found.adds);
  const ramp = diverging("light");
  const name = display(found.labels[found.label]);
  const [edge, size, widest] = [12, 15, 690];
  let [x, y] = [edge, classes.height + 44];
  const words = parts(found.text, found.explained.words).flatMap(({ text, word }) => {
    if (word < 0) {
      if (/[\t\n]/.test(text)) [x, y] = [edge, y + 46];
      else x += 6;
      return [];
    }
    const width = Math.max(textWidth(display(text), size), textWidth("+0.000", 10)) + 10;
    if (x > edge && x + width > widest) [x, y] = [edge, y + 46];
    const { background, color } = tint(ramp, found.adds[word], most);
    const drawn = element(
      "g",
      { transform: `translate(${x} ${y})`, "text-anchor": "middle" },
      element("rect", { width, height: 38, rx: 3, fill: background }),
      line(width / 2, 18, display(text), { size, fill: color }),
      line(width / 2, 32, signed(found.adds[word]), { size: 10, fill: color }),
    );
    x += width;
    return [drawn];
  });
  const note = agreement(found.explained.agreement);
  return picture(
    Math.max(widest + edge, 2 * edge + 1.2 * textWidth(note, 11)), // other fonts may be wider
    y + 80,
    said(found),
    element("g", { transform: `translate(${edge} 12)` }, markup(classes.drawn)),
    line(edge, classes.height + 32, say({ ko: `낱말이 더하는 것: ${name}`, en: `What words add to ${name}` }), { size: 11, fill: PAPER.faint }),
    words,
    line(edge, y + 66, note, { size: 11, fill: PAPER.faint }),
  );
}

async function table(trace: Trace): Promise<(string | number)[][]> {
  const found = answer(trace.info);
  if (!found) return [["word"]];
  const { labels, explained } = found;
  return [
    ["word", ...labels.map((name) => `p(${name})`), ...labels.map((name) => `+ ${name}`)],
    ["", ...explained.probabilities, ...labels.map(() => "")],
    ...explained.words.map(({ text, without }) => [text, ...without, ...without.map((p, i) => explained.probabilities[i] - p)]),
  ];
}
