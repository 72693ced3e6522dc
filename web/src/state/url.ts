/** The whole state as the fragment of the address, `#token=…&v=lines&L=1`; defaults are omitted. */

import { batch, effect, type Signal } from "@preact/signals";
import type { BlockName, HeadLocation } from "../trace/format";
import { asked, formatValue, isValue, parseValue, pendingSettings, refuse, refused, settings, settingsCount } from "./settings";
import { currentRun, currentTrace, type Run, runIsPending, runOfAddress, showRun, startWith } from "./session";
import * as state from "./state";

interface Field {
  readonly key: string;
  readonly text: () => string; // empty: the default
  readonly apply: (text: string | undefined) => void; // undefined: resets to the default
  readonly accepts: (text: string) => boolean; // whether an entry can be applied
}

function naturalField(key: string, of: Signal<number>): Field {
  return {
    key,
    text: () => (of.value > 0 ? String(of.value) : ""),
    apply: (text) => (of.value = parseNatural(text) ?? 0),
    accepts: isNatural,
  };
}

function optionalField(key: string, of: Signal<number | null>): Field {
  return {
    key,
    text: () => (of.value === null ? "" : String(of.value)),
    apply: (text) => (of.value = parseNatural(text)),
    accepts: isNatural,
  };
}

function choiceField<T extends string>(key: string, of: Signal<T>, choices: readonly T[]): Field {
  return {
    key,
    text: () => (of.value === choices[0] ? "" : of.value),
    apply: (text) => (of.value = choices.find((choice) => choice === text) ?? choices[0]),
    accepts: (text) => choices.some((choice) => choice === text),
  };
}

const MAX_PINS = 4;

const view: Field = {
  key: "v",
  text: () => state.view.value,
  apply: (text) => (state.view.value = text || (currentTrace.peek() ? "lines" : "")), // a page opened without it chooses the view
  accepts: () => true, // shell/refusedLink.tsx names the nearest one
};

const pins: Field = {
  key: "pin",
  text: () => state.pinned.value.map(({ block, layer, head }) => `${block}.${layer}.${head}`).join("~"),
  apply: (text) => (state.pinned.value = (text ?? "").split("~").flatMap(parsePin).slice(0, MAX_PINS)),
  accepts: (text) => text.split("~").length <= MAX_PINS && isEach(parsePin)(text),
};

// The first choice of each is the initial value in state.ts.
const FIELDS: readonly Field[] = [
  view,
  naturalField("s", state.sequence),
  choiceField("b", state.block, ["encoder", "decoder", "cross"]),
  {
    key: "L",
    text: () => (state.layer.value === state.LAST ? "" : String(state.layer.value)),
    apply: (text) => (state.layer.value = parseNatural(text) ?? (state.view.value === "calculation" ? 0 : state.LAST)), // the calculation begins with the tokens
    accepts: isNatural,
  },
  naturalField("H", state.head),
  optionalField("q", state.query),
  optionalField("k", state.key),
  choiceField("u", state.unit, ["piece", "syllable", "word"]),
  choiceField("sp", state.specials, ["plain", "dim", "renormalise"]),
  choiceField("m", state.measure, ["weights", "values"]),
  choiceField("sc", state.scale, ["sqrt", "linear", "log"]),
  naturalField("t", state.step),
  choiceField("lang", state.languageSetting, ["auto", "ko", "en"]),
  choiceField("theme", state.theme, ["auto", "light", "dark"]),
  pins,
];

/** The state as a fragment, without `#` and without the token. */
export function encodeState(): string {
  void settingsCount.value;
  const entries = FIELDS.map(({ key, text }) => [key, text()]).filter(([, text]) => text);
  for (const [key, { signal, initial }] of settings) {
    if (signal.value !== initial) entries.push([key, formatValue(signal.value)]);
  }
  entries.push(...pendingSettings);
  return entries.map((pair) => pair.map(encodeText).join("=")).join("&");
}

/** Sets the state from a fragment; missing entries are reset to the default, invalid ones are refused. */
export function decodeState(fragment: string): void {
  const entries = parseFragment(fragment);
  asked.clear();
  batch(() => {
    refused.value = [];
    for (const [key, text] of entries) {
      asked.set(key, text);
      if (!isAccepted(key, text)) refuse(key, text);
    }
    for (const { key, apply } of FIELDS) apply(entries.get(key));
    for (const [key, { signal, initial }] of settings) {
      const text = entries.get(key);
      signal.value = text === undefined ? initial : parseValue(text, initial);
    }
  });
  pendingSettings.clear();
  for (const [key, text] of entries) if (key.includes(".") && !settings.has(key)) pendingSettings.set(key, text);
}

/** Whether an entry has a known key and a value for it; settings of views may be created later. */
function isAccepted(key: string, text: string): boolean {
  const known = settings.get(key);
  if (known) return isValue(text, known.initial);
  return FIELDS.find((field) => field.key === key)?.accepts(text) ?? RUN_ENTRIES[key]?.(text) ?? key.includes(".");
}

const RUN_ENTRIES: Readonly<Record<string, (text: string) => boolean>> = {
  x: () => true,
  y: () => true,
  cp: () => true,
  d: (text) => text === "none" || isEach(parseDecoding)(text),
  mute: (text) => isEach(parsePin)(text),
};

