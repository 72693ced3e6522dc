/** Asking the model behind the page: a text, perhaps what it is to write, and a run. */

import { computed, signal } from "@preact/signals";
import { busy, sessionError, liveModel, muted, currentTrace, type Request, runModel } from "../state/session";
import { sequence } from "../state/state";
import { promptText } from "../trace/prompt";
import { type Message, t } from "../i18n/i18n";

/** A way of writing: what it lays over the decoding that recipe and command line set; null: the text is read, nothing is written. */
interface DecodingPreset {
  readonly title: Message;
  readonly decode: Request["decode"];
}

const DECODING_PRESETS: Readonly<Record<string, DecodingPreset>> = {
  own: { title: { ko: "쓰기: 정해진 대로", en: "writes: as set" }, decode: {} },
  greedy: { title: { ko: "쓰기: 탐욕", en: "writes: greedy" }, decode: { beam: 1, sample: false } },
  beam: { title: { ko: "쓰기: 빔 4", en: "writes: beam 4" }, decode: { beam: 4, sample: false } },
  sample: { title: { ko: "쓰기: 표집", en: "writes: sampling" }, decode: { beam: 1, sample: true } },
  nothing: { title: { ko: "읽기만", en: "reads only" }, decode: null },
};

const editedText = signal<string | null>(null); // null: as in the trace
const editedTarget = signal<string | null>(null); // the same
const decodingPreset = signal("own");

/** What the trace has read; of a text that was written on, what was given. */
const traceText = computed(() => {
  const info = currentTrace.value?.info;
  const read = (info?.sides.source ?? info?.sides.target)?.[info?.decoding && !info.sides.source ? 0 : sequence.value];
  if (!read) return "";
  const decoding = info?.sides.source ? null : info?.decoding;
  return decoding ? promptText(read, decoding) : read.text;
});

/** The target that the trace was given; null: there was none, or the model wrote it. */
const traceTarget = computed(() => {
  const info = currentTrace.value?.info;
  if (info?.decoding?.method !== "given") return null;
  const other = info.sides.source && sequence.value ? info.sides.target?.[sequence.value] : null; // the output is the first's
  return other ? other.text : info.decoding.output;
});

/** Whether the trace holds more than the text of the form. */
const hasSeveralTexts = computed(() => (currentTrace.value?.info.blocks ?? []).some(({ keys }) => (currentTrace.value?.info.sides[keys]?.length ?? 0) > 1));

/** The request as it stands in the form; a target that is given is not written. */
export const request = computed<Request>(() => {
  const requestedTarget = editedTarget.value === null ? traceTarget.value : editedTarget.value.trim() || null;
  const decode = liveModel.value?.writes && requestedTarget === null ? DECODING_PRESETS[decodingPreset.value].decode : {};
  return { text: editedText.value ?? traceText.value, target: decode ? requestedTarget : "", decode };
});

/** Runs what stands in the form; fields that nobody has changed meanwhile then say what the trace says. */
export async function submitRequest(): Promise<void> {
  if (busy.value) return;
  const [submittedText, requestedTarget] = [editedText.value, editedTarget.value];
  await runModel(request.value);
  if (sessionError.value) return;
  if (editedText.value === submittedText) editedText.value = null;
  if (editedTarget.value === requestedTarget) editedTarget.value = null;
}

/** The two texts of a pair, which a TAB parts: nobody can type one into a page. */
function splitPair(pair: string): string[] {
  const [first, ...others] = pair.split("\t");
  return [first, others.join(" ")];
}

export function RunForm() {
  const card = liveModel.value;
  if (!card) return null;
  if (!card.traces)
    return <p class="live hint">{t({ ko: "이 모델은 기록하지 못합니다.", en: "This model cannot be traced." })}</p>;
  const texts = card.pairs ? splitPair(request.value.text) : [request.value.text];
  const mayHaveTarget = card.kind === "encoder_decoder" || (editedTarget.value ?? traceTarget.value) !== null;
  const submit = (event: Event) => {
    event.preventDefault();
    void submitRequest();
  };
  const unmute = () => {
    muted.value = new Set();
    void submitRequest();
  };
  const quick = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey || !event.shiftKey) && !event.isComposing) {
      if (event.repeat) event.preventDefault(); // held down, it is one Enter
      else submit(event);
    }
  };
  return (
    <form class="live" data-role="live" onSubmit={submit}>
      {texts.map((one, i) => (
        <textarea
          key={i}
          rows={1}
          value={one}
          aria-label={t(i ? { ko: "견줄 글", en: "the other text" } : { ko: "읽을 글", en: "text to read" })}
          placeholder={t({ ko: "글을 쓰고 Enter", en: "a text, then Enter" })}
          onInput={({ currentTarget }) => (editedText.value = texts.with(i, currentTarget.value).join("\t"))}
          onKeyDown={quick}
        />
      ))}
      {card.writes && mayHaveTarget && (
        <textarea
          rows={1}
          value={editedTarget.value ?? traceTarget.value ?? ""}
          aria-label={t({ ko: "쓰게 할 글 (비우면 모델이 씀)", en: "target (empty: the model writes)" })}
          placeholder={t({ ko: "정답 (비우면 모델이 씀)", en: "target (empty: it writes)" })}
          onInput={(event) => (editedTarget.value = event.currentTarget.value)}
          onKeyDown={quick}
        />
      )}
      {hasSeveralTexts.value && <small>{t({ ko: "실행하면 이 글만", en: "a run reads this text alone" })}</small>}
      {card.writes && (
        <select
          value={decodingPreset.value}
          disabled={Boolean(request.value.target)}
          aria-label={t({ ko: "쓰는 방법", en: "how it writes" })}
          onChange={(event) => (decodingPreset.value = event.currentTarget.value)}
        >
          {Object.entries(DECODING_PRESETS).map(([id, { title, decode }]) =>
            decode || card.kind === "decoder" ? (
              <option key={id} value={id}>
                {t(title)}
              </option>
            ) : null,
          )}
        </select>
      )}
      {muted.value.size > 0 && (
        <button type="button" disabled={busy.value} onClick={unmute}>
          {t({ ko: `끈 머리 ${muted.value.size} 켜기`, en: `unmute ${muted.value.size}` })}
        </button>
      )}
      <button type="submit" class="primary" disabled={busy.value}>
        {busy.value ? t({ ko: "읽는 중…", en: "running…" }) : t({ ko: "실행", en: "run" })}
      </button>
    </form>
  );
}
