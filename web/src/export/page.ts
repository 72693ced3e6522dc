/** An exported page exports itself again: the original document with the current state. */

import { bootConfig } from "../trace/source";

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

/** JSON inside a script element: no < that could close it, no U+2028 or U+2029, which end lines in JavaScript. */
export function scriptJson(content: unknown): string {
  return JSON.stringify(content).replace(/[<\u2028\u2029]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
