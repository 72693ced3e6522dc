/** The settings that are rarely changed, in one place: how the model generates, and how numbers are displayed. */

import { signal } from "@preact/signals";
import { currentTrace } from "../state/session";
import { measure, scale, sequence, specials, unit } from "../state/state";
import type { Frame } from "../trace/format";
import { frameName } from "../i18n/blocks";
import { type Message, t } from "../i18n/i18n";
import { Choice } from "../views/choice";
import { DecodingSettings } from "./runForm";

export const settingsOpen = signal(false);

export function Settings() {
  const title: Message = { ko: "설정", en: "settings" };
  return (
    <div class="settings" data-role="settings">
      <button type="button" aria-expanded={settingsOpen.value} onClick={() => (settingsOpen.value = !settingsOpen.value)}>
        {t(title)}
      </button>
      {settingsOpen.value && (
        <div class="settings-panel" role="group" aria-label={t(title)}>
          <DecodingSettings />
          <DisplaySettings />
        </div>
      )}
    </div>
  );
}

function DisplaySettings() {
  return (
    <>
      <Choice
        title={{ ko: "단위", en: "unit" }}
        of={unit}
        options={{
          piece: { ko: "서브워드", en: "pieces" },
          syllable: { ko: "음절", en: "syllables" },
          word: { ko: "어절", en: "words" },
        }}
      />
      <Choice
        title={{ ko: "특수 토큰", en: "special tokens" }}
        of={specials}
        options={{
          plain: { ko: "그대로", en: "as they are" },
          dim: { ko: "흐리게", en: "dimmed" },
          renormalise: { ko: "제외 후 재정규화", en: "excluded, renormalized" },
        }}
      />
      <Choice
        title={{ ko: "표시 값", en: "measure" }}
        of={measure}
        options={{
          weights: { ko: "가중치", en: "weights" },
          values: { ko: "가중치 × ‖v W_O‖", en: "weights × ‖v W_O‖" },
        }}
      />
      <Choice
        title={{ ko: "색상 스케일", en: "color scale" }}
        of={scale}
        options={{
          sqrt: { ko: "제곱근", en: "square root" },
          linear: { ko: "선형", en: "linear" },
          log: { ko: "로그", en: "logarithm" },
        }}
      />
    </>
  );
}

/** The text of a trace of several, or the checkpoint of a text through a training. */
export function SequenceChoice() {
  const info = currentTrace.value?.info;
  if (info?.frames?.length) return <FrameChoice frames={info.frames} />;
  const texts = Object.values(info?.sides ?? {})[0] ?? [];
  if (texts.length < 2) return null;
  return (
    <label class="choice several">
      {t({ ko: "문장", en: "text" })}
      <select value={sequence.value} onChange={(event) => (sequence.value = Number(event.currentTarget.value))}>
        {texts.map(({ text }, i) => (
          <option key={i} value={i}>
            {i} · {text.slice(0, 24)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A slider over the checkpoints: the arrow keys, Home and End move it, and every picture follows. */
function FrameChoice({ frames }: { readonly frames: readonly Frame[] }) {
  const current = frameName(frames[sequence.value]);
  return (
    <label class="choice several frames">
      {t({ ko: "학습", en: "training" })}
      <input
        type="range"
        data-role="frames"
        min={0}
        max={frames.length - 1}
        value={sequence.value}
        aria-valuetext={current}
        onInput={(event) => (sequence.value = Number(event.currentTarget.value))}
      />
      <output>{current}</output>
    </label>
  );
}
