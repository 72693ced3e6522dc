/** Views in scripts of their own: fetched when they are first opened, or already here in a page of one file. */

import { signal } from "@preact/signals";
import { errorText } from "../state/useAsync";
import { bootConfig } from "../trace/source";
import { t } from "../i18n/i18n";
import type { ViewRenderer } from "./view";

export type Bundle = "neuron" | "lesson" | "story";

/** What draws each view, as far as its script has come. */
const renderers = signal<ReadonlyMap<string, ViewRenderer>>(new Map());

/** Why scripts did not come, by part; empty: it may yet. */
const errors = signal<ReadonlyMap<Bundle, string>>(new Map());

const requested = new Set<Bundle>();

const NOT_INCLUDED = {
  ko: "작게 저장한 페이지라 이 보기가 빠졌습니다. jumok view --full이나 full=True로 다시 저장하세요.",
  en: "This page was kept small, without this view: keep it again with jumok view --full, or full=True.",
};

/** Called by the script of a part: these views can be drawn now. */
export function registerViews(views: Readonly<Record<string, ViewRenderer>>): void {
  renderers.value = new Map([...renderers.value, ...Object.entries(views)]);
}

/** What draws a view; null while its script is on the way. */
export function viewRenderer(id: string, part: Bundle | null): ViewRenderer | null {
  const found = renderers.value.get(id) ?? null;
  if (!found && part && !requested.has(part) && bootConfig().mode !== "embedded") fetchBundle(part);
  return found;
}

/** Why the script of a part did not come; empty while nothing is wrong. */
export function bundleError(part: Bundle | null): string {
  if (!part) return "";
  return bootConfig().mode === "embedded" ? t(NOT_INCLUDED) : (errors.value.get(part) ?? "");
}

/** Lets a script that did not come be asked for again. */
export function retryBundle(part: Bundle | null): void {
  if (!part || !errors.value.get(part)) return;
  requested.delete(part);
  setError(part, "");
}

function fetchBundle(part: Bundle): void {
  requested.add(part); // and it stays if the script does not come: to ask at every drawing would never end
  import(/* @vite-ignore */ new URL(`${part}.js`, document.baseURI).href).catch((error: unknown) => setError(part, errorText(error)));
}

function setError(part: Bundle, message: string): void {
  errors.value = new Map(errors.value).set(part, message);
}
