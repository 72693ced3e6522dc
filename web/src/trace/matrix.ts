/** Matrices. */

export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array; // row-major
}

/** The score of a query-key product: scaled, and soft-capped if the model does so. */
export function scaleScore(product: number, { scale, softcap }: { readonly scale: number; readonly softcap?: number | null }): number {
  const value = product * scale;
  return softcap ? softcap * Math.tanh(value / softcap) : value;
}

export function valueAt(matrix: Matrix, row: number, column: number): number {
  return matrix.data[row * matrix.columns + column];
}

export function rowOf(matrix: Matrix, row: number): Float32Array {
  return matrix.data.subarray(row * matrix.columns, (row + 1) * matrix.columns);
}

/** An index clamped to 0 … count − 1. */
export function clampIndex(index: number, count: number): number {
  return Math.max(0, Math.min(index, count - 1));
}
