/** Explanation of a classification: the contribution of each word to a label, by leave-one-out. */

import { effect } from "@preact/signals";
import { bars, type Drawing } from "../../draw/bars";
import { css, diverging, type Ramp } from "../../draw/colours";
import { rampStep, signedTone } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { type DrawingColours, element, label as line, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { busy, currentTrace, liveModel, runModel } from "../../state/session";
import { setting } from "../../state/settings";
import { sequence } from "../../state/state";
import { explanation as about } from "../viewInfo";
import type { Classification, Sequence, TraceInfo } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import type { StageProps, ViewRenderer } from "../view";
import { argmax, signed, textParts, withoutWord, wordContributions } from "./contributions";
import "./explanation.css";

export const explanation: ViewRenderer = {
  Stage,
  svg,
  table,
};

const labelSetting = setting("explanation", "label", -1); // -1: the most probable
const deletedSetting = setting("explanation", "without", -1); // index of the word; -1: none

// A deleted word belongs to one text: another text resets it, unless the address sets both at once.
const current = () => ({ trace: currentTrace.value, sequence: sequence.value, word: deletedSetting.value });
let last = current();
effect(() => {
  const { trace, sequence, word } = current();
  const other = last.trace !== null && (trace !== last.trace || sequence !== last.sequence);
  if (other && word === last.word) deletedSetting.value = -1;
  last = current();
});

interface Explanation {
  readonly source: Sequence;
  readonly labels: Classification["labels"];
  readonly explained: Classification["sequences"][number];
  readonly label: number;
  readonly deleted: number;
  readonly contributions: readonly number[];
}

function explanationOf(info: TraceInfo): Explanation | null {
  const explained = info.classification?.sequences[sequence.value];
  const source = info.sides.source?.[sequence.value];
  if (!info.classification || !explained || !source) return null;
  const { labels } = info.classification;
  const label = labels[labelSetting.value] === undefined ? argmax(explained.probabilities) : labelSetting.value;
  return {
    source,
    labels,
    explained,
    label,
    deleted: explained.words[deletedSetting.value] ? deletedSetting.value : -1,
    contributions: wordContributions(explained, label),
  };
}

function Stage({ trace }: StageProps) {
  const found = explanationOf(trace.info);
  if (!found) return <p>{t(about.missing)}</p>;
  const { labels, explained, contributions } = found;
  const { content, width, height } = classBars(found, PAGE_COLOURS);
  return (
    <div class="explanation">
      {found.source.truncated ? <p>{t(unread(found.source.truncated))}</p> : null}
      {explained.words.length ? <Text of={found} /> : <p>{t(NO_WORDS)}</p>}
      {contributions.length ? <Legend max={colourRange(contributions)} /> : null}
      <label class="choice">
        {t({ ko: "단어의 기여도:", en: "contribution of words to" })}
        <select value={found.label} onChange={(event) => (labelSetting.value = Number(event.currentTarget.value))}>
          {labels.map((name, i) => (
            <option key={i} value={i}>
              {displayText(name)}
            </option>
          ))}
        </select>
      </label>
      <p aria-live="polite">
        {summary(found)} <RunWithoutWord of={found} />
      </p>
      <svg role="img" aria-label={summary(found)} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
        {content}
      </svg>
      <p>{agreement(explained.agreement)}</p>
      <p>{t(CAUTION)}</p>
    </div>
  );
}

/** In a live page the model can be run again without the word. */
function RunWithoutWord({ of: { source, explained, deleted } }: { readonly of: Explanation }) {
  if (deleted < 0 || source.truncated || !liveModel.value?.traces) return null; // words behind it would be read
  const run = () => runModel({ text: withoutWord(source.text, explained.words[deleted].span), target: null, decode: null });
  return (
    <button type="button" disabled={busy.value} onClick={() => void run()}>
      {t({ ko: "이 단어 없이 다시 실행", en: "run again without this word" })}
    </button>
  );
}

const NO_WORDS: Message = {
  ko: "이 트레이스에는 단어를 삭제한 예측이 없습니다.",
  en: "This trace has no predictions with deleted words.",
};
const CAUTION: Message = {
  ko: "단어를 하나씩 삭제하면 단어 사이의 상호작용은 보이지 않습니다.",
  en: "Deleting one word at a time does not show interactions between words.",
};

const unread = (pieces: number): Message => ({
  ko: `텍스트가 모델의 최대 길이보다 깁니다: 조각 ${pieces}개를 읽지 않았습니다(취소선).`,
  en: `The text is longer than the model's maximum length: ${pieces} pieces were not read (struck through).`,
});

function agreement(value: number | null): string {
  const rho = value === null ? "–" : signed(value, 2);
  return t({
    ko: `어텐션과의 일치도: 스피어만 ρ = ${rho} (예측된 레이블의 변화와 받은 어텐션의 순위; 단어 3개 이상).`,
    en: `Agreement with attention: Spearman ρ = ${rho} (ranks of the change of the predicted label and of the attention received; at least three words).`,
  });
}

const SHORT = 60; // characters, of which the words are large

/** The text: each word with a background for its contribution, and the number below. */
function Text({ of: { source, explained, contributions, deleted } }: { readonly of: Explanation }) {
  const max = colourRange(contributions);
  const ramp = diverging(shade.value);
  return (
    <p class={source.text.length > SHORT ? "explanation-text" : "explanation-text short"}>
      {textParts(source, explained.words).map(({ text: part, word, read }, i) =>
        word < 0 ? (
          <Between key={i} text={part} read={read} />
        ) : (
          <button
            key={i}
            type="button"
            class="explanation-word"
            aria-pressed={word === deleted}
            style={tint(ramp, contributions[word], max)}
            onClick={() => (deletedSetting.value = word === deleted ? -1 : word)}
          >
            <bdi>{displayText(part)}</bdi>
            <small>{signed(contributions[word])}</small>
          </button>
        ),
      )}
    </p>
  );
}

/** The text between words: blanks, a line break between the texts of a pair, and what the model did not read. */
function Between({ text, read }: { readonly text: string; readonly read: boolean }) {
  if (text.includes("\t") || text.includes("\n")) return <span class="explanation-break" />;
  if (!read) return <del>{displayText(text)}</del>;
  return <span>{text.trim() ? displayText(text) : " "}</span>;
}

function Legend({ max }: { readonly max: number }) {
  const ramp = diverging(shade.value);
  return (
    <p class="choices hint">
      {signed(-max)}
      <span aria-hidden="true">
        {Array.from({ length: 11 }, (_, i) => (
          <i key={i} style={{ background: css(ramp, rampStep(signedTone(1.15)(i / 5 - 1))) }} />
        ))}
      </span>
      {signed(max)}
    </p>
  );
}

/** The end of the colour scale, with a minimum, so that negligible contributions stay pale. */
function colourRange(contributions: readonly number[]): number {
  return Math.max(0.05, ...contributions.map(Math.abs));
}

/** The probabilities of the classes, and those without the deleted word. */
function classBars({ labels, explained, label, deleted }: Explanation, colours: DrawingColours): Drawing {
  return bars(
    labels.map((name, i) => ({
      name,
      values: deleted < 0 ? [explained.probabilities[i]] : [explained.probabilities[i], explained.words[deleted].without[i]],
      strong: i === label,
    })),
    colours,
    260,
    1,
  );
}

function summary({ labels, explained, deleted }: Explanation): string {
  const best = argmax(explained.probabilities);
  const fixed = (p: number) => p.toFixed(4);
  const name = displayText(labels[best]);
  const before = explained.probabilities[best];
  if (deleted < 0) return t({ ko: `예측: ${name}, 확률 ${fixed(before)}.`, en: `Prediction: ${name}, probability ${fixed(before)}.` });
  const word = displayText(explained.words[deleted].text);
  const probabilities = explained.words[deleted].without;
  const newLabel = displayText(labels[argmax(probabilities)]);
  return t({
    ko: `‘${word}’ 삭제: ${name} ${fixed(before)} → ${fixed(probabilities[best])}; 예측은 ${newLabel === name ? "그대로" : newLabel}.`,
    en: `Without “${word}”: ${name} ${fixed(before)} → ${fixed(probabilities[best])}; the prediction ${newLabel === name ? "does not change" : `becomes ${newLabel}`}.`,
  });
}

async function svg(trace: Trace): Promise<string> {
  const found = explanationOf(trace.info);
  if (!found) return svgDocument(300, 40, "", line(10, 24, t(about.missing)));
  const classes = classBars(found, PRINT_COLOURS);
  const max = colourRange(found.contributions);
  const ramp = diverging("light");
  const name = displayText(found.labels[found.label]);
  const [edge, size, widest] = [12, 15, 690];
  let [x, y] = [edge, classes.height + 44];
  const words = textParts(found.source, found.explained.words).flatMap(({ text, word, read }) => {
    if (!read) return []; // the note says how many pieces
    if (word < 0) {
      if (/[\t\n]/.test(text)) [x, y] = [edge, y + 46];
      else x += 6;
      return [];
    }
    const width = Math.max(textWidth(displayText(text), size), textWidth("+0.000", 10)) + 10;
    if (x > edge && x + width > widest) [x, y] = [edge, y + 46];
    const { background, color } = tint(ramp, found.contributions[word], max);
    const content = element(
      "g",
      { transform: `translate(${x} ${y})`, "text-anchor": "middle" },
      element("rect", { width, height: 38, rx: 3, fill: background }),
      line(width / 2, 18, displayText(text), { size, fill: color }),
      line(width / 2, 32, signed(found.contributions[word]), { size: 10, fill: color }),
    );
    x += width;
    return [content];
  });
  const legend = element(
    "g",
    { transform: `translate(${edge} ${y + 52})` },
    line(0, 10, signed(-max), { size: 11, fill: PRINT_COLOURS.faint }),
    Array.from({ length: 11 }, (_, i) => element("rect", { x: 48 + 14 * i, width: 14, height: 12, fill: css(ramp, rampStep(signedTone(1.15)(i / 5 - 1))) })),
    line(210, 10, signed(max), { size: 11, fill: PRINT_COLOURS.faint }),
  );
  y += 26;
  const note = agreement(found.explained.agreement);
  const { truncated } = found.source;
  return svgDocument(
    Math.max(widest + edge, 2 * edge + 1.2 * textWidth(note, 11)), // other fonts may be wider
    y + (truncated ? 96 : 80),
    summary(found),
    element("g", { transform: `translate(${edge} 12)` }, markup(classes.content)),
    line(edge, classes.height + 32, t({ ko: `단어의 기여도: ${name}`, en: `Contribution of words to ${name}` }), { size: 11, fill: PRINT_COLOURS.faint }),
    words,
    legend,
    line(edge, y + 66, note, { size: 11, fill: PRINT_COLOURS.faint }),
    truncated ? line(edge, y + 84, t(unread(truncated)), { size: 11, fill: PRINT_COLOURS.faint }) : "",
  );
}

async function table(trace: Trace): Promise<(string | number)[][]> {
  const found = explanationOf(trace.info);
  if (!found) return [["word"]];
  const { labels, explained } = found;
  return [
    ["word", ...labels.map((name) => `p(${name})`), ...labels.map((name) => `+ ${name}`)],
    ["", ...explained.probabilities, ...labels.map(() => "")],
    ...explained.words.map(({ text, without }) => [text, ...without, ...without.map((p, i) => explained.probabilities[i] - p)]),
  ];
}

/** The background of a word for its contribution, and a text colour that is readable on it. */
export function tint(ramp: Ramp, value: number, max: number): { background: string; color: string } {
  const index = rampStep(signedTone(max * 1.15)(value));
  const [r, g, b] = Array.from(ramp.subarray(3 * index, 3 * index + 3), (byte) => (byte / 255) ** 2.2);
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b; // black and white are equally readable at 0.179
  return { background: css(ramp, index), color: luminance > 0.179 ? "#000000" : "#ffffff" };
}
