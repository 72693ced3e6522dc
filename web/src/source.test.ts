/** Rules for all sources of the page: text never becomes markup, nothing is evaluated, no external address. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const FORBIDDEN: Readonly<Record<string, RegExp>> = {
  "text turned into markup":
    /innerHTML|outerHTML\s*=|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|createContextualFragment|srcdoc=/,
  "text turned into code": /\beval\(|new Function\b|setTimeout\(\s*["'`]|javascript:/,
  "an address outside": /https?:\/\/(?!www\.w3\.org\/)/, // XML namespaces are names, not requests
  "a style as a string": /style="|style=\{`|cssText/,
};

const files = readdirSync("src", { recursive: true, encoding: "utf8" }).filter(
  (path) => /\.(ts|tsx|css)$/.test(path) && !/\.test\.tsx?$/.test(path),
);

it.each(Object.entries(FORBIDDEN))("no source contains %s", (_, pattern) => {
  expect(files.length).toBeGreaterThan(40);
  expect(files.filter((path) => pattern.test(readFileSync(join("src", path), "utf8")))).toEqual([]);
});
