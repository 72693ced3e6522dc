/** The settings of the matrix view: viewport, colour range, table. */

import { batch } from "@preact/signals";
import { setting } from "../../state/settings";
import { measure } from "../../state/state";
import type { DisplayedWeights } from "../../trace/display";
import type { Viewport } from "./frame";

export const RANGES = { one: { ko: "0 … 1", en: "0 … 1" }, max: { ko: "0 … 최댓값", en: "0 … maximum" } };

export const zoom = setting("matrix", "zoom", 1);
export const left = setting("matrix", "x", 0); // the first visible column
export const top = setting("matrix", "y", 0);
export const range = setting<keyof typeof RANGES>("matrix", "range", "one");
export const asTable = setting("matrix", "table", false);

/** The viewport of all panels. */
export function viewport(): Viewport {
  return { zoom: zoom.value, x: left.value, y: top.value };
}

/** The value with the darkest colour. */
export function largest({ matrix }: DisplayedWeights): number {
  return measure.value === "values" || range.value === "max" ? matrix.data.reduce((a, b) => Math.max(a, b), 0) : 1;
}

/** Stores a viewport in the settings, rounded to two decimals. */
export function setViewport(next: Viewport): void {
  const round = (number: number) => Math.round(100 * number) / 100;
  batch(() => {
    zoom.value = round(next.zoom);
    left.value = round(next.x);
    top.value = round(next.y);
  });
}
