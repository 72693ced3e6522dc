/**
 * Builds the page: app.js and app.css, then one script for each bundle of views, then those of exported models.
 *
 * A bundle holds one view or more and is fetched when one of them is first opened. Modules that app.js contains are not
 * bundled again: they are external and come from app.js (src/shared.ts), so that every view uses the same state.
 */

import { copyFileSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const WEB = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE = join(WEB, "src");
const OUT = process.argv[2] ?? join(WEB, "../src/jumok/viewer/static");

const listed = readFileSync(join(SOURCE, "shared.ts"), "utf8").matchAll(/^ {2}"([^"]+)":/gm);
const shared = new Set(Array.from(listed, ([, name]) => name));

/** The name under which app.js shares a module; null for a module of the bundle itself. */
function sharedName(id, from) {
  if (shared.has(id)) return id;
  const path = id.startsWith(".") && from ? join(dirname(from), id) : id;
  const name = relative(SOURCE, path).replaceAll("\\", "/").replace(/\.tsx?$/, "");
  return shared.has(name) ? name : null;
}

/** Modules that a bundle must not copy, because they hold state or are in app.js already. */
const APP_MODULES = /^src\/(draw|i18n|shell|state|trace)\//;

const bundles = {
  name: "bundles",
  enforce: "pre",
  resolveId(id, from) {
    if (id.endsWith(".css")) return "\0no-style";
    const name = sharedName(id, from);
    return name ? { id: name, external: true } : null;
  },
  load: (id) => (id === "\0no-style" ? "" : null),
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle))
      for (const id of Object.keys(chunk.modules ?? {})) {
        const path = relative(WEB, id).replaceAll("\\", "/");
        if (APP_MODULES.test(path) || path.startsWith("node_modules/"))
          this.error(`${path} would be in both ${chunk.fileName} and app.js; list it in src/shared.ts`);
      }
  },
};

const logLevel = "warn";
await build({ configFile: join(WEB, "vite.config.ts"), root: WEB, logLevel, build: { outDir: OUT } });
for (const file of readdirSync(join(SOURCE, "bundles"))) {
  const globals = (id) => `jumok[${JSON.stringify(id)}]`;
  const output = { format: "iife", entryFileNames: "[name].js", globals };
  await build({
    configFile: join(WEB, "vite.config.ts"),
    root: WEB,
    logLevel,
    plugins: [bundles],
    build: { outDir: OUT, rollupOptions: { input: join(SOURCE, "bundles", file), output } },
  });
}

// The page of an exported model, and the module that runs one in another page: files of their own.
const MODEL = join(SOURCE, "model");
for (const [input, output] of [
  ["main.tsx", { format: "iife", entryFileNames: "model.js", assetFileNames: "model.[ext]" }],
  ["module.ts", { format: "es", entryFileNames: "jumok.js" }],
])
  await build({
    configFile: join(WEB, "vite.config.ts"),
    root: WEB,
    logLevel,
    build: { outDir: OUT, rollupOptions: { input: join(MODEL, input), output, preserveEntrySignatures: "strict" } },
  });
copyFileSync(join(MODEL, "jumok.d.ts"), join(OUT, "jumok.d.ts"));