/** A run as part of the fragment: x text, y target, d decoding, mute muted heads, cp checkpoint; empty: the trace that the page was started with. */
export function encodeRun(run: Run | null): string {
  if (!run) return "";
  const entries = [["x", run.text]];
  if (run.target !== null) entries.push(["y", run.target]);
  const decode = run.decode === null ? "none" : Object.entries(run.decode).map(([name, value]) => `${name}:${value}`).join("~");
  if (decode) entries.push(["d", decode]);
  if (run.mute.length) entries.push(["mute", run.mute.join("~")]);
  if (run.checkpoint) entries.push(["cp", run.checkpoint]);
  return entries.map((pair) => pair.map(encodeText).join("=")).join("&");
}

/** The run of a fragment; null: none, or its text is missing. */
export function decodeRun(fragment: string): Run | null {
  const entries = parseFragment(fragment);
  const text = entries.get("x");
  if (text === undefined) return null;
  const decoding = entries.get("d") ?? "";
  const heads = (entries.get("mute") ?? "").split("~").flatMap(parsePin);
  return {
    text,
    target: entries.get("y") ?? null,
    decode: decoding === "none" ? null : Object.fromEntries(decoding.split("~").flatMap(parseDecoding)),
    mute: heads.map(({ block, layer, head }) => `${block}.${layer}.${head}`),
    checkpoint: entries.get("cp") ?? null,
  };
}

function parseDecoding(text: string): [string, number | boolean][] {
  const found = /^(\w{1,40}):(true|false|-?[\d.]{1,20}(?:e-?\d{1,3})?)$/.exec(text);
  if (!found) return [];
  const [, name, value] = found;
  return [[name, value === "true" || value === "false" ? value === "true" : Number(value)]];
}

/** Keeps state and address in sync; a page that may not change its address only reads it. */
export function syncWithAddress(): void {
  readAddress();
  startWith((runOfAddress.value = decodeRun(lastFragment.slice(1))));
  addEventListener("hashchange", () => {
    if (location.hash === lastFragment) return;
    readAddress();
    const run = decodeRun(lastFragment.slice(1));
    if (!run && history.state !== WRITTEN) return; // typed, or a link: it changes the view only
    runOfAddress.value = run;
    if (encodeRun(run) !== encodeRun(currentRun.peek())) void showRun(run);
  });
  let timer: ReturnType<typeof setTimeout> | undefined;
  let wanted: string | null = null; // null: nothing to write
  let written = encodeRun(currentRun.peek());
  const write = () => {
    if (wanted !== null) writeAddress(wanted);
    wanted = null;
  };
  effect(() => {
    const [run, view] = [encodeRun(currentRun.value), encodeState()];
    clearTimeout(timer);
    wanted = null;
    if (runIsPending.value) return; // the address is ahead of the page
    wanted = [view, run].filter(Boolean).join("&");
    if (run !== written) write();
    else if (isQuiet()) queueMicrotask(write); // a reload right after a click loses nothing
    else timer = setTimeout(write, 200);
    written = run;
  });
}

const BURST = 20; // changes of the address in 10 s that are written at once; browsers refuse more than 100
let changes: readonly number[] = []; // when the address was changed, the last 10 s

function isQuiet(): boolean {
  const now = performance.now();
  changes = changes.filter((time) => now - time < 10_000);
  return changes.length < BURST;
}

const WRITTEN = "jumok"; // the state of entries of the history that this page has written
let lastFragment = ""; // the fragment at the last synchronisation

function readAddress(): void {
  lastFragment = location.hash;
  decodeState(lastFragment.slice(1));
}

function writeAddress(text: string): void {
  if (location.hash !== lastFragment) return; // the address has just changed and will be read next
  const before = lastFragment.slice(1);
  const token = /(?:^|&)(token=[^&]*)/.exec(before)?.[1];
  const fragment = [token, text].filter(Boolean).join("&");
  if (fragment === before && history.state === WRITTEN) return;
  const address = fragment ? `#${fragment}` : location.pathname + location.search;
  try {
    if (isSamePlace(before, fragment)) history.replaceState(WRITTEN, "", address);
    else history.pushState(WRITTEN, "", address);
    lastFragment = location.hash;
    changes = [...changes, performance.now()];
  } catch {
    // the address cannot be changed inside a notebook frame
  }
}

/** Whether the run and the view, between which Back and Forward move, are the same; a page opened without a view chooses it. */
function isSamePlace(before: string, after: string): boolean {
  const [from, to] = [before, after].map((fragment) => parseFragment(fragment).get("v"));
  return (!from || from === to) && encodeRun(decodeRun(before)) === encodeRun(decodeRun(after));
}

function parseFragment(fragment: string): Map<string, string> {
  const entries = new Map<string, string>();
  for (const pair of fragment.split("&")) {
    const [key, text] = pair.split("=", 2).map(decodeText);
    if (key && text !== undefined && key !== "token") entries.set(key, text);
  }
  return entries;
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function parseNatural(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function isNatural(text: string): boolean {
  return parseNatural(text) !== null;
}

/** Whether each part of a list can be parsed. */
function isEach(parse: (part: string) => readonly unknown[]): (text: string) => boolean {
  return (text) => text.split("~").every((part) => parse(part).length === 1);
}

function parsePin(text: string): HeadLocation[] {
  const found = /^(encoder|decoder|cross)\.(\d{1,9})\.(\d{1,9})$/.exec(text);
  if (!found) return [];
  const [, block, layer, head] = found;
  return [{ sequence: state.sequence.value, block: block as BlockName, layer: Number(layer), head: Number(head) }];
}

function encodeText(text: string): string {
  return encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd")); // a lone surrogate cannot be encoded
}
