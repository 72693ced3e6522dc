/** The generation view. */

import { render } from "preact";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { languageSetting, step } from "../../state/state";
import { INFO, testTrace } from "../../testing/testTrace";
import type { Decoding, Sequence, Step } from "../../trace/format";
import { generation } from "./generation";

const [ROW] = INFO.sides.source ?? [];
const [BLOCK] = INFO.blocks;
const TARGET: Sequence = { ...ROW, text: "안 하", pieces: ["[CLS]", "ìķĪ", "Ġ", "íķĺ", "[PAD]"], spans: [[0, 0], [0, 1], [1, 2], [2, 3], [3, 3]] };
const STEP: Step = { cache: 0, before: [], after: [], chosen: { id: 12, piece: "íķĺ", log_probability: -1 }, beams: [] };

/** A trace of two decoding steps, without the attention weights. */
function written(prompt: number, chosen: Step["chosen"] = STEP.chosen) {
  const decoding: Decoding = { method: "beam", settings: {}, text: null, prompt, steps: [STEP, { ...STEP, chosen }], output: "" };
  return testTrace({ sides: { target: [TARGET] }, blocks: [{ ...BLOCK, name: "decoder", queries: "target", keys: "target" }], decoding });
}

const text = () => document.querySelector(".generation")?.textContent ?? "";
const ENDED = "The answer has ended";

beforeEach(() => {
  [languageSetting.value, step.value] = ["en", 0];
});

afterEach(() => {
  render(null, document.body);
  [languageSetting.value, step.value] = ["auto", 0];
});

it("an error is shown instead of the end of the answer", async () => {
  const trace = await written(3);
  render(<generation.Stage trace={trace} />, document.body);
  expect(text()).not.toContain(ENDED);
  await vi.waitFor(() => expect(document.querySelector("[role=alert]")?.textContent).toContain("the trace has no tensor decoder."));
  expect(text()).not.toContain(ENDED);
});

it("a step without a chosen token is after the end of the answer", async () => {
  step.value = 1;
  render(<generation.Stage trace={await written(5, null)} />, document.body);
  expect(document.querySelector(".hint")?.textContent).toContain(ENDED);
});

it("byte pieces are decoded", async () => {
  const trace = await written(3);
  render(<generation.Stage trace={trace} />, document.body);
  const pieces = [...document.querySelectorAll(".generation-prefix > bdi")].map(({ textContent }) => textContent);
  expect(pieces).toEqual(["[CLS]", "안", "␣"]);
});

it("a step after the last one is clamped", async () => {
  step.value = 99;
  render(<generation.Stage trace={await written(3)} />, document.body);
  await vi.waitFor(() => expect(step.value).toBe(1));
});
