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
/** Entries of the address that were not applied, as `key=value`; the page names them. */
export const refused = signal<readonly string[]>([]);
/** Entries of the address, until a trace shows whether it has what they select. */
export const asked = new Map<string, string>();
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
  if (pending !== undefined && !isValue(pending, initial)) queueMicrotask(() => refuse(key, pending));
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

/** Whether a URL value has the type of `initial`. */
export function isValue(text: string, initial: Value): boolean {
  if (typeof initial === "boolean") return text === "1" || text === "0";
  return typeof initial === "string" || (text.trim() !== "" && Number.isFinite(Number(text)));
}

export function refuse(key: string, text: string): void {
  const entry = `${key}=${text}`;
  if (!refused.peek().includes(entry)) refused.value = [...refused.peek(), entry];
}

/** Resets a setting whose value is none of its options. */
export function refuseOption(of: Signal<string>): void {
  for (const [key, { signal, initial }] of settings) {
    if ((signal as unknown) !== of || of.peek() === initial) continue;
    refuse(key, of.peek());
    signal.value = initial;
  }
}

/** Refuses what the address asked for if something else is selected, once. */
export function checkAsked(selected: Readonly<Record<string, string | number | null>>): void {
  for (const [key, value] of Object.entries(selected)) {
    const text = asked.get(key);
    if (text === undefined) continue;
    asked.delete(key);
    if (value === null || (typeof value === "number" ? Number(text) !== value : text !== value)) refuse(key, text);
  }
}

export function formatValue(value: Value): string {
  return typeof value === "boolean" ? (value ? "1" : "0") : String(value);
}
