/** The mathematics of a Transformer in double precision, so that the page can recompute every step. */

import type { NormKind } from "../../trace/format";

/** A matrix of any precision; `Matrix` is one. */
export interface Numbers {
  readonly rows: number;
  readonly columns: number;
  readonly data: ArrayLike<number>;
}

/** A matrix computed element by element. */
export function table(rows: number, columns: number, cell: (row: number, column: number) => number): Numbers {
  const data = new Float64Array(rows * columns);
  for (let row = 0, i = 0; row < rows; row++) for (let column = 0; column < columns; column++) data[i++] = cell(row, column);
  return { rows, columns, data };
}

export function valueAt(numbers: Numbers, row: number, column: number): number {
  return numbers.data[row * numbers.columns + column];
}

export function mapCells(a: Numbers, make: (value: number, index: number) => number): Numbers {
  return { rows: a.rows, columns: a.columns, data: Float64Array.from(a.data, make) };
}

/** Element by element, of two matrices of one shape. */
export function zipCells(a: Numbers, b: Numbers, make: (x: number, y: number) => number): Numbers {
  return mapCells(a, (x, i) => make(x, b.data[i]));
}

export function add(a: Numbers, b: Numbers): Numbers {
  return zipCells(a, b, (x, y) => x + y);
}

export function transpose(a: Numbers): Numbers {
  return table(a.columns, a.rows, (row, column) => valueAt(a, column, row));
}

/** The matrix product a b. */
export function matmul(a: Numbers, b: Numbers): Numbers {
  const left = Float64Array.from(a.data); // a Float64Array in row-major order, which engines optimise well
  const right = transpose(b).data as Float64Array;
  const n = a.columns;
  return table(a.rows, b.columns, (row, column) => {
    let sum = 0;
    for (let k = 0, i = row * n, j = column * n; k < n; k++) sum += left[i + k] * right[j + k];
    return sum;
  });
}

/** x W + b with W as (in, out); nn.Linear stores it transposed. */
export function linear(x: Numbers, weight: Numbers, bias: Numbers | null): Numbers {
  const result = matmul(x, weight);
  return bias ? mapCells(result, (value, i) => value + bias.data[i % result.columns]) : result;
}

/** The softmax of each row over the allowed entries; rows without any are 0. */
export function softmax(scores: Numbers, allowed?: ArrayLike<number>): Numbers {
  const { rows, columns } = scores;
  const data = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const from = row * columns;
    let max = -Infinity;
    for (let i = from; i < from + columns; i++) if (!allowed || allowed[i]) max = Math.max(max, scores.data[i]);
    if (max === -Infinity) continue;
    let sum = 0;
    for (let i = from; i < from + columns; i++) if (!allowed || allowed[i]) sum += data[i] = Math.exp(scores.data[i] - max);
    for (let i = from; i < from + columns; i++) data[i] /= sum;
  }
  return { rows, columns, data };
}

/** The mean and the standard deviation (with epsilon) of a row; RMSNorm does not subtract the mean. */
export function meanAndDeviation(x: Numbers, row: number, kind: NormKind, epsilon: number): readonly [number, number] {
  let mean = 0;
  if (kind === "layer") for (let i = 0; i < x.columns; i++) mean += valueAt(x, row, i) / x.columns;
  let variance = 0;
  for (let i = 0; i < x.columns; i++) variance += (valueAt(x, row, i) - mean) ** 2 / x.columns;
  return [mean, Math.sqrt(variance + epsilon)];
}

/** LayerNorm or RMSNorm: each row (x - mean) / deviation · weight + bias. */
export function normalise(x: Numbers, kind: NormKind, epsilon: number, weight: Numbers, bias: Numbers | null): Numbers {
  const spreads = Array.from({ length: x.rows }, (_, row) => meanAndDeviation(x, row, kind, epsilon));
  return table(x.rows, x.columns, (row, i) => {
    const [mean, deviation] = spreads[row];
    return ((valueAt(x, row, i) - mean) / deviation) * (weight.data[i] + (kind === "rms_offset" ? 1 : 0)) + (bias?.data[i] ?? 0);
  });
}

/** The activation functions of jumok, by name. */
export const activations: Readonly<Record<string, (x: number) => number>> = {
  relu: (x) => Math.max(x, 0),
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  gelu_tanh: (x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
};

/** The error function as a series of positive terms, without cancellation. */
export function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= (2 * x * x) / (2 * n + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** Rotates each row by its position: pair i is numbers i and i + K/2; direction -1 inverts it. */
export function rotate(x: Numbers, angles: ArrayLike<number>, positions: ArrayLike<number>, direction: 1 | -1 = 1): Numbers {
  const half = x.columns / 2;
  return table(x.rows, x.columns, (row, i) => {
    const angle = direction * positions[row] * angles[i % half];
    const other = i < half ? -valueAt(x, row, i + half) : valueAt(x, row, i - half);
    return valueAt(x, row, i) * Math.cos(angle) + other * Math.sin(angle);
  });
}

/** Columns `from` up to `from + count`. */
export function sliceColumns(x: Numbers, from: number, count: number): Numbers {
  return table(x.rows, count, (row, column) => valueAt(x, row, from + column));
}

/** Concatenates matrices of the same height along the columns. */
export function concatColumns(parts: readonly Numbers[]): Numbers {
  const width = parts[0].columns;
  return table(parts[0].rows, width * parts.length, (row, column) => valueAt(parts[Math.floor(column / width)], row, column % width));
}

/** The paper's interleaved sines and cosines, or all sines first (Marian). */
export function sinusoids(n: number, d: number, base = 10000, halves = false): Numbers {
  const sines = Math.ceil(d / 2);
  return table(n, d, (p, i) => {
    const pair = halves ? i % sines : i >> 1;
    const angle = p / base ** ((2 * pair) / d);
    return (halves ? i < sines : i % 2 === 0) ? Math.sin(angle) : Math.cos(angle);
  });
}

export interface Agreement {
  /** The largest difference: absolute up to 1, relative above. */
  readonly worst: number;
  readonly agrees: boolean;
}

/** float16 has three digits, float32 seven; sums of some hundred terms lose one or two. */
export const TOLERANCE = { F32: 1e-5, F16: 5e-3, U8: 0, I8: 0 } as const;

/** Whether two matrices agree within the tolerance: absolute up to 1, relative above. */
export function agreement(computed: Numbers, recorded: Numbers, tolerance: number): Agreement {
  let worst = computed.rows === recorded.rows && computed.columns === recorded.columns ? 0 : Infinity;
  for (let i = 0; i < computed.data.length; i++) {
    const [a, b] = [computed.data[i], recorded.data[i]];
    if (a === b) continue; // -inf too
    const error = Math.abs(a - b) / Math.max(1, Math.abs(b));
    worst = error <= worst ? worst : Number.isNaN(error) ? Infinity : error;
  }
  return { worst, agrees: worst <= tolerance };
}
