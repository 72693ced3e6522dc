/**
 * Builds the page: app.js and app.css, then the script of each part.
 *
 * A part is one view or a few, in a script that is fetched when one of them is first opened. It holds what is its own
 * alone; every module that app.js has as well is taken from there (src/shared.ts), so that all see the same state.
 */

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const WEB = dirname(dirname(fileURLToPath(import.meta.url)));
const SOURCE = join(WEB, "src");
const OUT = process.argv[2] ?? join(WEB, "../src/jumok/viewer/static");

const listed = readFileSync(join(SOURCE, "shared.ts"), "utf8").matchAll(/^ {2}"([^"]+)":/gm);
const shared = new Set(Array.from(listed, ([, name]) => name));

/** The name under which app.js shares a module; null for a part's own. */
function sharedName(id, from) {
  if (shared.has(id)) return id;
  const path = id.startsWith(".") && from ? join(dirname(from), id) : id;
  const name = relative(SOURCE, path).replaceAll("\\", "/").replace(/\.tsx?$/, "");
  return shared.has(name) ? name : null;
}

/** Modules of the page that a part may not have a copy of: they hold state, or app.js has them anyway. */
const COMMON = /^src\/(draw|shell|state|trace|words)\//;

const parts = {
  name: "parts",
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
        if (COMMON.test(path) || path.startsWith("node_modules/"))
          this.error(`${path} would be in ${chunk.fileName} and in app.js; list it in src/shared.ts`);
      }
  },
};

const logLevel = "warn";
await build({ configFile: join(WEB, "vite.config.ts"), root: WEB, logLevel, build: { outDir: OUT } });
for (const file of readdirSync(join(SOURCE, "parts"))) {
  const globals = (id) => `jumok[${JSON.stringify(id)}]`;
  const output = { format: "iife", entryFileNames: "[name].js", globals };
  await build({
    configFile: join(WEB, "vite.config.ts"),
    root: WEB,
    logLevel,
    plugins: [parts],
    build: { outDir: OUT, rollupOptions: { input: join(SOURCE, "parts", file), output } },
  });
}
