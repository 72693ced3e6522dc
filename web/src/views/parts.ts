/** Views in scripts of their own: fetched when they are first opened, or already here in a page of one file. */

import { signal } from "@preact/signals";
import { sentence } from "../state/loaded";
import { boot } from "../trace/source";
import { say } from "../words/words";
import type { Drawn } from "./view";

export type Part = "neuron" | "lesson" | "story";

/** What draws each view, as far as its script has come. */
const here = signal<ReadonlyMap<string, Drawn>>(new Map());

/** Why a script did not come; empty while nothing is wrong. */
export const trouble = signal("");

const asked = new Set<Part>();

const LEFT_OUT = {
  ko: "작게 저장한 페이지라 이 보기가 빠졌습니다. jumok view --full이나 full=True로 다시 저장하세요.",
  en: "This page was kept small, without this view: keep it again with jumok view --full, or full=True.",
};

/** Called by the script of a part: these views can be drawn now. */
export function add(views: Readonly<Record<string, Drawn>>): void {
  here.value = new Map([...here.value, ...Object.entries(views)]);
}

/** What draws a view; null while its script is on the way. */
export function drawn(id: string, part: Part | null): Drawn | null {
  const found = here.value.get(id) ?? null;
  if (!found && part && !asked.has(part)) {
    asked.add(part);
    trouble.value = boot().mode === "embedded" ? say(LEFT_OUT) : "";
    if (trouble.value) return null;
    import(/* @vite-ignore */ new URL(`${part}.js`, document.baseURI).href).catch((error: unknown) => {
      asked.delete(part); // it may be asked for again
      trouble.value = sentence(error);
    });
  }
  return found;
}
