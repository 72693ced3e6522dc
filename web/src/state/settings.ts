/** Settings of single views; they are part of the URL, like the shared state. */

import { type Signal, signal } from "@preact/signals";

export type Value = number | string | boolean;

/** Numbers and switches take any value of their type; names only those of the given type. */
type Widened<T extends Value> = T extends number ? number : T extends boolean ? boolean : T;

interface Setting {
  readonly signal: Signal<Value>;
  readonly initial: Value;
}

/** All settings by their name in the URL, "view.name". */
export const settings = new Map<string, Setting>();
/** URL values of settings that do not exist yet. */
export const pendingSettings = new Map<string, string>();
/** The number of settings: a signal that changes when one is created. */
export const settingsCount = signal(0);

/** The signal of a view's setting, created on first use: `setting("lines", "mass", 0.9)`. */
export function setting<T extends Value>(view: string, name: string, initial: T): Signal<Widened<T>> {
  const key = `${view}.${name}`;
  const known = settings.get(key);
  if (known) return known.signal as unknown as Signal<Widened<T>>;
  const pending = pendingSettings.get(key);
  pendingSettings.delete(key);
  const created = signal<Value>(pending === undefined ? initial : parseValue(pending, initial));
  settings.set(key, { signal: created, initial });
  queueMicrotask(() => settingsCount.value++); // not during rendering
  return created as unknown as Signal<Widened<T>>;
}

/** A URL value converted to the type of `initial`; `initial` if it is invalid. */
export function parseValue(text: string, initial: Value): Value {
  if (typeof initial === "string") return text;
  if (typeof initial === "boolean") return text === "1" ? true : text === "0" ? false : initial;
  const number = text.trim() ? Number(text) : Number.NaN;
  return Number.isFinite(number) ? number : initial;
}

export function formatValue(value: Value): string {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}
