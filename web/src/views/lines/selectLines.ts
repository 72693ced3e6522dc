/** Selects the lines to draw: for each query the largest weights up to a fraction of its total, within a limit. */

import { type Matrix, rowOf, valueAt } from "../../trace/matrix";

export interface Line {
  readonly query: number;
  readonly key: number;
  readonly series: number; // index of the matrix
  readonly weight: number;
}

export interface SelectedLines {
  readonly list: readonly Line[]; // by decreasing weight
  readonly shownMass: number; // total weight of the lines
  readonly visibleMass: number; // total weight of all visible pairs
  readonly totalMass: number; // total weight of all rows that are not padding
}

export type Visible = (query: number, key: number) => boolean;

export const MAX_LINES = 3000;

/**
 * For each row, the pairs with the largest weights until `mass` of the row's visible weight is reached; of all these, the
 * `max` largest. Rows of padding are skipped.
 */
export function selectLines(
  matrices: readonly Matrix[],
  mass: number,
  visible: Visible,
  max = MAX_LINES,
  isReal: (query: number) => boolean = () => true,
): SelectedLines {
  let list: Line[] = [];
  let [visibleMass, totalMass] = [0, 0];
  matrices.forEach((matrix, series) => {
    for (let query = 0; query < matrix.rows; query++) {
      if (!isReal(query)) continue;
      const row = rowOf(matrix, query).slice();
      let sum = 0;
      row.forEach((weight, key) => {
        totalMass += weight;
        if (!visible(query, key)) row[key] = 0;
        sum += row[key];
      });
      visibleMass += sum;
      for (const key of largestIndices(row, (sumSoFar) => sumSoFar < mass * sum))
        list.push({ query, key, series, weight: row[key] });
    }
    const weights = Float32Array.from(list, ({ weight }) => weight);
    list = largestIndices(weights, (_, count) => count < max).map((i) => list[i]);
  });
  list.sort((a, b) => b.weight - a.weight);
  return { list, shownMass: list.reduce((sum, { weight }) => sum + weight, 0), visibleMass, totalMass };
}

/** The lines from one query or to one key, up to `mass` of the visible weight. */
export function linesOfToken(
  matrices: readonly Matrix[],
  side: "query" | "key",
  index: number,
  visible: Visible,
  mass = 0.99,
): SelectedLines {
  const pair = (other: number) => (side === "query" ? ([index, other] as const) : ([other, index] as const));
  const single = matrices.map((matrix) => {
    const columns = side === "query" ? matrix.columns : matrix.rows;
    return { rows: 1, columns, data: Float32Array.from({ length: columns }, (_, i) => valueAt(matrix, ...pair(i))) };
  });
  const found = selectLines(single, mass, (_, other) => visible(...pair(other)));
  const list = found.list.map((arc) => {
    const [query, key] = pair(arc.key);
    return { ...arc, query, key };
  });
  return { ...found, list };
}

/** Combines all heads: the mean or the maximum of each cell. */
export function combineHeads(matrices: readonly Matrix[], mode: "mean" | "max"): Matrix {
  const { rows, columns } = matrices[0];
  const data = new Float32Array(rows * columns);
  for (const matrix of matrices)
    matrix.data.forEach((weight, i) => {
      data[i] = mode === "mean" ? data[i] + weight / matrices.length : Math.max(data[i], weight);
    });
  return { rows, columns, data };
}

/** Indices of the largest positive numbers, in index order, as long as `more` returns true for the sum so far. */
export function largestIndices(numbers: Float32Array, more: (sum: number, count: number) => boolean): number[] {
  const sorted = numbers.slice().sort().reverse(); // a typed array sorts numerically without a callback
  let sum = 0;
  let count = 0;
  while (sorted[count] > 0 && more(sum, count)) sum += sorted[count++];
  const min = sorted[count - 1];
  let ties = count - sorted.findIndex((number) => number === min); // ties are taken in index order
  const indices: number[] = [];
  numbers.forEach((number, i) => {
    if (count && (number > min || (number === min && ties-- > 0))) indices.push(i);
  });
  return indices;
}
