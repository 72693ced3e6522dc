/** The bar that stays: the input, the answer of the model, and examples to try. */

import { batch } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { displayText, NO_BYTES, pieceReader } from "../draw/text";
import { currentTrace, liveModel } from "../state/session";
import { block, query, sequence, step, view } from "../state/state";
import { readableDecoding, recordedDecoding, rowOfStep } from "../trace/decoding";
import type { Candidate, Decoding } from "../trace/format";
import { promptText } from "../trace/prompt";
import type { Trace } from "../trace/trace";
import { t } from "../i18n/i18n";
import { RunForm, runExample } from "./runForm";
import { SequenceChoice } from "./settings";

const MASKS: readonly string[] = ["[MASK]", "<mask>"];
const MAX_LABELS = 4;
const MAX_CANDIDATES = 5;
const MAX_EXAMPLE = 24; // characters on a button

export function AnswerBar() {
  const trace = currentTrace.value;
  return (
    <>
      <SequenceChoice />
      <RunForm />
      {trace && <Answer trace={trace} />}
      {trace && <Examples />}
    </>
  );
}

/** The answer; nothing for a model without one, such as an encoder of sentences. */
function Answer({ trace }: { readonly trace: Trace }) {
  const { classification, regression } = trace.info;
  const decoding = recordedDecoding(trace.info, sequence.value);
  const classified = classification?.sequences[sequence.value];
  const score = regression?.[sequence.value];
  if (classified)
    return (
      <Line>
        <Labels names={classification?.labels ?? []} probabilities={classified.probabilities} />
      </Line>
    );
  if (score !== undefined)
    return (
      <Line>
        <strong>{score.toFixed(3)}</strong>
      </Line>
    );
  if (!decoding) return <Fillings trace={trace} />;
  return (
    <Line>
      <bdi class="answer-text" tabIndex={0}>
        {trace.info.sides.source ? null : <span>{promptOf(trace)}</span>}
        <strong>{decoding.output || t({ ko: "(빈 출력)", en: "(empty output)" })}</strong>
      </bdi>
      {decoding.method === "sampling" && <small>seed {String(decoding.settings.seed)}</small>}
      <Candidates trace={trace} />
    </Line>
  );
}

function promptOf({ info }: Trace): string {
  const target = info.sides.target?.[sequence.value];
  const decoding = recordedDecoding(info, sequence.value);
  return target && decoding ? promptText(target, decoding) : "";
}

function Line({ children }: { readonly children: ComponentChildren }) {
  return (
    <p class="answer" data-role="answer" aria-live="polite">
      <span class="answer-title">{t({ ko: "답", en: "answer" })}</span>
      {children}
    </p>
  );
}

/** What a masked language model writes at each [MASK]: the last row of the logit lens. */
function Fillings({ trace: { info } }: { readonly trace: Trace }) {
  const tokens = info.sides.source?.[0];
  const last = info.sides.target || sequence.value > 0 ? undefined : info.lens?.at(-1);
  if (!tokens || !last) return null;
  const masked = tokens.pieces.flatMap((piece, token) => (MASKS.includes(piece) ? [token] : []));
  if (masked.length === 0) return null;
  const reader = pieceReader(tokens, last.flat().map(({ piece }) => piece));
  return (
    <Line>
      {masked.slice(0, MAX_LABELS).map((token) => (
        <button key={token} type="button" class="answer-candidates" onClick={() => batch(() => [view.value, query.value] = ["flow", token])}>
          <small>{tokens.pieces[token]}</small>
          {last[token].map(({ id, piece, probability }, rank) => (
            <span key={id} class={rank === 0 ? "chosen" : undefined}>
              <bdi>{displayText(reader.text(piece, NO_BYTES))}</bdi> <span class="number">{probability.toFixed(2)}</span>
            </span>
          ))}
        </button>
      ))}
    </Line>
  );
}

/** The most probable labels, each with a bar. */
function Labels({ names, probabilities }: { readonly names: readonly string[]; readonly probabilities: readonly number[] }) {
  const order = [...probabilities.keys()].sort((a, b) => probabilities[b] - probabilities[a]);
  return (
    <>
      {order.slice(0, MAX_LABELS).map((i, rank) => (
        <button key={i} type="button" class="answer-label" onClick={() => (view.value = "explanation")}>
          {rank === 0 ? <strong>{displayText(names[i])}</strong> : displayText(names[i])} <span class="number">{probabilities[i].toFixed(4)}</span>
          <i class="bar" style={{ width: `${Math.max(1, 60 * probabilities[i])}px` }} />
        </button>
      ))}
    </>
  );
}

/** The step whose candidates are shown: in other views than the generation, that of the chosen token of the output. */
function shownStep(trace: Trace, decoding: Decoding): number {
  if (view.value === "generation") return step.value;
  const isOutput = trace.block(block.value).queries === "target";
  return isOutput && query.value !== null ? query.value - rowOfStep(decoding, 0) : 0;
}

/** The candidates of the current step. */
function Candidates({ trace }: { readonly trace: Trace }) {
  const decoding = readableDecoding(trace, sequence.value);
  if (!decoding?.steps.length) return null;
  const at = Math.max(0, Math.min(shownStep(trace, decoding), decoding.steps.length - 1));
  const { before, chosen } = decoding.steps[at];
  const show = () => (view.value = "generation");
  return (
    <button type="button" class="answer-candidates" onClick={show} title={t({ ko: "생성 과정 보기", en: "show the generation" })}>
      <small>{t({ ko: `${at + 1}번째 토큰 후보`, en: `candidates of token ${at + 1}` })}</small>
      {before.slice(0, MAX_CANDIDATES).map((each: Candidate) => (
        <span key={each.id} class={each.id === chosen?.id ? "chosen" : undefined}>
          <bdi>{displayText(each.piece)}</bdi> <span class="number">{each.probability.toFixed(2)}</span>
        </span>
      ))}
    </button>
  );
}

/** Inputs of the development set; a click runs one. */
export function Examples() {
  const examples = liveModel.value?.traces ? (liveModel.value.examples ?? []) : [];
  if (examples.length === 0) return null;
  return (
    <p class="examples" data-role="examples">
      <span class="answer-title">{t({ ko: "예문", en: "examples" })}</span>
      {examples.map((text) => (
        <button key={text} type="button" title={text} onClick={() => runExample(text)}>
          {shortened(text.replace("\t", " / "))}
        </button>
      ))}
    </p>
  );
}

function shortened(text: string): string {
  const letters = [...text];
  return letters.length > MAX_EXAMPLE ? `${letters.slice(0, MAX_EXAMPLE - 1).join("")}…` : text;
}
