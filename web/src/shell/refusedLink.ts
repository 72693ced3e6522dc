/** Names what the address has and the page cannot show: a view that does not exist, with the nearest one, and other entries. */

import { computed, signal } from "@preact/signals";
import { type Message, t } from "../i18n/i18n";
import { bootConfig } from "../trace/source";
import { currentTrace, openBestView } from "../state/session";
import { refused as entries } from "../state/settings";
import { view } from "../state/state";
import { viewOf, views } from "../views/index";

const refused = signal<{ readonly name: string; readonly instead: string } | null>(null);

/** The sentence, until another view is chosen. */
export const unknownView = computed(() => (refused.value && ["", refused.value.instead].includes(view.value) ? t(sentence(refused.value.name)) : null));

/** The entries that were refused, until they are dismissed. */
export const refusedEntries = computed(() => {
  if (entries.value.length === 0) return null;
  const shown = entries.value.map((entry) => entry.slice(0, 40)).join(", ");
  return t({
    ko: `링크의 ${shown}: 여기에 없는 값이라 쓰지 않았습니다.`,
    en: `In the link, ${shown}: no such value here; it was not used.`,
  });
});

/** Replaces an unknown view by the first one; run in an effect. */
export function refuseUnknownView(): void {
  const name = view.value;
  const trace = currentTrace.value;
  if (!name || viewOf(name)) {
    if (name && refused.peek()?.instead === "") refused.value = { name: refused.peek()?.name ?? "", instead: name };
    return;
  }
  view.value = "";
  if (trace) openBestView(trace.info, bootConfig().mode !== "embedded");
  refused.value = { name, instead: view.peek() };
}

function sentence(name: string): Message {
  const shown = [...name].slice(0, 40).join("");
  const near = nearest(name);
  return {
    ko: `${shown} 보기는 없습니다. 가장 가까운 보기는 v=${near}입니다.`,
    en: `There is no view ${JSON.stringify(shown)}; the nearest one is v=${near}.`,
  };
}

/** The id of the view whose id or title is nearest. */
export function nearest(name: string): string {
  const all = views.flatMap(({ id, title }) => [id, title.en, title.ko].map((text) => ({ id, distance: distance(name.toLowerCase(), text) })));
  return all.reduce((best, each) => (each.distance < best.distance ? each : best)).id;
}

/** The edit distance (Levenshtein 1966). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++)
    row = row.reduce<number[]>((next, above, j) => [...next, j === 0 ? i : Math.min(above + 1, next[j - 1] + 1, row[j - 1] + Number(a[i - 1] !== b[j - 1]))], []);
  return row[b.length];
}
