/**
 * Writes manifest.json and THIRD_PARTY.txt next to the built page.
 *
 * The manifest holds the sha256 of every source and of every built file, so that a test without Node detects a stale
 * build. THIRD_PARTY.txt holds the licences of the packages that are part of app.js.
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const WEB = dirname(dirname(fileURLToPath(import.meta.url)));
const STATIC = join(WEB, "../src/jumok/viewer/static");
const BUILT = ["app.css", "app.js", "bench.js", "flow.js", "jumok.d.ts", "jumok.js", "lesson.js", "live.js", "model.css", "model.js", "neuron.js", "reading.js"];
const CONFIGURATION = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "scripts/build.mjs", "scripts/manifest.mjs"];

/** Sources of the page: every file in src except tests and test data. */
function sources() {
  const files = readdirSync(join(WEB, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|tsx|css|json)$/.test(entry.name) && !/\.(test\.tsx?|golden\.json)$/.test(entry.name))
    .map((entry) => relative(WEB, join(entry.parentPath, entry.name)).replaceAll("\\", "/"))
    .filter((path) => !path.startsWith("src/testing/"));
  return [...CONFIGURATION, ...files].sort();
}

function sha256(path) {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}

/** Name, version and licence text of the packages that are shipped. */
function thirdParty() {
  const { dependencies } = JSON.parse(readFileSync(join(WEB, "package.json"), "utf8"));
  const script = readFileSync(join(WEB, "package-lock.json"), "utf8");
  const { packages } = JSON.parse(script);
  const names = new Set();
  const add = (name) => {
    if (names.has(name)) return;
    names.add(name);
    for (const next of Object.keys(packages[`node_modules/${name}`].dependencies ?? {})) add(next);
  };
  for (const name of Object.keys(dependencies)) add(name);
  return [...names].sort().map((name) => {
    const folder = join(WEB, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? readFileSync(join(folder, file), "utf8").trim() : "";
    return `${name} ${version} (${license})\n\n${text}\n`;
  });
}

const table = (paths, root) => Object.fromEntries(paths.map((path) => [path, sha256(join(root, path))]));
const manifest = { built: table(BUILT, STATIC), sources: table(sources(), WEB) };
writeFileSync(join(STATIC, "manifest.json"), `${JSON.stringify(manifest, null, 1)}\n`);
const head =
  "The page contains these packages, unchanged but for being bundled.\nThe font JumokHangul.woff2 has its licence in JumokHangul-OFL.txt.\n";
writeFileSync(join(STATIC, "THIRD_PARTY.txt"), [head, ...thirdParty()].join(`\n${"-".repeat(72)}\n\n`));
