import { describe, expect, it } from "vitest";
import { openFixture } from "../../testing/fixtures";
import { focusedHead, step, view } from "../../state/state";
import { currentTrace } from "../../state/session";
import { goBeyond, placesOf } from "./path";

describe("the way of the lesson", () => {
  it("is that of the computation", () => {
    const block = (name: string, layers: number) => ({ name, layers }) as never;
    const named = placesOf({ blocks: [block("encoder", 2), block("decoder", 2), block("cross", 2)] }).map(({ block, layer }) => `${block}.${layer}`);
    expect(named).toEqual(["encoder.0", "encoder.1", "decoder.0", "cross.0", "decoder.1", "cross.1"]);
  });

  it("leads through every layer to the answer, and back", async () => {
    const trace = await openFixture("small");
    currentTrace.value = trace;
    view.value = "calculation";
    const places = placesOf(trace.info);
    for (const [i, { block, layer }] of places.entries()) {
      expect([focusedHead.value.block, focusedHead.value.layer]).toEqual([block, layer]);
      if (i < places.length - 1) goBeyond(trace, 1);
    }
    if (places.length > 1) {
      goBeyond(trace, -1);
      expect(step.value).toBeGreaterThan(10); // the last step of the place before
      goBeyond(trace, 1);
    }
    goBeyond(trace, 1);
    expect(view.value).not.toBe("calculation");
  });
});
