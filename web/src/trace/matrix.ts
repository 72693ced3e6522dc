/** Numbers in rows and columns. */

export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly data: Float32Array; // row after row
}

export function at(matrix: Matrix, row: number, column: number): number {
  return matrix.data[row * matrix.columns + column];
}

export function rowOf(matrix: Matrix, row: number): Float32Array {
  return matrix.data.subarray(row * matrix.columns, (row + 1) * matrix.columns);
}
