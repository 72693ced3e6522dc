/** The colours of shell/theme.css for canvases, recomputed when the theme changes. */

import { computed, signal } from "@preact/signals";
import { theme } from "../state/state";
import type { Shade } from "./colours";

const dark = matchMedia("(prefers-color-scheme: dark)");
const forced = matchMedia("(forced-colors: active)");
const systemIsDark = signal(dark.matches);
const systemForces = signal(forced.matches);
dark.addEventListener("change", () => (systemIsDark.value = dark.matches));
forced.addEventListener("change", () => (systemForces.value = forced.matches));

/** Light or dark, from the setting or from the system. */
export const shade = computed<Shade>(() => {
  if (theme.value !== "auto") return theme.value;
  return systemIsDark.value ? "dark" : "light";
});

const NAMES = [
  "paper",
  "raised",
  "ink",
  "soft",
  "line",
  "edge",
  "accent",
  "focus",
  "pad",
  "hidden",
  "good",
  "bad",
] as const;
export type Palette = Readonly<Record<(typeof NAMES)[number] | "font" | "mono", string>>;

/** The CSS variables by name: `palette.value.ink`. */
export const palette = computed<Palette>(() => {
  void systemForces.value;
  document.documentElement.dataset.theme = shade.value;
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(
    [...NAMES, "font", "mono"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  ) as Palette;
});
