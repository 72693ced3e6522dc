/** Settings that belong to one view; they stand in the URL beside the shared state. */

import { type Signal, signal } from "@preact/signals";

export type Value = number | string | boolean;

/** Numbers and switches take any value of their kind; names only those of the type given. */
type Wide<T extends Value> = T extends number ? number : T extends boolean ? boolean : T;

interface Setting {
  readonly signal: Signal<Value>;
  readonly first: Value;
}

/** Every setting there is, by its name in the URL, "view.name". */
export const settings = new Map<string, Setting>();
/** What the URL says of settings that nobody has asked for yet. */
export const waiting = new Map<string, string>();
/** How many settings there are: it grows when one is made. */
export const made = signal(0);

/** The signal of a view's setting, made when first asked for: `setting("lines", "mass", 0.9)`. */
export function setting<T extends Value>(view: string, name: string, first: T): Signal<Wide<T>> {
  const key = `${view}.${name}`;
  const known = settings.get(key);
  if (known) return known.signal as unknown as Signal<Wide<T>>;
  const said = waiting.get(key);
  waiting.delete(key);
  const fresh = signal<Value>(said === undefined ? first : read(said, first));
  settings.set(key, { signal: fresh, first });
  queueMicrotask(() => made.value++); // not while something is drawn
  return fresh as unknown as Signal<Wide<T>>;
}

/** A value as the URL holds it, in the kind of `first`; `first` where it is none. */
export function read(text: string, first: Value): Value {
  if (typeof first === "string") return text;
  if (typeof first === "boolean") return text === "1" ? true : text === "0" ? false : first;
  const number = text.trim() ? Number(text) : Number.NaN;
  return Number.isFinite(number) ? number : first;
}

export function write(value: Value): string {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}
