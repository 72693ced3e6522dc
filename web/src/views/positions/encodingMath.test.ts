import { describe, expect, it } from "vitest";
import { openFixture } from "../../testing/fixtures";
import { sinusoids, table, valueAt } from "../calculation/arithmetic";
import { biasByDistance, binaryDigits, cosineSimilarities, digitCount, frequency, normalisedPosition, shiftedDotProduct, shiftError, shiftMatrix, sineDials } from "./encodingMath";

describe("the normalised index", () => {
  it("of position 3 depends on the length", () => {
    expect(normalisedPosition(3, 11)).toBeCloseTo(0.3, 15);
    expect(normalisedPosition(3, 22)).toBeCloseTo(0.142857142857, 12);
    expect(normalisedPosition(3, 21)).toBeCloseTo(0.15, 15);
  });
});

describe("binary", () => {
  it("flips the first digit at every position", () => {
    expect(digitCount(8)).toBe(3);
    expect(digitCount(9)).toBe(4);
    expect(Array.from(binaryDigits(4).data)).toEqual([0, 0, 1, 0, 0, 1, 1, 1]);
  });
});

describe("sine waves", () => {
  it("have period 2^(d+1)", () => {
    const found = sineDials(17, 3);
    for (let j = 0; j < 3; j++) expect(valueAt(found, 16, j)).toBeCloseTo(valueAt(found, 0, j), 14);
    expect(valueAt(found, 1, 0)).toBe(1);
    expect(valueAt(found, 8, 2)).toBeCloseTo(0, 14);
    expect(valueAt(found, 12, 2)).toBeCloseTo(-1, 14);
  });
});

describe("sines and cosines", () => {
  it("are shifted by one matrix, for any position", () => {
    expect(shiftError(64, 128, 10000, 7)).toBeLessThan(1e-13);
    expect(shiftError(20, 6, 50, 3)).toBeLessThan(1e-14);
    const moved = shiftMatrix(2, 4, 100);
    expect(valueAt(moved, 0, 0)).toBeCloseTo(Math.cos(2), 15);
    expect(valueAt(moved, 1, 0)).toBeCloseTo(Math.sin(2), 15);
    expect(valueAt(moved, 2, 3)).toBeCloseTo(-Math.sin(0.2), 15);
    expect(valueAt(moved, 0, 2)).toBe(0);
  });
  it("have decreasing frequencies from 1", () => {
    expect(frequency(0, 128, 10000)).toBe(1);
    expect(frequency(32, 128, 10000)).toBeCloseTo(0.01, 15);
  });
  it("have cosine similarities that depend only on the distance", () => {
    const found = cosineSimilarities(sinusoids(10, 8));
    expect(valueAt(found, 3, 3)).toBeCloseTo(1, 14);
    expect(valueAt(found, 2, 5)).toBeCloseTo(valueAt(found, 6, 9), 14);
  });
});

describe("a bias", () => {
  it("is reduced to one number per distance, with the largest deviation", () => {
    expect(biasByDistance(table(2, 3, (t, s) => 10 * (s - t)))).toEqual({ distances: [-1, 0, 1, 2], values: [-10, 0, 10, 20], worst: 0 });
    expect(biasByDistance(table(2, 2, (t) => t)).worst).toBe(1);
  });
  it("of a real model depends only on the distance", async () => {
    const trace = await openFixture("small-t5");
    for (const head of [0, 1]) {
      const bias = await trace.bias({ block: "encoder", layer: 0, head, sequence: 0 });
      expect(bias && biasByDistance(bias).worst).toBe(0);
      expect(bias && biasByDistance(bias).distances).toHaveLength(13);
    }
  });
});

describe("rotary", () => {
  it("keeps q·k if both are shifted", async () => {
    const trace = await openFixture("small-llama");
    const location = { block: "decoder", layer: 0, head: 0, sequence: 0 } as const;
    const [q, k, angles, scores] = await Promise.all([trace.q(location), trace.k(location), trace.fullMatrix("rotary"), trace.scores(location)]);
    const here = shiftedDotProduct(q, k, angles.data, 4, 1, 0);
    expect(here * trace.block("decoder").scale).toBeCloseTo(scores.data[4 * scores.columns + 1], 5);
    for (const by of [1, 10, 1000]) expect(shiftedDotProduct(q, k, angles.data, 4, 1, by)).toBeCloseTo(here, 12);
    const other = shiftedDotProduct(q, k, angles.data, 4, 1, 0.5);
    expect(other).toBeCloseTo(here, 12); // half a position, too: only the distance counts
  });
});
