/** An exported page exports itself again: the original document with the current state. */

import type { Effects } from "../trace/format";
import { type BootConfig, bootConfig } from "../trace/source";

/** The HTML of this page, which opens with `state` (a fragment without #). */
export function pageText(state: string): string {
  const root = document.documentElement.cloneNode(true) as HTMLElement;
  for (const name of Object.keys(root.dataset)) delete root.dataset[name];
  for (const unpacked of root.querySelectorAll("[data-unpacked]")) unpacked.remove();
  for (const child of root.querySelectorAll("body > :not(#app, noscript, script)")) child.remove();
  root.querySelector("#app")?.replaceChildren();
  const begin = root.querySelector("#boot")?.firstChild;
  if (begin) begin.nodeValue = scriptJson({ ...bootConfig(), state });
  return `<!doctype html>\n${root.outerHTML}\n`;
}

const BOOT = /(<script id="boot" type="application\/json">)(.*?)(<\/script>)/s;

/** A page with effects of heads, which its view of the heads shows. */
export function withEffects(page: string, effects: Effects | null): string {
  return effects ? page.replace(BOOT, (_, open: string, boot: string, close: string) => `${open}${scriptJson({ ...(JSON.parse(boot) as BootConfig), effects })}${close}`) : page;
}

/** JSON inside a script element: no < that could close it, no U+2028 or U+2029, which end lines in JavaScript. */
export function scriptJson(content: unknown): string {
  return JSON.stringify(content).replace(/[<\u2028\u2029]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
