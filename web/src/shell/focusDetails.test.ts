import { describe, expect, it } from "vitest";
import { testTrace } from "../testing/testTrace";
import { entropyOf, focusDetails } from "./focusDetails";

const PLACE = { sequence: 0, block: "encoder", layer: 0, head: 1 } as const;
const PLAIN = { unit: "piece", specials: "plain", measure: "weights" } as const;

describe("focusDetails", () => {
  it("returns the weight, its rank and the terms of its score", async () => {
    const trace = await testTrace();
    const { data } = await trace.weights(PLACE);
    const row = [...data.subarray(10, 15)];
    const details = await focusDetails(trace, PLACE, 2, 3, PLAIN);
    expect(details.weight).toBe(row[3]);
    expect(details.rank).toBe([...row].sort((a, b) => b - a).indexOf(row[3]) + 1);
    expect(details.visibleKeys).toBe(4);
    expect(details.entropy).toBeCloseTo(-row.slice(0, 4).reduce((sum, w) => sum + w * Math.log2(w), 0), 6);
    expect(details.topKeys.map(({ weight }) => weight)).toEqual(row.slice(0, 4).sort((a, b) => b - a));
    const powers = await Promise.all(
      [0, 1, 2, 3].map(async (key) => Math.exp((await focusDetails(trace, PLACE, 2, key, PLAIN)).score?.score ?? 0)),
    );
    expect(details.weight).toBeCloseTo(powers[3] / powers.reduce((sum, power) => sum + power), 5);
    expect(details.score?.score).toBeCloseTo((details.score?.product ?? 0) * 0.5, 6);
    expect(details.norm).toBe((await trace.valueNorms(PLACE))?.[3]);
    expect(details.displayed).toBeNull();
  });

  it("names the reason for a masked key", async () => {
    expect((await focusDetails(await testTrace(), PLACE, 1, 4, PLAIN)).visibility).toBe("padding");
    expect((await focusDetails(await testTrace(), PLACE, 1, 3, PLAIN)).visibility).toBe("unmasked");
  });

  it("merges words, and returns the displayed value if it differs from the weight", async () => {
    const trace = await testTrace();
    const { data } = await trace.weights(PLACE);
    const details = await focusDetails(trace, PLACE, 1, 2, { unit: "word", specials: "renormalise", measure: "weights" });
    const weight = (data[6] + data[7] + data[11] + data[12]) / 2;
    const rest = (data[8] + data[13]) / 2;
    expect(details.weight).toBeCloseTo(weight, 6);
    expect(details.displayed).toBeCloseTo(weight / (weight + rest), 6);
    expect(details.score).toBeNull(); // a word has no single q
  });

  it("supports a query without a key", async () => {
    const details = await focusDetails(await testTrace(), PLACE, 1, null, PLAIN);
    expect(details.key).toBeNull();
    expect(details.topKeys).toHaveLength(4);
  });
});

it("entropy is in bits", () => {
  expect(entropyOf(Float32Array.of(0.25, 0.25, 0.25, 0.25, 0))).toBe(2);
});
