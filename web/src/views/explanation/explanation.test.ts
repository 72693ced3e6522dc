/** A deleted word belongs to one text. */

import { batch } from "@preact/signals";
import { afterEach, expect, it, test } from "vitest";
import { diverging } from "../../draw/colours";
import { currentFigure } from "../../export/figures";
import { currentTrace } from "../../state/session";
import { setting } from "../../state/settings";
import { sequence, view } from "../../state/state";
import { INFO, testTrace } from "../../testing/testTrace";
import { tint } from "./explanation";

const deleted = setting<number>("explanation", "without", -1);
const chosen = setting<number>("explanation", "label", -1);

afterEach(() => {
  [currentTrace.value, sequence.value, deleted.value, chosen.value, view.value] = [null, 0, -1, -1, "lines"];
});

it("another text resets the deleted word", async () => {
  deleted.value = 1; // set by the address
  currentTrace.value = await testTrace();
  expect(deleted.value).toBe(1);
  currentTrace.value = await testTrace();
  expect(deleted.value).toBe(-1);
  deleted.value = 2;
  sequence.value = 1;
  expect(deleted.value).toBe(-1);
});

it("an address can select a text and a word at once", async () => {
  currentTrace.value = await testTrace();
  batch(() => ([sequence.value, deleted.value] = [1, 2]));
  expect(deleted.value).toBe(2);
});

/** Relative luminance as WCAG 2 defines it. */
function luminance(colour: string): number {
  const channels = colour.startsWith("#") ? [1, 3, 5].map((i) => Number.parseInt(colour.slice(i, i + 2), 16)) : (colour.match(/\d+/g) ?? []).map(Number);
  const [r, g, b] = channels.map((channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

test.each(["light", "dark"] as const)("text on every background has a contrast of at least 4.5: %s", (shade) => {
  for (let value = -1; value <= 1; value += 1 / 128) {
    const { background, color } = tint(diverging(shade), value, 1);
    const [dark, light] = [luminance(background), luminance(color)].sort((a, b) => a - b);
    expect((light + 0.05) / (dark + 0.05)).toBeGreaterThanOrEqual(4.5);
  }
});

test("the Python figure is that of the chosen label", () => {
  view.value = "explanation";
  const info = { ...INFO, classification: { labels: ["no", "yes"], sequences: [] } };
  expect(currentFigure(info)?.options).toEqual({});
  chosen.value = 0;
  expect(currentFigure(info)?.options).toEqual({ label: 0 });
  chosen.value = 9; // of another model
  expect(currentFigure(info)?.options).toEqual({});
});
