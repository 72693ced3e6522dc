/** The shared state: a set of signals, all of them in the URL except for hover. */

import { computed, signal } from "@preact/signals";
import type { BlockName, HeadLocation } from "../trace/format";

export type Unit = "piece" | "syllable" | "word";
export type Specials = "plain" | "dim" | "renormalise";
export type Measure = "weights" | "values"; // values: weight x |v W_O|
export type Scale = "linear" | "sqrt" | "log";
export type Language = "ko" | "en";
export type Theme = "light" | "dark" | "auto";

export const view = signal(""); // empty: not chosen yet
export const sequence = signal(0);
export const block = signal<BlockName>("encoder");
export const layer = signal(0);
/** The layer of an address without one, until it is clamped to the last layer of the trace. */
export const LAST = Number.MAX_SAFE_INTEGER;
export const head = signal(0);
/** Up to four heads to compare; empty: only the focused head. */
export const pinned = signal<readonly HeadLocation[]>([]);

/** Locked rows and columns, as numbers of pieces; null: none. */
export const query = signal<number | null>(null);
export const key = signal<number | null>(null);
/** Under the pointer or the keyboard focus; never in the URL. */
export const hoverQuery = signal<number | null>(null);
export const hoverKey = signal<number | null>(null);

export const unit = signal<Unit>("piece");
export const specials = signal<Specials>("plain");
export const measure = signal<Measure>("weights");
export const scale = signal<Scale>("sqrt");
export const step = signal(0); // of the decoding or of the calculation
/** As chosen on the page or in its address; "auto": the language of the browser. */
export const languageSetting = signal<Language | "auto">("auto");
export const language = computed<Language>(() =>
  languageSetting.value !== "auto" ? languageSetting.value : /^ko\b/i.test(navigator.language) ? "ko" : "en",
);
export const theme = signal<Theme>("auto");

/** The head in focus. */
export const focusedHead = computed<HeadLocation>(() => ({
  sequence: sequence.value,
  block: block.value,
  layer: layer.value,
  head: head.value,
}));

/** The focused pieces: hovered first, else locked. */
export const focusQuery = computed(() => hoverQuery.value ?? query.value);
export const focusKey = computed(() => hoverKey.value ?? key.value);

/** The fraction of the attention weight that the view draws, 0 … 1; null: not applicable. Not in the URL. */
export const drawnFraction = signal<number | null>(null);
