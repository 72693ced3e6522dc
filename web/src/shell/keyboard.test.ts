/** Keys that are pressed anywhere on the page. */

import { afterEach, beforeAll, expect, it } from "vitest";
import { currentTrace } from "../state/session";
import { step, unit, view } from "../state/state";
import { testTrace } from "../testing/testTrace";
import { listenToKeys } from "./keyboard";

/** Presses a key; false: the default action was prevented. */
const press = (key: string, more: KeyboardEventInit = {}) => dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));

beforeAll(listenToKeys);

afterEach(() => {
  [unit.value, view.value, step.value] = ["piece", "lines", 0];
});

it.each(["w", "ㅈ", "Process"])("a shortcut is recognised by its key code with a Korean keyboard: %s", (key) => {
  press(key, { code: "KeyW" });
  expect(unit.value).toBe("syllable");
});

it("a letter of another layout is that letter", () => {
  press("z", { code: "KeyW" });
  expect(unit.value).toBe("piece");
});

it("Space moves through steps in views with steps, and has its default action elsewhere", () => {
  expect(press(" ")).toBe(true);
  expect(step.value).toBe(0);
  view.value = "generation";
  expect(press(" ")).toBe(false);
  expect(step.value).toBe(1);
  press(" ", { shiftKey: true });
  expect(step.value).toBe(0);
});

it("arrows scroll overflowing regions, and move between cells elsewhere", async () => {
  currentTrace.value = await testTrace();
  const region = document.createElement("div");
  region.setAttribute("role", "region");
  document.body.append(region);
  const scrolled = (key: string) => region.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  expect(scrolled("ArrowDown")).toBe(false);
  Object.defineProperty(region, "scrollHeight", { value: 900 });
  expect(scrolled("ArrowDown")).toBe(true);
  expect(scrolled("ArrowRight")).toBe(false);
  region.remove();
  currentTrace.value = null;
});
