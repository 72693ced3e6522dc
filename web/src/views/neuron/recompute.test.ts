/** Weights recomputed from q, k, scale, bias and mask equal equation (1). */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Matrix } from "../../trace/matrix";
import { dimensions, type HeadParts, products, recomputeRow } from "./recompute";

function matrixOf(rows: readonly (readonly number[])[]): Matrix {
  return { rows: rows.length, columns: rows[0].length, data: Float32Array.from(rows.flat()) };
}

const open = (rows: number, columns: number) => ({ columns, data: new Uint8Array(rows * columns).fill(1) });

describe("the weights of a query", () => {
  it("equal a worked example", () => {
    const parts: HeadParts = {
      q: matrixOf([[1, 2]]),
      k: matrixOf([
        [3, 0.5],
        [-1, 0],
        [0, 1],
      ]),
      scale: 0.5,
      bias: matrixOf([[0, 2.5, 1]]),
      mask: { columns: 3, data: Uint8Array.of(1, 1, 0) },
    };
    const row = recomputeRow(parts, 0);
    expect([...row.dots]).toEqual([4, -1, 2]);
    expect([...row.scaled]).toEqual([2, -0.5, 1]);
    expect([...row.scores]).toEqual([2, 2, 2]);
    expect(row.allowed).toEqual([true, true, false]);
    expect([row.largest, row.sum]).toEqual([2, 2]);
    expect([...row.weights]).toEqual([0.5, 0.5, 0]);
    expect([...recomputeRow({ ...parts, muted: true }, 0).weights]).toEqual([0, 0, 0]);
  });

  it("use the right row of q, bias and mask", () => {
    const parts: HeadParts = {
      q: matrixOf([[9], [1]]),
      k: matrixOf([[1], [1]]),
      scale: 1,
      bias: matrixOf([
        [5, 6],
        [0, Math.log(3)],
      ]),
      mask: { columns: 2, data: Uint8Array.of(0, 0, 1, 1) },
    };
    expect(recomputeRow(parts, 1).weights[1]).toBeCloseTo(0.75, 6); // the logarithm is stored as float32
    expect([...recomputeRow(parts, 0).weights]).toEqual([0, 0]); // a fully masked query
  });

  it("sum to 1 for scores of any size", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -5000, max: 5000 }), { minLength: 1, maxLength: 9 }), (keys) => {
        const parts: HeadParts = {
          q: matrixOf([[1]]),
          k: matrixOf(keys.map((x) => [x])),
          scale: 1,
          bias: null,
          mask: open(1, keys.length),
        };
        expect(recomputeRow(parts, 0).weights.reduce((a, b) => a + b)).toBeCloseTo(1, 12);
      }),
    );
  });
});

describe("dimensions", () => {
  const q = Float32Array.of(1, 2, 3, 4);
  const k = Float32Array.of(-8, 1, 1, 1);

  it("are sorted by index or by contribution", () => {
    expect(dimensions(q, null, false)).toEqual([0, 1, 2, 3]);
    expect(dimensions(q, k, false)).toEqual([0, 3, 2, 1]);
  });

  it("are sorted in rotation pairs", () => {
    expect(dimensions(q, null, true)).toEqual([0, 2, 1, 3]);
    expect(dimensions(q, k, true)).toEqual([1, 3, 0, 2]); // 2 + 4 before −8 + 3
  });

  it("have a cumulative sum that ends with the dot product, in any order", () => {
    const { each, running } = products(q, k, [2, 0, 1, 3]);
    expect(each).toEqual([3, -8, 2, 4]);
    expect(running).toEqual([3, -5, -3, 1]);
  });
});
