/** The whole state as the fragment of the address, `#token=…&v=lines&L=1`; what is as at first is left out. */

import { batch, effect, type Signal } from "@preact/signals";
import type { BlockName, Place } from "../trace/format";
import { made, read, settings, waiting, write } from "./settings";
import * as state from "./state";

interface Field {
  readonly key: string;
  readonly text: () => string; // empty: as at first
  readonly take: (text: string | undefined) => void; // undefined: back to the first
}

function natural(key: string, of: Signal<number>): Field {
  return {
    key,
    text: () => (of.value > 0 ? String(of.value) : ""),
    take: (text) => (of.value = numberOf(text) ?? 0),
  };
}

function maybe(key: string, of: Signal<number | null>): Field {
  return {
    key,
    text: () => (of.value === null ? "" : String(of.value)),
    take: (text) => (of.value = numberOf(text)),
  };
}

function oneOf<T extends string>(key: string, of: Signal<T>, choices: readonly T[]): Field {
  return {
    key,
    text: () => (of.value === choices[0] ? "" : of.value),
    take: (text) => (of.value = choices.find((choice) => choice === text) ?? choices[0]),
  };
}

const view: Field = {
  key: "v",
  text: () => (state.view.value === "lines" ? "" : state.view.value),
  take: (text) => (state.view.value = text || "lines"),
};

const pins: Field = {
  key: "pin",
  text: () => state.pinned.value.map(({ block, layer, head }) => `${block}.${layer}.${head}`).join("~"),
  take: (text) => (state.pinned.value = (text ?? "").split("~").flatMap(placeOf).slice(0, 4)),
};

// The first choice of each is the value of state.ts at the start.
const FIELDS: readonly Field[] = [
  view,
  natural("s", state.sequence),
  oneOf("b", state.block, ["encoder", "decoder", "cross"]),
  natural("L", state.layer),
  natural("H", state.head),
  maybe("q", state.query),
  maybe("k", state.key),
  oneOf("u", state.unit, ["piece", "syllable", "word"]),
  oneOf("sp", state.specials, ["plain", "dim", "renormalise"]),
  oneOf("m", state.measure, ["weights", "values"]),
  oneOf("sc", state.scale, ["sqrt", "linear", "log"]),
  natural("t", state.step),
  oneOf("lang", state.spoken, ["auto", "ko", "en"]),
  oneOf("theme", state.theme, ["auto", "light", "dark"]),
  pins,
];

/** The state as a fragment, without `#` and without the token. */
export function encode(): string {
  void made.value;
  const said = FIELDS.map(({ key, text }) => [key, text()]).filter(([, text]) => text);
  for (const [key, { signal, first }] of settings) {
    if (signal.value !== first) said.push([key, write(signal.value)]);
  }
  said.push(...waiting);
  return said.map((pair) => pair.map(escaped).join("=")).join("&");
}

/** Takes the state from a fragment; what it does not say goes back to the first, what makes no sense is passed over. */
export function decode(fragment: string): void {
  const said = new Map<string, string>();
  for (const pair of fragment.split("&")) {
    const [key, text] = pair.split("=", 2).map(plain);
    if (key && text !== undefined && key !== "token") said.set(key, text);
  }
  batch(() => {
    for (const { key, take } of FIELDS) take(said.get(key));
    for (const [key, { signal, first }] of settings) {
      const text = said.get(key);
      signal.value = text === undefined ? first : read(text, first);
    }
  });
  waiting.clear();
  for (const [key, text] of said) if (key.includes(".") && !settings.has(key)) waiting.set(key, text);
}

/** Keeps state and address alike from now on; a page that may not change its address goes without. */
export function followAddress(): void {
  take();
  addEventListener("hashchange", take);
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const text = encode();
    clearTimeout(timer); // browsers allow few changes in a second
    timer = setTimeout(() => show(text), 100);
  });
}

let known = ""; // the fragment that state and address last shared

function take(): void {
  known = location.hash;
  decode(known.slice(1));
}

function show(text: string): void {
  if (location.hash !== known) return; // somebody has just changed it: it is taken in a moment
  const token = /(?:^#|&)(token=[^&]*)/.exec(location.hash)?.[1];
  const fragment = [token, text].filter(Boolean).join("&");
  if (fragment === location.hash.slice(1)) return;
  try {
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
    known = location.hash;
  } catch {
    // inside a frame of a notebook the address is not ours
  }
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function placeOf(text: string): Place[] {
  const found = /^(encoder|decoder|cross)\.(\d{1,9})\.(\d{1,9})$/.exec(text);
  if (!found) return [];
  const [, block, layer, head] = found;
  return [{ sequence: state.sequence.value, block: block as BlockName, layer: Number(layer), head: Number(head) }];
}

function escaped(text: string): string {
  return encodeURIComponent(text.replace(/\p{Cs}/gu, "\ufffd")); // half a character is none
}
