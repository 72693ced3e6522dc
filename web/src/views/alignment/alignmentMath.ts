/** Alignment statistics: pooling of heads, hard alignment, coverage, and monotonicity. */

import { type Matrix, valueAt } from "../../trace/matrix";

export type Pool = "mean" | "max";

/** Pools several heads, element by element. */
export function poolHeads(heads: readonly Matrix[], mode: Pool): Matrix {
  const [{ rows, columns }] = heads;
  const data = new Float32Array(rows * columns);
  for (const head of heads)
    for (let i = 0; i < data.length; i++)
      data[i] = mode === "max" ? Math.max(data[i], head.data[i]) : data[i] + head.data[i] / heads.length;
  return { rows, columns, data };
}

/** The argmax of each row; -1 where a row is all 0. */
export function argmaxOfRows(matrix: Matrix): number[] {
  return Array.from({ length: matrix.rows }, (_, row) =>
    argmax(matrix.columns, (column) => valueAt(matrix, row, column)),
  );
}

function argmaxOfColumns(matrix: Matrix): number[] {
  return Array.from({ length: matrix.columns }, (_, column) => argmax(matrix.rows, (row) => valueAt(matrix, row, column)));
}

function argmax(count: number, value: (i: number) => number): number {
  let best = -1;
  for (let i = 0, max = 0; i < count; i++)
    if (value(i) > max) {
      max = value(i);
      best = i;
    }
  return best;
}

/** The aligned column of each row, -1 for none: its argmax and, if `mutual`, only where it is the argmax of the column too. */
export function hardAlignment(matrix: Matrix, mutual: boolean): number[] {
  const columns = argmaxOfRows(matrix);
  if (!mutual) return columns;
  const rows = argmaxOfColumns(matrix);
  return columns.map((column, row) => (column >= 0 && rows[column] === row ? column : -1));
}

/** The attention that each source token receives: the sum of its column. */
export function coverage(matrix: Matrix): Float32Array {
  const sums = new Float32Array(matrix.columns);
  for (let i = 0; i < matrix.data.length; i++) sums[i % matrix.columns] += matrix.data[i];
  return sums;
}

/** The mean column of each row (0 = middle of the first one); NaN where a row is all 0. */
export function meanPositions(matrix: Matrix): number[] {
  return Array.from({ length: matrix.rows }, (_, row) => {
    let mass = 0;
    let moment = 0;
    for (let column = 0; column < matrix.columns; column++) {
      mass += valueAt(matrix, row, column);
      moment += column * valueAt(matrix, row, column);
    }
    return moment / mass;
  });
}

/** The fraction of steps from one row to the next in which the mean column does not decrease; null without steps. */
export function monotonicity(means: readonly number[]): number | null {
  const known = means.filter((location) => !Number.isNaN(location));
  if (known.length < 2) return null;
  return known.slice(1).filter((location, i) => location >= known[i] - 1e-6).length / (known.length - 1);
}
