/** The form that runs the live model: a text, an optional target, and the decoding method. */

import { batch, computed, effect, type Signal, signal, untracked } from "@preact/signals";
import { busy, currentTrace, liveModel, muted, type Request, runModel, runOfAddress, sessionError } from "../state/session";
import { useEffect, useRef } from "preact/hooks";
import { sequence } from "../state/state";
import { promptText } from "../trace/prompt";
import { recordedDecoding } from "../trace/decoding";
import { type Message, t } from "../i18n/i18n";

/** A decoding preset: overrides of the decoding settings of recipe and command line; null: read the text without generating. */
interface DecodingPreset {
  readonly title: Message;
  readonly decode: Request["decode"];
}

const DECODING_PRESETS: Readonly<Record<string, DecodingPreset>> = {
  own: { title: { ko: "디코딩: 기본 설정", en: "decoding: as configured" }, decode: {} },
  greedy: { title: { ko: "디코딩: 그리디", en: "decoding: greedy" }, decode: { beam: 1, sample: false } },
  beam: { title: { ko: "디코딩: 빔 서치", en: "decoding: beam search" }, decode: { beam: 4, sample: false } },
  sample: { title: { ko: "디코딩: 샘플링", en: "decoding: sampling" }, decode: { beam: 1, sample: true } },
  nothing: { title: { ko: "생성 안 함", en: "no generation" }, decode: null },
};

const editedText = signal<string | null>(null); // null: as in the trace
const editedTarget = signal<string | null>(null); // null: as in the trace
const decodingPreset = signal("own");
/** Of beam search and of sampling; null: as configured. */
const beams = signal<number | null>(null);
const temperature = signal<number | null>(null);
const topK = signal<number | null>(null);
const seed = signal<number | null>(null);

effect(() => {
  const run = runOfAddress.value; // Back and Forward bring the settings back
  untracked(() => batch(() => showDecoding(run ? run.decode : {})));
});

function showDecoding(decode: Request["decode"]): void {
  const number = (name: string) => (typeof decode?.[name] === "number" ? (decode[name] as number) : null);
  beams.value = number("beam");
  temperature.value = number("temperature");
  topK.value = number("top_k");
  seed.value = number("seed");
  if (decode === null) decodingPreset.value = "nothing";
  else if (decode.sample === true) decodingPreset.value = "sample";
  else if (beams.value === null) decodingPreset.value = "own";
  else decodingPreset.value = beams.value > 1 ? "beam" : "greedy";
}

/** The overrides of the chosen preset and of its sliders. */
function decodingOverrides(): Request["decode"] {
  const { decode } = DECODING_PRESETS[decodingPreset.value];
  if (decodingPreset.value === "beam") return { ...decode, beam: beams.value ?? 4 };
  if (decodingPreset.value !== "sample") return decode;
  return {
    ...decode,
    ...(temperature.value === null ? {} : { temperature: temperature.value }),
    ...(topK.value === null ? {} : { top_k: topK.value }),
    ...(seed.value === null ? {} : { seed: seed.value }),
  };
}

let timer: ReturnType<typeof setTimeout> | undefined;

/** Runs again shortly after the last change of a setting, if there is a text. */
function runSoon(): void {
  clearTimeout(timer);
  if (currentTrace.value) timer = setTimeout(() => void submitRequest(), 200);
}

/** Runs one of the examples. */
export function runExample(text: string): void {
  editedText.value = text;
  editedTarget.value = traceTarget.value === null ? null : "";
  void submitRequest();
}

/** The text that the trace has read; of a generated text, the prompt. */
const traceText = computed(() => {
  const info = currentTrace.value?.info;
  const read = (info?.sides.source ?? info?.sides.target)?.[sequence.value];
  if (!info || !read) return "";
  const decoding = info.sides.source ? null : recordedDecoding(info, sequence.value);
  return decoding ? promptText(read, decoding) : read.text;
});

/** The target that the trace was given; null: none, or the model generated it. */
const traceTarget = computed(() => {
  const info = currentTrace.value?.info;
  const decoding = info && recordedDecoding(info, sequence.value);
  return decoding?.method === "given" ? decoding.output : null;
});

/** Whether the trace holds more than one text. */
const hasSeveralTexts = computed(() => (currentTrace.value?.info.blocks ?? []).some(({ keys }) => (currentTrace.value?.info.sides[keys]?.length ?? 0) > 1));

/** The request of the form; a given target is not generated. */
export const request = computed<Request>(() => {
  const requestedTarget = editedTarget.value === null ? traceTarget.value : editedTarget.value.trim() || null;
  const decode = liveModel.value?.writes && requestedTarget === null ? decodingOverrides() : {};
  return { text: editedText.value ?? traceText.value, target: decode ? requestedTarget : "", decode };
});

let running = ""; // the request of the run in progress; heads cannot be muted during it
let isQueued = false; // whether another one was made meanwhile

effect(() => {
  if (!busy.value && isQueued) timer = setTimeout(() => void submitRequest()); // after the run in progress has ended
});

/** Runs the request, or after the run in progress; fields that were not edited meanwhile then show the text of the new trace. */
export async function submitRequest(): Promise<void> {
  clearTimeout(timer);
  const submitted = JSON.stringify(request.value);
  isQueued = busy.value && submitted !== running;
  if (busy.value) return;
  running = submitted;
  const [submittedText, requestedTarget] = [editedText.value, editedTarget.value];
  await runModel(request.value);
  running = "";
  if (sessionError.value) return;
  if (editedText.value === submittedText) editedText.value = null;
  if (editedTarget.value === requestedTarget) editedTarget.value = null;
}

