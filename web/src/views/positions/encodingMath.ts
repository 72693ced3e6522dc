/** Five ways to encode a position, and a proof of the shift property of sines and cosines. */

import { matmul, type Numbers, rotate, sinusoids, table, valueAt } from "../calculation/arithmetic";

/** Position p of n as a fraction: p / (n - 1). */
export function normalisedPosition(p: number, n: number): number {
  return p / Math.max(n - 1, 1);
}

/** The number of binary digits for n positions. */
export function digitCount(n: number): number {
  return Math.max(1, Math.ceil(Math.log2(n)));
}

/** Position p in binary digits, the fastest first: (n, digits). */
export function binaryDigits(n: number): Numbers {
  return table(n, digitCount(n), (p, j) => Math.floor(p / 2 ** j) % 2);
}

/** sin(pi p / 2^j), j = 1 ... d: a continuous version of binary digits. */
export function sineDials(n: number, d: number): Numbers {
  return table(n, d, (p, j) => Math.sin((Math.PI * p) / 2 ** (j + 1)));
}

/** The angular frequency of pair i. */
export function frequency(i: number, d: number, base: number): number {
  return base ** ((-2 * i) / d);
}

/** T(k), with PE(p + k) = PE(p) T(k) for every p: a rotation of each pair. */
export function shiftMatrix(k: number, d: number, base: number): Numbers {
  return table(d, d, (row, column) => {
    if (row >> 1 !== column >> 1) return 0;
    const turn = k * frequency(row >> 1, d, base);
    if (row === column) return Math.cos(turn);
    return row > column ? Math.sin(turn) : -Math.sin(turn);
  });
}

/** The largest |PE(p + k) - PE(p) T(k)| over all p < n. */
export function shiftError(n: number, d: number, base: number, k: number): number {
  const pe = sinusoids(n + k, d, base);
  const moved = matmul({ ...pe, rows: n, data: Array.from(pe.data).slice(0, n * d) }, shiftMatrix(k, d, base));
  let worst = 0;
  for (let p = 0; p < n; p++) for (let i = 0; i < d; i++) worst = Math.max(worst, Math.abs(valueAt(moved, p, i) - valueAt(pe, p + k, i)));
  return worst;
}

/** The cosine similarity of every two rows. */
export function cosineSimilarities(rows: Numbers): Numbers {
  const dot = (i: number, j: number) => {
    let sum = 0;
    for (let k = 0; k < rows.columns; k++) sum += valueAt(rows, i, k) * valueAt(rows, j, k);
    return sum;
  };
  const norms = Array.from({ length: rows.rows }, (_, i) => Math.sqrt(dot(i, i)) || 1);
  return table(rows.rows, rows.rows, (i, j) => dot(i, j) / norms[i] / norms[j]);
}

/** q·k of a rotated query at p and a rotated key at s, both shifted by `by` positions. */
export function shiftedDotProduct(q: Numbers, k: Numbers, angles: ArrayLike<number>, p: number, s: number, by: number): number {
  const unrotated = (x: Numbers, row: number) => rotate({ rows: 1, columns: x.columns, data: Array.from(x.data).slice(row * x.columns, (row + 1) * x.columns) }, angles, [row], -1);
  const [a, b] = [rotate(unrotated(q, p), angles, [p + by]), rotate(unrotated(k, s), angles, [s + by])];
  let sum = 0;
  for (let i = 0; i < a.columns; i++) sum += a.data[i] * b.data[i];
  return sum;
}

export interface BiasByDistance {
  /** Key position minus query position, ascending. */
  readonly distances: readonly number[];
  readonly values: readonly number[];
  /** The largest difference between biases of one distance: 0 if the bias depends on the distance only. */
  readonly worst: number;
}

/** A bias of queries and keys as one number per distance. */
export function biasByDistance(bias: Numbers): BiasByDistance {
  const first = new Map<number, number>();
  let worst = 0;
  for (let t = 0; t < bias.rows; t++)
    for (let s = 0; s < bias.columns; s++) {
      const value = valueAt(bias, t, s);
      const known = first.get(s - t);
      if (known === undefined) first.set(s - t, value);
      else worst = Math.max(worst, Math.abs(value - known));
    }
  const distances = [...first.keys()].sort((a, b) => a - b);
  return { distances, values: distances.map((distance) => first.get(distance) ?? 0), worst };
}
