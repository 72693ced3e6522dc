import { describe, expect, it } from "vitest";
import { FIXTURES, openFixture } from "../../testing/fixtures";
import { valueAt } from "../calculation/arithmetic";
import { causalMask, leakedWeight, loadMasks, paddingMask, printMaskRow } from "./maskData";

const keys = (real: number[]) => ({ real }) as unknown as Parameters<typeof paddingMask>[1];

describe("masks", () => {
  it("exclude padding and later tokens", () => {
    expect(Array.from(paddingMask(2, keys([1, 1, 0])).data)).toEqual([1, 1, 0, 1, 1, 0]);
    expect(Array.from(causalMask(3).data)).toEqual([1, 0, 0, 1, 1, 0, 1, 1, 1]);
  });
  it("are printed with either meaning of True", () => {
    const mask = causalMask(3);
    expect(printMaskRow(mask, 1, true)).toBe("tensor([True, True, False])");
    expect(printMaskRow(mask, 1, false)).toBe("tensor([False, False, True])");
  });
});

describe("masked scores filled with 0", () => {
  it("leak weight to masked keys: with three scores of 0 and one masked, a third", () => {
    const weights = { rows: 1, columns: 3, data: [1 / 3, 1 / 3, 1 / 3] };
    const mask = { rows: 1, columns: 3, data: [1, 1, 0] };
    expect(leakedWeight(weights, mask, keys([1]))).toEqual({ mean: 1 / 3, max: 1 / 3, row: 0 });
  });
  it("leak nothing without masked keys", () => {
    const all = { rows: 1, columns: 1, data: [1] };
    expect(leakedWeight(all, all, keys([1]))).toBeNull();
  });
});

describe.each(FIXTURES)("masks of %s", (name) => {
  it("combine padding and causality, and masked weights are exactly 0", async () => {
    const trace = await openFixture(name);
    for (const block of trace.info.blocks)
      for (let sequence = 0; sequence < (trace.info.sides[block.queries]?.length ?? 0); sequence++) {
        const location = { block: block.name, layer: 0, head: 0, sequence };
        const masks = await loadMasks(trace, location);
        const { real } = trace.queries(location);
        expect(masks.agrees).toBe(true);
        for (let r = 0; r < masks.combined.rows; r++)
          for (let c = 0; c < masks.combined.columns; c++) {
            const open = valueAt(masks.combined, r, c) === 1;
            if (real[r] && block.name !== "cross") expect(open).toBe(trace.keys(location).real[c] === 1 && !(block.causal && c > r));
            if (!open) expect(valueAt(masks.weights, r, c)).toBe(0);
            if (masks.masked) expect(valueAt(masks.masked, r, c) === -Infinity).toBe(!open);
          }
        const hidden = masks.combined.data as Uint8Array;
        if (masks.leaked) expect(masks.leaked.mean).toBeGreaterThan(0);
        else expect(hidden.every((may, i) => may === 1 || !real[Math.floor(i / masks.combined.columns)])).toBe(true);
      }
  });
});
