import { beforeEach, describe, expect, it } from "vitest";
import { setting, settings } from "../../state/settings";
import { block, head, languageSetting, layer, sequence, step } from "../../state/state";
import { openFixture } from "../../testing/fixtures";
import { svg, table } from "./picture";

beforeEach(() => {
  [block.value, layer.value, head.value, sequence.value, step.value] = ["encoder", 0, 0, 0, 10];
  languageSetting.value = "en";
  setting<string>("calculation", "bug", "").value = "";
});

describe("the current step", () => {
  it("is exported as a labelled table: the weights of step 11", async () => {
    const trace = await openFixture("small");
    const rows = await table(trace);
    expect(rows).toHaveLength(8);
    expect(rows[0]).toEqual(["", "[CLS]", "␣겨울", "은", "␣추", "워", "요", "."]);
    const weights = await trace.weights({ block: "encoder", layer: 0, head: 0, sequence: 0 });
    expect(rows[3].slice(1)).toEqual(Array.from(weights.data).slice(14, 21));
  });
  it("is exported as a complete picture", async () => {
    const text = await svg(await openFixture("small"));
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
    expect(parsed.querySelector("title")?.textContent).toBe("softmax");
    expect(text).toContain("겨울");
    expect(text).not.toMatch(/<script|href/);
  });
  it("is the matrix with the bug while the bug lab is open", async () => {
    const trace = await openFixture("small");
    const right = await table(trace);
    setting<string>("calculation", "bug", "").value = "axis";
    const wrong = await table(trace);
    expect(wrong[1]).not.toEqual(right[1]);
    expect(settings.has("calculation.bug")).toBe(true);
  });
});