/** The two texts of a pair, separated by a TAB, which cannot be typed into the form. */
function splitPair(pair: string): string[] {
  const [first, ...others] = pair.split("\t");
  return [first, others.join(" ")];
}

export function RunForm() {
  const model = liveModel.value;
  const form = useRef<HTMLFormElement>(null);
  const isEmpty = model !== null && currentTrace.value === null && !busy.value;
  useEffect(() => {
    if (isEmpty) form.current?.querySelector("textarea")?.focus();
  }, [isEmpty]);
  if (!model) return null;
  if (!model.traces)
    return <p class="live hint">{t({ ko: "이 모델은 트레이스를 지원하지 않습니다.", en: "This model cannot be traced." })}</p>;
  const texts = model.pairs ? splitPair(request.value.text) : [request.value.text];
  const unmute = () => {
    muted.value = new Set();
    void submitRequest();
  };
  return (
    <form class="live" data-role="live" onSubmit={submit} ref={form}>
      {texts.map((one, i) => (
        <textarea
          key={i}
          rows={1}
          value={one}
          aria-label={t(i ? { ko: "두 번째 텍스트", en: "second text" } : { ko: "입력 텍스트", en: "input text" })}
          placeholder={t({ ko: "텍스트를 입력하고 Enter", en: "type a text, then Enter" })}
          onInput={({ currentTarget }) => {
            editedText.value = texts.with(i, currentTarget.value).join("\t");
            if (model.in_page) runSoon(); // without a server a run takes milliseconds
          }}
          onKeyDown={submitOnEnter}
        />
      ))}
      {hasSeveralTexts.value && <small>{t({ ko: "실행하면 이 텍스트만 처리", en: "a run uses only this text" })}</small>}
      {muted.value.size > 0 && (
        <button type="button" disabled={busy.value} onClick={unmute}>
          {t({ ko: `꺼진 헤드 ${muted.value.size}개 켜기`, en: `unmute ${muted.value.size}` })}
        </button>
      )}
      <button type="submit" class="primary" disabled={busy.value}>
        {busy.value ? t({ ko: "실행 중…", en: "running…" }) : t({ ko: "실행", en: "run" })}
      </button>
    </form>
  );
}

function submit(event: Event): void {
  event.preventDefault();
  void submitRequest();
}

function submitOnEnter(event: KeyboardEvent): void {
  if (event.key !== "Enter" || (event.shiftKey && !event.ctrlKey && !event.metaKey) || event.isComposing) return;
  if (event.repeat) event.preventDefault(); // a held key counts once
  else submit(event);
}

/** How the next run generates: a given target, or the decoding method with its settings. */
export function DecodingSettings() {
  const model = liveModel.value;
  if (!model?.writes) return null;
  const mayHaveTarget = model.kind === "encoder_decoder" || (editedTarget.value ?? traceTarget.value) !== null;
  return (
    <>
      {mayHaveTarget && (
        <textarea
          rows={1}
          value={editedTarget.value ?? traceTarget.value ?? ""}
          aria-label={t({ ko: "정답 (비우면 모델이 생성)", en: "target (empty: the model generates)" })}
          placeholder={t({ ko: "정답 (비우면 모델이 생성)", en: "target (empty: generated)" })}
          onInput={(event) => (editedTarget.value = event.currentTarget.value)}
          onKeyDown={submitOnEnter}
        />
      )}
      <select
        value={decodingPreset.value}
        disabled={Boolean(request.value.target)}
        aria-label={t({ ko: "디코딩 방법", en: "decoding method" })}
        onChange={(event) => {
          decodingPreset.value = event.currentTarget.value;
          runSoon();
        }}
      >
        {Object.entries(DECODING_PRESETS).map(([id, { title, decode }]) =>
          decode || model.kind === "decoder" ? (
            <option key={id} value={id}>
              {t(title)}
            </option>
          ) : null,
        )}
      </select>
      {!request.value.target && <DecodingSliders />}
    </>
  );
}

/** Live settings: the width of the beam; temperature and top-k of sampling. */
function DecodingSliders() {
  const configured = liveModel.value?.decode ?? {};
  if (decodingPreset.value === "beam")
    return <Slider title={{ ko: "빔", en: "beam" }} of={beams} own={4} min={2} max={8} step={1} />;
  if (decodingPreset.value !== "sample") return null;
  return (
    <>
      <Slider title={{ ko: "온도", en: "temperature" }} of={temperature} own={Number(configured.temperature ?? 1)} min={0.1} max={2} step={0.1} />
      <Slider title={{ ko: "top-k", en: "top-k" }} of={topK} own={Number(configured.top_k ?? 0)} min={0} max={50} step={1} />
      <Slider title={{ ko: "시드", en: "seed" }} of={seed} own={Number(configured.seed ?? 0)} min={0} max={99} step={1} />
    </>
  );
}

interface SliderProps {
  readonly title: Message;
  readonly of: Signal<number | null>;
  readonly own: number; // as configured
  readonly min: number;
  readonly max: number;
  readonly step: number;
}

function Slider({ title, of, own, min, max, step }: SliderProps) {
  const value = of.value ?? own;
  return (
    <label class="choice live-slider">
      {t(title)}
      <input
        type="range"
        min={min}
        max={max}
        step={step}
        value={value}
        onInput={(event) => {
          of.value = event.currentTarget.valueAsNumber;
          runSoon();
        }}
      />
      <output>{value}</output>
    </label>
  );
}
