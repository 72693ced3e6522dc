import { describe, expect, it } from "vitest";
import { type DisplayOptions, displayWeights } from "./display";
import { testTrace } from "../testing/testTrace";

const PLACE = { sequence: 0, block: "encoder", layer: 0, head: 1 } as const;
const PLAIN: DisplayOptions = { unit: "piece", specials: "plain", measure: "weights" };

describe("displayWeights", () => {
  it("returns the weights of the trace unchanged", async () => {
    const trace = await testTrace();
    const { matrix, queries, note, columnOf } = await displayWeights(trace, PLACE, PLAIN);
    expect(matrix.data).toEqual((await trace.weights(PLACE)).data);
    expect(queries.map(({ text }) => text)).toEqual(["[CLS]", "▁나", "는", "▁봄", "[PAD]"]);
    expect(queries.map(({ real }) => real)).toEqual([true, true, true, true, false]);
    expect(note).toBeNull();
    expect(columnOf(3)).toBe(3);
  });

  it("sums over keys and averages over queries of a word, like a simple loop", async () => {
    const trace = await testTrace();
    const weights = await trace.weights(PLACE);
    const { matrix, queries, rowOf, columnOf, note } = await displayWeights(trace, PLACE, { ...PLAIN, unit: "word" });
    expect(queries.map(({ text }) => text)).toEqual(["[CLS]", "나는", "봄", "[PAD]"]);
    queries.forEach((query, row) =>
      queries.forEach((key, column) => {
        let mean = 0;
        for (const t of query.pieces) for (const s of key.pieces) mean += weights.data[t * 5 + s] / query.pieces.length;
        expect(matrix.data[row * 4 + column]).toBeCloseTo(mean, 6);
      }),
    );
    for (let row = 0; row < 3; row++)
      // real rows still sum to 1
      expect(matrix.data.subarray(row * 4, row * 4 + 4).reduce((a, b) => a + b)).toBeCloseTo(1, 5);
    expect([0, 1, 2, 3, 4].map(rowOf)).toEqual([0, 1, 1, 2, 3]);
    expect([0, 1, 2, 3, 4].map(columnOf)).toEqual([0, 1, 1, 2, 3]);
    expect(note?.en).toContain("mean over queries");
  });

  it("excludes special keys and renormalises", async () => {
    const trace = await testTrace();
    const weights = await trace.weights(PLACE);
    const { matrix, note } = await displayWeights(trace, PLACE, { ...PLAIN, specials: "renormalise" });
    for (let t = 0; t < 4; t++) {
      const kept = [1, 2, 3].reduce((sum, s) => sum + weights.data[t * 5 + s], 0);
      for (let s = 0; s < 5; s++) {
        const expected = s >= 1 && s <= 3 ? weights.data[t * 5 + s] / kept : 0;
        expect(matrix.data[t * 5 + s]).toBeCloseTo(expected, 6);
      }
    }
    expect(note?.en).toContain("renormalized");
  });

  it("multiplies by the value norms before merging", async () => {
    const trace = await testTrace();
    const weights = await trace.weights(PLACE);
    const norms = await trace.valueNorms(PLACE);
    const { matrix } = await displayWeights(trace, PLACE, { ...PLAIN, measure: "values" });
    weights.data.forEach((weight, i) => expect(matrix.data[i]).toBeCloseTo(weight * (norms?.[i % 5] ?? Number.NaN), 6));
  });

  it("notes that rows do not sum to 1 only where that is true", async () => {
    const noteFor = async (options: Partial<DisplayOptions>) => (await displayWeights(await testTrace(), PLACE, { ...PLAIN, ...options })).note?.en;
    expect(await noteFor({ measure: "values" })).toBe("weight × ‖v W_O‖: rows do not sum to 1");
    expect(await noteFor({ measure: "values", specials: "renormalise" })).toBe(
      "weight × ‖v W_O‖ · special tokens excluded, rows renormalized",
    );
  });

  it("allows a word if one of its pieces is allowed", async () => {
    const { allowed } = await displayWeights(await testTrace(), PLACE, { ...PLAIN, unit: "word" });
    expect([...allowed]).toEqual([1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0]);
  });
});
