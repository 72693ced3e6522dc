/** What the keys do, in one table that also fills the sheet of `?`. */

import { signal } from "@preact/signals";
import { exporting } from "../export/menu";
import { cycle, free, lock, moveCell, mute, nextBlock, pin, point, turn } from "../state/moves";
import { busy, model } from "../state/open";
import * as state from "../state/state";
import { views } from "../views/index";
import type { Words } from "../words/words";
import { finding } from "./find";
import { ask } from "./live";

/** Which drawer of a narrow page is open, and whether the sheet of keys is. */
export const drawer = signal<"map" | "inspector" | null>(null);
export const helping = signal(false);

interface Binding {
  readonly keys: readonly string[]; // as KeyboardEvent.key
  readonly shown: string;
  readonly does: Words;
  readonly run: (event: KeyboardEvent) => void;
  readonly when?: () => boolean; // without it: always
}

const STEPPED: readonly string[] = ["calculation", "generation"]; // views that go by steps

const step = (by: number) => {
  state.step.value = Math.max(0, state.step.value + by);
};

export const BINDINGS: readonly Binding[] = [
  {
    keys: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"],
    shown: "← ↑ ↓ →",
    does: { ko: "칸 옮기기 (행 = 질의, 열 = 키)", en: "move over cells (row = query, column = key)" },
    run: ({ key }) =>
      moveCell(
        Number(key === "ArrowDown") - Number(key === "ArrowUp"),
        Number(key === "ArrowRight") - Number(key === "ArrowLeft"),
      ),
  },
  {
    keys: ["l", "Enter"],
    shown: "l · Enter",
    does: { ko: "고정하기, 다시 누르면 풀기", en: "lock, again: free" },
    run: () => lock(),
  },
  { keys: ["Escape"], shown: "Esc", does: { ko: "닫기, 풀기", en: "close, free" }, run: escape },
  {
    keys: ["[", "]"],
    shown: "[ ]",
    does: { ko: "층", en: "layer" },
    run: ({ key }) => turn("layer", key === "]" ? 1 : -1),
  },
  {
    keys: [",", "."],
    shown: ", .",
    does: { ko: "머리", en: "head" },
    run: ({ key }) => turn("head", key === "." ? 1 : -1),
  },
  { keys: ["b"], shown: "b", does: { ko: "다음 블록", en: "next block" }, run: nextBlock },
  {
    keys: ["p"],
    shown: "p",
    does: { ko: "머리를 핀으로 꽂기 (넷까지)", en: "pin the head (up to four)" },
    run: () => pin(),
  },
  {
    keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    shown: "1 … 9",
    does: { ko: "보기", en: "view" },
    run: ({ key }) => (state.view.value = (views[Number(key) - 1] ?? views[0]).id),
  },
  {
    keys: ["w"],
    shown: "w",
    does: { ko: "조각 · 글자 · 어절", en: "pieces · syllables · words" },
    run: () => cycle(state.unit, ["piece", "syllable", "word"]),
  },
  {
    keys: ["s"],
    shown: "s",
    does: { ko: "특수 토큰", en: "special tokens" },
    run: () => cycle(state.specials, ["plain", "dim", "renormalise"]),
  },
  {
    keys: ["v"],
    shown: "v",
    does: { ko: "값의 크기를 곱하기", en: "times the norm of the values" },
    run: () => cycle(state.measure, ["weights", "values"]),
  },
  {
    keys: ["c"],
    shown: "c",
    does: { ko: "색 눈금", en: "colour scale" },
    run: () => cycle(state.scale, ["sqrt", "linear", "log"]),
  },
  {
    keys: [" "],
    shown: "Space · ⇧ Space",
    does: { ko: "다음 · 앞 단계", en: "next · previous step" },
    run: ({ shiftKey }) => step(shiftKey ? -1 : 1),
    when: () => STEPPED.includes(state.view.value),
  },
  {
    keys: ["/", "g"],
    shown: "/ · g",
    does: { ko: "토큰이나 머리(L3 H5) 찾기", en: "find a token or a head (L3 H5)" },
    run: () => (finding.value = true),
  },
  {
    keys: ["m"],
    shown: "m",
    does: { ko: "머리를 끄거나 켜고 다시 실행", en: "mute or unmute the head and run" },
    run: muteAndRun,
  },
  { keys: ["e"], shown: "e", does: { ko: "내보내기", en: "export" }, run: () => (exporting.value = true) },
  {
    keys: ["t"],
    shown: "t",
    does: { ko: "밝게 · 어둡게", en: "light · dark" },
    run: () => cycle(state.theme, ["auto", "light", "dark"]),
  },
  { keys: ["?"], shown: "?", does: { ko: "이 표", en: "this table" }, run: () => (helping.value = true) },
];

/** Listens to the whole page. Keys that what is in focus needs itself are left to it. */
export function followKeys(): void {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (helping.value || owns(event.target as Element | null, event.key)) return;
    const name = named(event);
    const found = BINDINGS.find(({ keys, when }) => keys.includes(name) && (when?.() ?? true));
    if (!found) return;
    event.preventDefault();
    found.run(event);
  });
}

/** The key as the bindings name it: where Hangul is typed, ㅡ stands on the key of m. */
function named({ key, code, shiftKey }: KeyboardEvent): string {
  const letter = /^Key([A-Z])$/.exec(code)?.[1];
  if (!letter || !/^(Process|\p{Script=Hangul})$/u.test(key)) return key;
  return shiftKey ? letter : letter.toLowerCase();
}

const TYPED_INTO = "input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]";
const PRESSED = "button, a, summary, input";
const MOVED_IN = "input, select, [role=tablist], [role=slider], [role=radiogroup]";
const SCROLLED = "[role=region], pre[tabindex], aside[tabindex]";

function owns(element: Element | null, key: string): boolean {
  if (!element?.closest) return false;
  if (element.closest(TYPED_INTO)) return key !== "Escape";
  if ((key === " " || key === "Enter") && element.closest(PRESSED)) return true;
  return key.startsWith("Arrow") && (element.closest(MOVED_IN) !== null || scrolls(element, key));
}

/** Whether this arrow scrolls the element: one that takes the focus for that, and holds more than is seen. */
function scrolls(element: Element, key: string): boolean {
  if (!element.matches(SCROLLED)) return false;
  const { scrollHeight, clientHeight, scrollWidth, clientWidth } = element;
  return /Up|Down/.test(key) ? scrollHeight > clientHeight : scrollWidth > clientWidth;
}

function escape(): void {
  if (exporting.value) exporting.value = false;
  else if (finding.value) finding.value = false;
  else if (drawer.value) drawer.value = null;
  else if (state.hoverQuery.value !== null || state.hoverKey.value !== null) point(null, null);
  else free();
}

function muteAndRun(): void {
  if (!model.value?.traces || busy.value) return;
  mute();
  void ask();
}
