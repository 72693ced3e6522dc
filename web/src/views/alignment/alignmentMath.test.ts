import { describe, expect, test } from "vitest";
import { coverage, hardAlignment, meanPositions, monotonicity, poolHeads } from "./alignmentMath";

const matrix = (rows: number, ...data: number[]) => ({ rows, columns: data.length / rows, data: Float32Array.from(data) });

describe("alignment", () => {
  test("heads are pooled by mean or maximum", () => {
    const heads = [matrix(1, 0.5, 0.5), matrix(1, 1, 0)];
    expect([...poolHeads(heads, "mean").data]).toEqual([0.75, 0.25]);
    expect([...poolHeads(heads, "max").data]).toEqual([1, 0.5]);
    expect([...poolHeads([heads[0]], "mean").data]).toEqual([0.5, 0.5]);
  });

  test("argmax of each row; mutual if it is the argmax of the column too", () => {
    const weights = matrix(3, 0.6, 0.4, 0.9, 0.1, 0, 0);
    expect(hardAlignment(weights, false)).toEqual([0, 0, -1]);
    expect(hardAlignment(weights, true)).toEqual([-1, 0, -1]);
  });

  test("coverage is the sum of each column", () => {
    const sums = coverage(matrix(2, 0.25, 0.75, 0.5, 0.5));
    expect([...sums]).toEqual([0.75, 1.25]);
  });

  test("a diagonal is monotonic, its mirror image is not", () => {
    expect(monotonicity(meanPositions(matrix(2, 1, 0, 0, 1)))).toBe(1);
    expect(monotonicity(meanPositions(matrix(2, 0, 1, 1, 0)))).toBe(0);
    expect(meanPositions(matrix(1, 0.5, 0.5))).toEqual([0.5]);
    expect(monotonicity(meanPositions(matrix(2, 0, 0, 0, 1)))).toBeNull();
  });
});
