/** Settings that belong to one view; they stand in the URL beside the shared state. */

import { type Signal, signal } from "@preact/signals";

export type Value = number | string | boolean;

/** Numbers and switches take any value of their kind; names only those of the type given. */
type Widened<T extends Value> = T extends number ? number : T extends boolean ? boolean : T;

interface Setting {
  readonly signal: Signal<Value>;
  readonly initial: Value;
}

/** Every setting there is, by its name in the URL, "view.name". */
export const settings = new Map<string, Setting>();
/** What the URL says of settings that nobody has asked for yet. */
export const pendingSettings = new Map<string, string>();
/** How many settings there are: it grows when one is made. */
export const settingsCount = signal(0);

/** The signal of a view's setting, made when first asked for: `setting("lines", "mass", 0.9)`. */
export function setting<T extends Value>(view: string, name: string, initial: T): Signal<Widened<T>> {
  const key = `${view}.${name}`;
  const known = settings.get(key);
  if (known) return known.signal as unknown as Signal<Widened<T>>;
  const pending = pendingSettings.get(key);
  pendingSettings.delete(key);
  const created = signal<Value>(pending === undefined ? initial : parseValue(pending, initial));
  settings.set(key, { signal: created, initial });
  queueMicrotask(() => settingsCount.value++); // not while something is drawn
  return created as unknown as Signal<Widened<T>>;
}

/** A value as the URL holds it, in the kind of `first`; `first` where it is none. */
export function parseValue(text: string, initial: Value): Value {
  if (typeof initial === "string") return text;
  if (typeof initial === "boolean") return text === "1" ? true : text === "0" ? false : initial;
  const number = text.trim() ? Number(text) : Number.NaN;
  return Number.isFinite(number) ? number : initial;
}

export function formatValue(value: Value): string {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}
