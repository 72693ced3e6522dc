/** The keyboard shortcuts, in one table that also fills the help dialog. */

import { signal } from "@preact/signals";
import { exportOpen } from "../export/menu";
import { cycle, hoverOver, moveCell, nextBlock, stepIndex, toggleLock, toggleMute, togglePin, unlock } from "../state/actions";
import { busy, liveModel } from "../state/session";
import * as state from "../state/state";
import { views } from "../views/index";
import type { Message } from "../i18n/i18n";
import { findOpen } from "./find";
import { submitRequest } from "./runForm";
import { settingsOpen } from "./settings";

/** The open drawer of a narrow page, and whether the help dialog is open. */
export const openDrawer = signal<"map" | "inspector" | null>(null);
export const helpOpen = signal(false);

interface Binding {
  readonly keys: readonly string[]; // as KeyboardEvent.key
  readonly label: string;
  readonly description: Message;
  readonly run: (event: KeyboardEvent) => void;
  readonly when?: () => boolean; // default: always
}

const VIEWS_WITH_STEPS: readonly string[] = ["flow", "calculation", "generation"]; // views with steps

const step = (by: number) => {
  state.step.value = Math.max(0, state.step.value + by);
};

export const BINDINGS: readonly Binding[] = [
  {
    keys: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"],
    label: "← ↑ ↓ →",
    description: { ko: "셀 이동 (행 = 쿼리, 열 = 키)", en: "move between cells (row = query, column = key)" },
    run: ({ key }) =>
      moveCell(
        Number(key === "ArrowDown") - Number(key === "ArrowUp"),
        Number(key === "ArrowRight") - Number(key === "ArrowLeft"),
      ),
  },
  {
    keys: ["l", "Enter"],
    label: "l · Enter",
    description: { ko: "고정, 다시 누르면 해제", en: "lock, again: unlock" },
    run: () => toggleLock(),
  },
  { keys: ["Escape"], label: "Esc", description: { ko: "닫기, 해제", en: "close, unlock" }, run: escape },
  {
    keys: ["[", "]"],
    label: "[ ]",
    description: { ko: "레이어", en: "layer" },
    run: ({ key }) => stepIndex("layer", key === "]" ? 1 : -1),
  },
  {
    keys: [",", "."],
    label: ", .",
    description: { ko: "헤드", en: "head" },
    run: ({ key }) => stepIndex("head", key === "." ? 1 : -1),
  },
  { keys: ["b"], label: "b", description: { ko: "다음 블록", en: "next block" }, run: nextBlock },
  {
    keys: ["p"],
    label: "p",
    description: { ko: "비교할 헤드 고정 (최대 4개)", en: "pin the head (up to four)" },
    run: () => togglePin(),
  },
  {
    keys: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    label: "0 … 9",
    description: { ko: "보기", en: "view" },
    run: ({ key }) => (state.view.value = views[Number(key)].id),
  },
  {
    keys: ["w"],
    label: "w",
    description: { ko: "서브워드 · 음절 · 어절", en: "pieces · syllables · words" },
    run: () => cycle(state.unit, ["piece", "syllable", "word"]),
  },
  {
    keys: ["s"],
    label: "s",
    description: { ko: "특수 토큰", en: "special tokens" },
    run: () => cycle(state.specials, ["plain", "dim", "renormalise"]),
  },
  {
    keys: ["v"],
    label: "v",
    description: { ko: "값 벡터의 크기 곱하기", en: "multiply by the value norms" },
    run: () => cycle(state.measure, ["weights", "values"]),
  },
  {
    keys: ["c"],
    label: "c",
    description: { ko: "색상 스케일", en: "color scale" },
    run: () => cycle(state.scale, ["sqrt", "linear", "log"]),
  },
  {
    keys: [" "],
    label: "Space · ⇧ Space",
    description: { ko: "다음 · 이전 단계", en: "next · previous step" },
    run: ({ shiftKey }) => step(shiftKey ? -1 : 1),
    when: () => VIEWS_WITH_STEPS.includes(state.view.value),
  },
  {
    keys: ["/", "g"],
    label: "/ · g",
    description: { ko: "토큰이나 헤드(L3 H5) 찾기", en: "find a token or a head (L3 H5)" },
    run: () => (findOpen.value = true),
  },
  {
    keys: ["m"],
    label: "m",
    description: { ko: "헤드를 끄거나 켜고 다시 실행", en: "mute or unmute the head and run" },
    run: muteAndRun,
  },
  { keys: ["e"], label: "e", description: { ko: "내보내기", en: "export" }, run: () => (exportOpen.value = true) },
  {
    keys: ["t"],
    label: "t",
    description: { ko: "밝은 · 어두운 테마", en: "light · dark" },
    run: () => cycle(state.theme, ["auto", "light", "dark"]),
  },
  { keys: ["?"], label: "?", description: { ko: "이 표", en: "this table" }, run: () => (helpOpen.value = true) },
];

/** Listens to the whole page. Keys that the focused element handles itself are left to it. */
export function listenToKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (helpOpen.value || handlesKey(event.target as Element | null, event.key)) return;
    const name = keyName(event);
    const found = BINDINGS.find(({ keys, when }) => keys.includes(name) && (when?.() ?? true));
    if (!found) return;
    event.preventDefault();
    found.run(event);
  });
}

/** The key as the bindings name it: with a Korean keyboard, ㅡ is on the key of m. */
function keyName({ key, code, shiftKey }: KeyboardEvent): string {
  const letter = /^Key([A-Z])$/.exec(code)?.[1];
  if (!letter || !/^(Process|\p{Script=Hangul})$/u.test(key)) return key;
  return shiftKey ? letter : letter.toLowerCase();
}

const TEXT_FIELDS = "input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]";
const PRESSABLE = "button, a, summary, input";
const ARROW_CONTROLS = "input, select, [role=tablist], [role=slider], [role=radiogroup]";
const SCROLLABLE = "[role=region], pre[tabindex], aside[tabindex]";

function handlesKey(element: Element | null, key: string): boolean {
  if (!element?.closest) return false;
  if (element.closest(TEXT_FIELDS)) return key !== "Escape";
  if ((key === " " || key === "Enter") && element.closest(PRESSABLE)) return true;
  return key.startsWith("Arrow") && (element.closest(ARROW_CONTROLS) !== null || scrolls(element, key));
}

/** Whether this arrow key scrolls the element: a focusable region with overflowing content. */
function scrolls(element: Element, key: string): boolean {
  if (!element.matches(SCROLLABLE)) return false;
  const { scrollHeight, clientHeight, scrollWidth, clientWidth } = element;
  return /Up|Down/.test(key) ? scrollHeight > clientHeight : scrollWidth > clientWidth;
}

function escape(): void {
  const field = document.activeElement;
  if (field instanceof HTMLElement && field.matches("[data-role=live] textarea")) field.blur(); // shortcuts are available again
  else if (exportOpen.value) exportOpen.value = false;
  else if (findOpen.value) findOpen.value = false;
  else if (settingsOpen.value) settingsOpen.value = false;
  else if (openDrawer.value) openDrawer.value = null;
  else if (state.hoverQuery.value !== null || state.hoverKey.value !== null) hoverOver(null, null);
  else unlock();
}

function muteAndRun(): void {
  if (!liveModel.value?.traces || busy.value) return;
  toggleMute();
  void submitRequest();
}
