/** Which lines are drawn: of each query the heaviest until a share of its mass is reached, and never too many. */

import { valueAt, type Matrix, rowOf } from "../../trace/matrix";

export interface Line {
  readonly query: number;
  readonly key: number;
  readonly series: number; // which of the matrices
  readonly weight: number;
}

export interface SelectedLines {
  readonly list: readonly Line[]; // the heaviest first
  readonly shownMass: number; // their mass together
  readonly visibleMass: number; // the mass of all pairs that may be shown
  readonly totalMass: number; // the mass of all rows that ask
}

export type Visible = (query: number, key: number) => boolean;

export const MAX_LINES = 3000;

/**
 * Of each row the heaviest pairs until `mass` of what is visible of the row; of all these the `most` heaviest.
 * Rows of padding do not ask.
 */
export function selectLines(
  matrices: readonly Matrix[],
  mass: number,
  visible: Visible,
  max = MAX_LINES,
  asks: (query: number) => boolean = () => true,
): SelectedLines {
  let list: Line[] = [];
  let [visibleMass, totalMass] = [0, 0];
  matrices.forEach((matrix, series) => {
    for (let query = 0; query < matrix.rows; query++) {
      if (!asks(query)) continue;
      const row = rowOf(matrix, query).slice();
      let sum = 0;
      row.forEach((weight, key) => {
        totalMass += weight;
        if (!visible(query, key)) row[key] = 0;
        sum += row[key];
      });
      visibleMass += sum;
      for (const key of largestIndices(row, (taken) => taken < mass * sum))
        list.push({ query, key, series, weight: row[key] });
    }
    const weights = Float32Array.from(list, ({ weight }) => weight);
    list = largestIndices(weights, (_, count) => count < max).map((i) => list[i]);
  });
  list.sort((a, b) => b.weight - a.weight);
  return { list, shownMass: list.reduce((sum, { weight }) => sum + weight, 0), visibleMass, totalMass };
}

/** The lines of one query, or those that reach one key, until nearly all of what is visible is there. */
export function linesOfToken(
  matrices: readonly Matrix[],
  side: "query" | "key",
  number: number,
  visible: Visible,
  mass = 0.99,
): SelectedLines {
  const pair = (other: number) => (side === "query" ? ([number, other] as const) : ([other, number] as const));
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

/** All heads as one: the mean of the matrices, or the largest of each cell. */
export function combineHeads(matrices: readonly Matrix[], how: "mean" | "max"): Matrix {
  const { rows, columns } = matrices[0];
  const data = new Float32Array(rows * columns);
  for (const matrix of matrices)
    matrix.data.forEach((weight, i) => {
      data[i] = how === "mean" ? data[i] + weight / matrices.length : Math.max(data[i], weight);
    });
  return { rows, columns, data };
}

/** Places of the largest numbers above 0, in order of place, as long as `more` of the sum so far is wanted. */
export function largestIndices(numbers: Float32Array, more: (sum: number, count: number) => boolean): number[] {
  const sorted = numbers.slice().sort().reverse(); // a typed array sorts by number, without a callback
  let sum = 0;
  let count = 0;
  while (sorted[count] > 0 && more(sum, count)) sum += sorted[count++];
  const min = sorted[count - 1];
  let ties = count - sorted.findIndex((number) => number === min); // of equal numbers the first are taken
  const indices: number[] = [];
  numbers.forEach((number, i) => {
    if (count && (number > min || (number === min && ties-- > 0))) indices.push(i);
  });
  return indices;
}
