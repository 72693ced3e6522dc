/** The slider over the checkpoints of a training. */

import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, expect, it } from "vitest";
import { currentTrace } from "../state/session";
import { block, language, sequence } from "../state/state";
import { INFO, testTrace } from "../testing/testTrace";
import { SequenceChoice } from "./settings";

afterEach(() => {
  render(null, document.body);
  currentTrace.value = null;
  sequence.value = 0;
});

const FRAMES = [
  { step: 50, metric: "", score: null },
  { step: 100, metric: "accuracy", score: 0.8125 },
];

it("moves through the checkpoints and names step and score", async () => {
  const [row] = INFO.sides.source ?? [];
  const trace = await testTrace({ sides: { source: [row, row] }, frames: FRAMES });
  [currentTrace.value, block.value] = [trace, "encoder"];
  render(<SequenceChoice />, document.body);
  const slider = document.querySelector<HTMLInputElement>("[data-role=frames]");
  if (!slider) throw new Error("there is no slider");
  expect([slider.min, slider.max, slider.value]).toEqual(["0", "1", "0"]);
  expect(slider.getAttribute("aria-valuetext")).toMatch(/^(step 50|50스텝)$/);
  slider.value = "1";
  await act(() => {
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  });
  expect(sequence.value).toBe(1);
  expect(slider.getAttribute("aria-valuetext")).toBe(
    language.value === "ko" ? "100스텝 · 검증 accuracy 0.8125" : "step 100 · dev accuracy 0.8125",
  );
  expect(document.querySelector("output")?.textContent).toBe(slider.getAttribute("aria-valuetext"));
});

it("texts that are no checkpoints are chosen from a list", async () => {
  const [row] = INFO.sides.source ?? [];
  currentTrace.value = await testTrace({ sides: { source: [row, row] } });
  render(<SequenceChoice />, document.body);
  expect(document.querySelector("[data-role=frames]")).toBeNull();
  expect(document.querySelectorAll("option")).toHaveLength(2);
});
