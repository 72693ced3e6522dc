/** Which lines are drawn: of each query the heaviest until a share of its mass is reached, and never too many. */

import { valueAt, type Matrix, rowOf } from "../../trace/matrix";

export interface Arc {
  readonly query: number;
  readonly key: number;
  readonly series: number; // which of the matrices
  readonly weight: number;
}

export interface Arcs {
  readonly list: readonly Arc[]; // the heaviest first
  readonly shown: number; // their mass together
  readonly among: number; // the mass of all pairs that may be shown
  readonly total: number; // the mass of all rows that ask
}

export type Visible = (query: number, key: number) => boolean;

export const MOST = 3000;

/**
 * Of each row the heaviest pairs until `mass` of what is visible of the row; of all these the `most` heaviest.
 * Rows of padding do not ask.
 */
export function arcs(
  matrices: readonly Matrix[],
  mass: number,
  visible: Visible,
  most = MOST,
  asks: (query: number) => boolean = () => true,
): Arcs {
  let list: Arc[] = [];
  let [among, total] = [0, 0];
  matrices.forEach((matrix, series) => {
    for (let query = 0; query < matrix.rows; query++) {
      if (!asks(query)) continue;
      const row = rowOf(matrix, query).slice();
      let sum = 0;
      row.forEach((weight, key) => {
        total += weight;
        if (!visible(query, key)) row[key] = 0;
        sum += row[key];
      });
      among += sum;
      for (const key of heaviest(row, (taken) => taken < mass * sum))
        list.push({ query, key, series, weight: row[key] });
    }
    const weights = Float32Array.from(list, ({ weight }) => weight);
    list = heaviest(weights, (_, count) => count < most).map((i) => list[i]);
  });
  list.sort((a, b) => b.weight - a.weight);
  return { list, shown: list.reduce((sum, { weight }) => sum + weight, 0), among, total };
}

/** The lines of one query, or those that reach one key, until nearly all of what is visible is there. */
export function linesOf(
  matrices: readonly Matrix[],
  side: "query" | "key",
  number: number,
  visible: Visible,
  mass = 0.99,
): Arcs {
  const pair = (other: number) => (side === "query" ? ([number, other] as const) : ([other, number] as const));
  const single = matrices.map((matrix) => {
    const columns = side === "query" ? matrix.columns : matrix.rows;
    return { rows: 1, columns, data: Float32Array.from({ length: columns }, (_, i) => valueAt(matrix, ...pair(i))) };
  });
  const found = arcs(single, mass, (_, other) => visible(...pair(other)));
  const list = found.list.map((arc) => {
    const [query, key] = pair(arc.key);
    return { ...arc, query, key };
  });
  return { ...found, list };
}

/** All heads as one: the mean of the matrices, or the largest of each cell. */
export function combined(matrices: readonly Matrix[], how: "mean" | "max"): Matrix {
  const { rows, columns } = matrices[0];
  const data = new Float32Array(rows * columns);
  for (const matrix of matrices)
    matrix.data.forEach((weight, i) => {
      data[i] = how === "mean" ? data[i] + weight / matrices.length : Math.max(data[i], weight);
    });
  return { rows, columns, data };
}

/** Places of the largest numbers above 0, in order of place, as long as `more` of the sum so far is wanted. */
export function heaviest(numbers: Float32Array, more: (sum: number, count: number) => boolean): number[] {
  const sorted = numbers.slice().sort().reverse(); // a typed array sorts by number, without a callback
  let sum = 0;
  let count = 0;
  while (sorted[count] > 0 && more(sum, count)) sum += sorted[count++];
  const least = sorted[count - 1];
  let ties = count - sorted.findIndex((number) => number === least); // of equal numbers the first are taken
  const places: number[] = [];
  numbers.forEach((number, i) => {
    if (count && (number > least || (number === least && ties-- > 0))) places.push(i);
  });
  return places;
}
