/** The texts and formulas of steps: only what is known of the model. */

import { describe, expect, it } from "vitest";
import { openFixture } from "../../testing/fixtures";
import type { Block, HeadLocation, Model } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { LayerData } from "./layerData";
import { STEP_TEXTS, titleOf } from "./lesson";
import type { StepId } from "./steps";

const ENCODER: HeadLocation = { block: "encoder", layer: 0, head: 0, sequence: 0 };

/** The data of a model with other properties than those of the fixture. */
async function dataOf(model: Partial<Model>, block: Partial<Block> = {}): Promise<LayerData> {
  const trace = await openFixture("small");
  const { info } = trace;
  const changed = { ...info, model: { ...info.model, ...model }, blocks: info.blocks.map((each) => ({ ...each, ...(each.name === "encoder" ? block : {}) })) };
  return new LayerData(Object.create(trace, { info: { value: changed } }) as Trace, ENCODER);
}

function description(step: StepId, data: LayerData): string {
  const { description } = STEP_TEXTS[step];
  const { ko, en } = typeof description === "function" ? description(data) : description;
  return `${ko}\n${en}`;
}

describe("what is not known", () => {
  const unknown = { embedding_scale: null, bias: null, sublayer_norm: null };

  it("is not stated", async () => {
    const data = await dataOf(unknown);
    expect(description("embedding", data)).not.toContain("√d");
    for (const step of ["embedding", "feed_forward_up", "feed_forward_down", "add_attention", "add_feed_forward"] as const)
      expect(STEP_TEXTS[step].formula?.(data), step).toBeNull();
    expect(titleOf("add_attention", data).en).toBe("Add");
    expect(description("add_attention", data)).not.toContain("normalized");
  });

  it("is stated where it is known", async () => {
    const data = await dataOf({ embedding_scale: 1, bias: false, sublayer_norm: false });
    expect(description("embedding", data)).toContain("does not multiply by √d");
    for (const step of ["embedding", "feed_forward_up", "feed_forward_down", "add_attention"] as const)
      expect(STEP_TEXTS[step].formula?.(data), step).not.toBeNull();
    expect(titleOf("add_attention", data).en).toBe("Add & Norm");
  });
});

describe("the mask", () => {
  const window = { layer_kinds: "LL", sliding_window: 3 };

  it("of an encoder with a window hides no later tokens", async () => {
    const text = description("mask", await dataOf(window));
    expect(text).toContain("3 or more positions away");
    expect(text).not.toMatch(/later|뒤의/);
  });

  it("of a decoder with a window hides later tokens", async () => {
    expect(description("mask", await dataOf(window, { causal: true }))).toMatch(/뒤의[^]*later/);
  });
});

it("the particle after a number is that of its last digit", async () => {
  expect(description("scale", await dataOf({}, { scale: 0.36 }))).toContain("0.36을 곱합니다");
  expect(description("scale", await dataOf({}, { scale: 0.25 }))).toContain("0.25를 곱합니다");
});
