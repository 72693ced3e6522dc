/** Views in separate scripts: fetched on first use, or embedded in an exported page. */

import { signal } from "@preact/signals";
import { errorText } from "../state/useAsync";
import { bootConfig } from "../trace/source";
import { t } from "../i18n/i18n";
import type { ViewRenderer } from "./view";

export type Bundle = "flow" | "neuron" | "lesson" | "reading" | "bench";

/** The renderers of the views whose scripts are loaded. */
const renderers = signal<ReadonlyMap<string, ViewRenderer>>(new Map());

/** Why scripts failed to load, by bundle. */
const errors = signal<ReadonlyMap<Bundle, string>>(new Map());

const requested = new Set<Bundle>();

const NOT_INCLUDED = {
  ko: "작게 저장한 페이지라 이 보기가 포함되지 않았습니다. jumok view --full이나 full=True로 다시 저장하세요.",
  en: "This page was exported without this view to keep it small; export it again with jumok view --full, or full=True.",
};

/** Called by the script of a bundle: its views can be rendered now. */
export function registerViews(views: Readonly<Record<string, ViewRenderer>>): void {
  renderers.value = new Map([...renderers.value, ...Object.entries(views)]);
}

/** The renderer of a view; null while its script is loading. */
export function viewRenderer(id: string, part: Bundle | null): ViewRenderer | null {
  const found = renderers.value.get(id) ?? null;
  if (!found && part && !requested.has(part) && bootConfig().mode !== "embedded") fetchBundle(part);
  return found;
}

/** Why the script of a bundle failed to load; empty: no error. */
export function bundleError(part: Bundle | null): string {
  if (!part) return "";
  return bootConfig().mode === "embedded" ? t(NOT_INCLUDED) : (errors.value.get(part) ?? "");
}

/** Allows a script that failed to load to be requested again. */
export function retryBundle(part: Bundle | null): void {
  if (!part || !errors.value.get(part)) return;
  requested.delete(part);
  setError(part, "");
}

function fetchBundle(part: Bundle): void {
  requested.add(part); // also after an error: requesting in every render would never end
  import(/* @vite-ignore */ new URL(`${part}.js`, document.baseURI).href).catch((error: unknown) => setError(part, errorText(error)));
}

function setError(part: Bundle, message: string): void {
  errors.value = new Map(errors.value).set(part, message);
}
