/** The header: what model this is, a text for it to read, and what concerns the page as a whole. */

import { ExportMenu } from "../export/menu";
import { model, opened } from "../state/open";
import { cycle } from "../state/moves";
import { language, sequence, spoken, theme } from "../state/state";
import type { TraceInfo } from "../trace/format";
import { BLOCKS } from "../words/blocks";
import { say, type Words } from "../words/words";
import { Find, finding } from "./find";
import { drawer, helping } from "./keyboard";
import { Live } from "./live";

const THEMES = {
  auto: { ko: "밝기: 자동", en: "theme: auto" },
  light: { ko: "밝게", en: "light" },
  dark: { ko: "어둡게", en: "dark" },
};

export function Header() {
  const info = opened.value?.info;
  return (
    <>
      <div class="model">
        <h1>{info?.title || model.value?.title || "jumok"}</h1>
        {info && <p class="model-line">{modelLine(info)}</p>}
      </div>
      <Live />
      <div class="actions">
        <Drawer of="map" title={{ ko: "지도", en: "map" }} />
        <Drawer of="inspector" title={{ ko: "자세히", en: "numbers" }} />
        <Find />
        <button type="button" aria-keyshortcuts="/" onClick={() => (finding.value = !finding.value)}>
          {say({ ko: "찾기", en: "find" })}
        </button>
        {opened.value && <ExportMenu trace={opened.value} />}
        <button
          type="button"
          lang={language.value === "ko" ? "en" : "ko"}
          onClick={() => (spoken.value = language.value === "ko" ? "en" : "ko")}
        >
          {say({ ko: "English", en: "한국어" })}
        </button>
        <button type="button" aria-keyshortcuts="t" onClick={() => cycle(theme, ["auto", "light", "dark"])}>
          {say(THEMES[theme.value])}
        </button>
        <button
          type="button"
          aria-keyshortcuts="?"
          aria-label={say({ ko: "글쇠와 도움말", en: "keys and help" })}
          onClick={() => (helping.value = true)}
        >
          ?
        </button>
      </div>
    </>
  );
}

function Drawer({ of, title }: { readonly of: "map" | "inspector"; readonly title: Words }) {
  return (
    <button
      type="button"
      class="narrow"
      aria-expanded={drawer.value === of}
      onClick={() => (drawer.value = drawer.value === of ? null : of)}
    >
      {say(title)}
    </button>
  );
}

/** "nsmc · encoder 4 × 4 · d 256 · 5.4 M". */
function modelLine({ model, blocks, task, muted, regression }: TraceInfo): string {
  const said = blocks.map((block) => `${say(BLOCKS[block.name])} ${block.layers}×${block.heads}`);
  if (!["jumok", "unknown"].includes(model.family)) said.unshift(model.family);
  if (task) said.unshift(task);
  if (model.d_model) said.push(`d ${model.d_model}`, size(model.parameters));
  const score = regression?.[sequence.value];
  if (score !== undefined) said.push(say({ ko: `점수 ${score.toFixed(3)}`, en: `score ${score.toFixed(3)}` }));
  if (muted.length) said.push(say({ ko: `끈 머리 ${muted.length}`, en: `${muted.length} muted` }));
  return said.filter(Boolean).join(" · ");
}

function size(parameters: number): string {
  if (parameters >= 1e9) return `${(parameters / 1e9).toFixed(1)} B`;
  if (parameters >= 1e6) return `${(parameters / 1e6).toFixed(1)} M`;
  return parameters > 0 ? `${(parameters / 1e3).toFixed(0)} k` : "";
}
