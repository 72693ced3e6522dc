/** Max-pools a matrix to fewer rows and columns, so that large weights stay visible. */

interface Grid<T> {
  readonly rows: number;
  readonly columns: number;
  readonly data: T;
}

/** (rows, columns) non-negative numbers, pooled to at most (height, width). */
export function maxPool<T extends Uint8Array | Float32Array>(
  { rows, columns, data }: Grid<T>,
  height: number,
  width: number,
): Grid<T> {
  const [down, across] = [Math.min(rows, Math.floor(height)), Math.min(columns, Math.floor(width))];
  const tiles = data.slice(0, down * across).fill(0) as T;
  for (let row = 0; row < rows; row++) {
    const first = Math.floor((row * down) / rows) * across;
    for (let column = 0; column < columns; column++) {
      const to = first + Math.floor((column * across) / columns);
      const number = data[row * columns + column];
      if (number > tiles[to]) tiles[to] = number;
    }
  }
  return { rows: down, columns: across, data: tiles };
}
