/** The header: the model, the input form, and the settings of the whole page. */

import { ExportMenu } from "../export/menu";
import { currentTrace, liveModel } from "../state/session";
import { cycle } from "../state/actions";
import { language, languageSetting, sequence, theme } from "../state/state";
import type { TraceInfo } from "../trace/format";
import { BLOCKS } from "../i18n/blocks";
import { type Message, t } from "../i18n/i18n";
import { Find, findOpen } from "./find";
import { helpOpen, openDrawer } from "./keyboard";
import { Settings } from "./settings";

const THEMES = {
  auto: { ko: "테마: 자동", en: "theme: auto" },
  light: { ko: "밝은 테마", en: "light" },
  dark: { ko: "어두운 테마", en: "dark" },
};

export function Header() {
  const info = currentTrace.value?.info;
  return (
    <>
      <div class="model">
        <h1>{info?.title || liveModel.value?.title || "jumok"}</h1>
        {info && <p class="model-line">{modelLine(info)}</p>}
      </div>
      <div class="actions">
        <Drawer of="map" title={{ ko: "헤드 맵", en: "head map" }} />
        <Drawer of="inspector" title={{ ko: "상세 정보", en: "inspector" }} />
        <Find />
        <Settings />
        <button type="button" aria-keyshortcuts="/" onClick={() => (findOpen.value = !findOpen.value)}>
          {t({ ko: "찾기", en: "find" })}
        </button>
        {currentTrace.value && <ExportMenu trace={currentTrace.value} />}
        <button
          type="button"
          lang={language.value === "ko" ? "en" : "ko"}
          onClick={() => (languageSetting.value = language.value === "ko" ? "en" : "ko")}
        >
          {t({ ko: "English", en: "한국어" })}
        </button>
        <button type="button" aria-keyshortcuts="t" onClick={() => cycle(theme, ["auto", "light", "dark"])}>
          <span class="long-name">{t(THEMES[theme.value])}</span>
          <span class="short-name" aria-hidden="true">
            ◐
          </span>
        </button>
        <button
          type="button"
          aria-keyshortcuts="?"
          aria-label={t({ ko: "단축키와 도움말", en: "keyboard shortcuts and help" })}
          onClick={() => (helpOpen.value = true)}
        >
          ?
        </button>
      </div>
    </>
  );
}

function Drawer({ of, title }: { readonly of: "map" | "inspector"; readonly title: Message }) {
  return (
    <button
      type="button"
      class="narrow"
      aria-expanded={openDrawer.value === of}
      onClick={() => (openDrawer.value = openDrawer.value === of ? null : of)}
    >
      {t(title)}
    </button>
  );
}

const TASKS: Readonly<Record<string, Message>> = {
  classification: { ko: "분류", en: "classification" },
  multi_label_classification: { ko: "다중 레이블 분류", en: "multi-label classification" },
  regression: { ko: "회귀", en: "regression" },
  similarity: { ko: "문장 유사도", en: "similarity" },
  tagging: { ko: "태깅", en: "tagging" },
  sequence_to_sequence: { ko: "시퀀스 투 시퀀스", en: "sequence to sequence" },
  language_modeling: { ko: "언어 모델", en: "language model" },
  masked_language_modeling: { ko: "마스크 언어 모델", en: "masked language model" },
};

/** "nsmc · encoder 4 × 4 · d 256 · 5.4 M". */
function modelLine({ model, blocks, task, muted, regression }: TraceInfo): string {
  const details = blocks.map((block) => `${t(BLOCKS[block.name])} ${block.layers}×${block.heads}`);
  if (!["jumok", "unknown"].includes(model.family)) details.unshift(model.family);
  if (task) details.unshift(t(TASKS[task] ?? { ko: task, en: task }));
  if (model.d_model) details.push(`d ${model.d_model}`, size(model.parameters));
  const score = regression?.[sequence.value];
  if (score !== undefined) details.push(t({ ko: `예측값 ${score.toFixed(3)}`, en: `prediction ${score.toFixed(3)}` }));
  if (muted.length) details.push(t({ ko: `꺼진 헤드 ${muted.length}`, en: `${muted.length} muted` }));
  return details.filter(Boolean).join(" · ");
}

function size(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)} B`;
  if (parameters >= 1e6) return `${(parameters / 1e6).toFixed(1)} M`;
  return parameters > 0 ? `${(parameters / 1e3).toFixed(0)} k` : "";
}
