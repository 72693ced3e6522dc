/** Views in scripts of their own: fetched when they are first opened, or already here in a page of one file. */

import { signal } from "@preact/signals";
import { errorText } from "../state/useAsync";
import { bootConfig } from "../trace/source";
import { t } from "../i18n/i18n";
import type { Drawn } from "./view";

export type Part = "neuron" | "lesson" | "story";

/** What draws each view, as far as its script has come. */
const here = signal<ReadonlyMap<string, Drawn>>(new Map());

/** Why scripts did not come, by part; empty: it may yet. */
const troubles = signal<ReadonlyMap<Part, string>>(new Map());

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
  if (!found && part && !asked.has(part) && bootConfig().mode !== "embedded") ask(part);
  return found;
}

/** Why the script of a part did not come; empty while nothing is wrong. */
export function trouble(part: Part | null): string {
  if (!part) return "";
  return bootConfig().mode === "embedded" ? t(LEFT_OUT) : (troubles.value.get(part) ?? "");
}

/** Lets a script that did not come be asked for again. */
export function again(part: Part | null): void {
  if (!part || !troubles.value.get(part)) return;
  asked.delete(part);
  tell(part, "");
}

function ask(part: Part): void {
  asked.add(part); // and it stays if the script does not come: to ask at every drawing would never end
  import(/* @vite-ignore */ new URL(`${part}.js`, document.baseURI).href).catch((error: unknown) => tell(part, errorText(error)));
}

function tell(part: Part, said: string): void {
  troubles.value = new Map(troubles.value).set(part, said);
}
