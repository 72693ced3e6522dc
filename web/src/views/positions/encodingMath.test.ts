import { describe, expect, it } from "vitest";
import { openFixture } from "../../testing/fixtures";
import { valueAt, sinusoids, table } from "../calculation/arithmetic";
import { binaryDigits, biasByDistance, cosineSimilarities, sineDials, digitCount, frequency, shiftedDotProduct, shiftError, normalisedPosition, shiftMatrix } from "./encodingMath";

describe("note 002's own question", () => {
  it("index 3 of 11 is 0.3, of 22 it is 3/21 and not 0.15, which is 3 of 21", () => {
    expect(normalisedPosition(3, 11)).toBeCloseTo(0.3, 15);
    expect(normalisedPosition(3, 22)).toBeCloseTo(0.142857142857, 12);
    expect(normalisedPosition(3, 21)).toBeCloseTo(0.15, 15);
  });
});

describe("binary", () => {
  it("turns the first digit at every place", () => {
    expect(digitCount(8)).toBe(3);
    expect(digitCount(9)).toBe(4);
    expect(Array.from(binaryDigits(4).data)).toEqual([0, 0, 1, 0, 0, 1, 1, 1]);
  });
});

describe("dials", () => {
  it("close after 2^(d+1) places: two positions are one", () => {
    const found = sineDials(17, 3);
    for (let j = 0; j < 3; j++) expect(valueAt(found, 16, j)).toBeCloseTo(valueAt(found, 0, j), 14);
    expect(valueAt(found, 1, 0)).toBe(1);
    expect(valueAt(found, 8, 2)).toBeCloseTo(0, 14);
    expect(valueAt(found, 12, 2)).toBeCloseTo(-1, 14);
  });
});

describe("sines and cosines", () => {
  it("are moved by one matrix, whatever the position", () => {
    expect(shiftError(64, 128, 10000, 7)).toBeLessThan(1e-13);
    expect(shiftError(20, 6, 50, 3)).toBeLessThan(1e-14);
    const moved = shiftMatrix(2, 4, 100);
    expect(valueAt(moved, 0, 0)).toBeCloseTo(Math.cos(2), 15);
    expect(valueAt(moved, 1, 0)).toBeCloseTo(Math.sin(2), 15);
    expect(valueAt(moved, 2, 3)).toBeCloseTo(-Math.sin(0.2), 15);
    expect(valueAt(moved, 0, 2)).toBe(0);
  });
  it("slow down from 1", () => {
    expect(frequency(0, 128, 10000)).toBe(1);
    expect(frequency(32, 128, 10000)).toBeCloseTo(0.01, 15);
  });
  it("have cosines of distances alone", () => {
    const found = cosineSimilarities(sinusoids(10, 8));
    expect(valueAt(found, 3, 3)).toBeCloseTo(1, 14);
    expect(valueAt(found, 2, 5)).toBeCloseTo(valueAt(found, 6, 9), 14);
  });
});

describe("a bias", () => {
  it("is read as one number a distance, and told when it is not", () => {
    expect(biasByDistance(table(2, 3, (t, s) => 10 * (s - t)))).toEqual({ distances: [-1, 0, 1, 2], values: [-10, 0, 10, 20], worst: 0 });
    expect(biasByDistance(table(2, 2, (t) => t)).worst).toBe(1);
  });
  it("of a real model is of distances alone", async () => {
    const trace = await openFixture("small-t5");
    for (const head of [0, 1]) {
      const bias = await trace.bias({ block: "encoder", layer: 0, head, sequence: 0 });
      expect(bias && biasByDistance(bias).worst).toBe(0);
      expect(bias && biasByDistance(bias).distances).toHaveLength(13);
    }
  });
});

describe("rotary", () => {
  it("leaves q·k as it is when both stand further along", async () => {
    const trace = await openFixture("small-llama");
    const place = { block: "decoder", layer: 0, head: 0, sequence: 0 } as const;
    const [q, k, angles, scores] = await Promise.all([trace.q(place), trace.k(place), trace.fullMatrix("rotary"), trace.scores(place)]);
    const here = shiftedDotProduct(q, k, angles.data, 4, 1, 0);
    expect(here * trace.block("decoder").scale).toBeCloseTo(scores.data[4 * scores.columns + 1], 5);
    for (const by of [1, 10, 1000]) expect(shiftedDotProduct(q, k, angles.data, 4, 1, by)).toBeCloseTo(here, 12);
    const other = shiftedDotProduct(q, k, angles.data, 4, 1, 0.5);
    expect(other).toBeCloseTo(here, 12); // half a place, too: only the distance counts
  });
});
