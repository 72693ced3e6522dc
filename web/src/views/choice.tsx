/** Controls of settings: a select and a checkbox. */

import type { Signal } from "@preact/signals";
import { refuseOption } from "../state/settings";
import { type Message, t } from "../i18n/i18n";
import "./choice.css";

interface ChoiceProps<T extends string> {
  readonly title: Message;
  readonly of: Signal<T>;
  readonly options: Readonly<Record<T, Message>>;
}

export function Choice<T extends string>({ title, of, options }: ChoiceProps<T>) {
  return (
    <label class="choice">
      {t(title)}
      <select value={selected(of, options)} onChange={(event) => (of.value = event.currentTarget.value as T)}>
        {(Object.keys(options) as T[]).map((option) => (
          <option key={option} value={option}>
            {t(options[option])}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Toggle({ title, of }: { readonly title: Message; readonly of: Signal<boolean> }) {
  return (
    <label class="choice">
      <input type="checkbox" checked={of.value} onChange={(event) => (of.value = event.currentTarget.checked)} />
      {t(title)}
    </label>
  );
}

/** The value of a setting, or the first option if the URL has an invalid value, which is refused. */
export function selected<T extends string>(of: Signal<T>, options: Readonly<Record<T, Message>>): T {
  if (Object.hasOwn(options, of.value)) return of.value;
  queueMicrotask(() => refuseOption(of)); // not during rendering
  return (Object.keys(options) as T[])[0];
}
