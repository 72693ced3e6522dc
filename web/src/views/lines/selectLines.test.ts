/** The selected lines equal those of a simple loop. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Matrix } from "../../trace/matrix";
import { combineHeads, largestIndices, linesOfToken, selectLines, type Visible } from "./selectLines";

const everything: Visible = () => true;

function matrixOf(rows: readonly (readonly number[])[]): Matrix {
  return { rows: rows.length, columns: rows[0].length, data: Float32Array.from(rows.flat()) };
}

/** The definition: sort each row, take lines until the fraction is reached, sort all lines, keep the first. */
function plainly(
  matrices: readonly Matrix[],
  mass: number,
  visible: Visible,
  max: number,
): [number, number, number][] {
  const all: { at: [number, number, number]; weight: number }[] = [];
  matrices.forEach((matrix, series) => {
    for (let query = 0; query < matrix.rows; query++) {
      const row = [...Array(matrix.columns).keys()]
        .filter((key) => visible(query, key))
        .map((key) => ({
          at: [query, key, series] as [number, number, number],
          weight: matrix.data[query * matrix.columns + key],
        }));
      const sum = row.reduce((total, { weight }) => total + weight, 0);
      row.sort((a, b) => b.weight - a.weight || a.at[1] - b.at[1]);
      let taken = 0;
      for (const one of row) {
        if (taken >= mass * sum || one.weight <= 0) break;
        taken += one.weight;
        all.push(one);
      }
    }
  });
  all.sort((a, b) => b.weight - a.weight || a.at[2] - b.at[2] || a.at[0] - b.at[0] || a.at[1] - b.at[1]);
  return all.slice(0, max).map(({ at }) => at);
}

// Multiples of 1/64 add without rounding, so that both stop at the same line, ties included.
const cells = fc.integer({ min: 0, max: 64 }).map((n) => n / 64);
const tables = fc
  .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 3 }))
  .chain(([rows, columns, count]) =>
    fc.array(
      fc.array(fc.array(cells, { minLength: columns, maxLength: columns }), { minLength: rows, maxLength: rows }),
      { minLength: count, maxLength: count },
    ),
  )
  .map((list) => list.map(matrixOf));

describe("lines", () => {
  it("equal those of a simple loop, for any weights, fraction, limit and filter", () => {
    fc.assert(
      fc.property(
        tables,
        fc.integer({ min: 0, max: 8 }),
        fc.integer({ min: 0, max: 30 }),
        fc.boolean(),
        (matrices, fraction, max, half) => {
          const visible: Visible = half ? (query, key) => (query + key) % 2 === 0 : everything;
          const chosen = selectLines(matrices, fraction / 8, visible, max);
          const found = chosen.list.map(({ query, key, series }) => [query, key, series]);
          expect(found).toEqual(plainly(matrices, fraction / 8, visible, max));
          const weights = found.map(
            ([query, key, series]) => matrices[series].data[query * matrices[series].columns + key],
          );
          expect(chosen.list.map(({ weight }) => weight)).toEqual(weights);
          expect(chosen.shownMass).toBeCloseTo(
            weights.reduce((sum, weight) => sum + weight, 0),
            10,
          );
        },
      ),
    );
  });

  it("reach the requested fraction of each query", () => {
    const chosen = selectLines(
      [
        matrixOf([
          [0.5, 0.25, 0.125, 0.125],
          [0, 1, 0, 0],
        ]),
      ],
      0.75,
      everything,
    );
    expect(chosen.list.map(({ query }) => query)).toEqual([1, 0, 0]);
    expect(chosen.list.map(({ key }) => key)).toEqual([1, 0, 1]);
    expect([chosen.shownMass, chosen.visibleMass, chosen.totalMass]).toEqual([1.75, 2, 2]);
  });

  it("report the weight outside a filter", () => {
    const chosen = selectLines(
      [
        matrixOf([
          [0.5, 0.5],
          [0.25, 0.75],
        ]),
      ],
      1,
      (query, key) => query !== key,
    );
    expect([chosen.shownMass, chosen.visibleMass, chosen.totalMass]).toEqual([0.75, 0.75, 2]);
  });

  it("exclude rows of padding", () => {
    const rows = matrixOf([
      [0.5, 0.5],
      [0.25, 0.75],
    ]);
    const chosen = selectLines([rows], 1, everything, 10, (query) => query === 1);
    expect(chosen.list.map(({ query }) => query)).toEqual([1, 1]);
    expect([chosen.shownMass, chosen.visibleMass, chosen.totalMass]).toEqual([1, 1, 1]);
  });

  it("of one query or one key are nearly complete, in decreasing order", () => {
    const two = [
      matrixOf([
        [0.5, 0.5],
        [0.25, 0.75],
      ]),
      matrixOf([
        [1, 0],
        [0.125, 0.875],
      ]),
    ];
    const lines = (side: "query" | "key", index: number, mass?: number) =>
      linesOfToken(two, side, index, everything, mass).list.map(({ query, key, series, weight }) => [
        query,
        key,
        series,
        weight,
      ]);
    expect(lines("query", 0)).toEqual([
      [0, 0, 1, 1],
      [0, 0, 0, 0.5],
      [0, 1, 0, 0.5],
    ]);
    expect(lines("key", 1)).toEqual([
      [1, 1, 1, 0.875],
      [1, 1, 0, 0.75],
      [0, 1, 0, 0.5],
    ]);
    expect(lines("key", 1, 0.6)).toEqual([
      [1, 1, 1, 0.875],
      [1, 1, 0, 0.75],
    ]);
  });
});

it("heads are combined by mean and maximum", () => {
  const two = [matrixOf([[0.5, 0.5]]), matrixOf([[1, 0]])];
  expect([...combineHeads(two, "mean").data]).toEqual([0.75, 0.25]);
  expect([...combineHeads(two, "max").data]).toEqual([1, 0.5]);
});

it("the largest numbers are returned in index order", () => {
  expect(largestIndices(Float32Array.of(1, 3, 2, 3), (_, count) => count < 2)).toEqual([1, 3]);
  expect(largestIndices(Float32Array.of(2, 2, 2), (_, count) => count < 2)).toEqual([0, 1]);
  expect(largestIndices(Float32Array.of(0, 0), () => true)).toEqual([]);
});
