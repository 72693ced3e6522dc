/** Equation (1) for one query, recomputed in double precision: dot product, scale, bias, mask, softmax. */

import { type Matrix, rowOf, scaleScore as scaledBy } from "../../trace/matrix";

/** The inputs of the softmax: one head of one layer. */
export interface HeadParts {
  readonly q: Matrix; // (T, K)
  readonly k: Matrix; // (S, K)
  readonly scale: number;
  readonly softcap?: number | null;
  readonly bias: Matrix | null; // (T, S)
  readonly mask: { readonly columns: number; readonly data: Uint8Array }; // (T, S), 1 = may attend
  readonly muted?: boolean; // the output of the head was set to 0
}

/** One number per key. */
export interface RecomputedRow {
  readonly dots: Float64Array; // q·k
  readonly scaled: Float64Array; // × scale, soft-capped
  readonly biases: Float64Array | null;
  readonly scores: Float64Array; // + bias
  readonly allowed: readonly boolean[];
  readonly largest: number; // of the allowed scores
  readonly sum: number; // Σ exp(score − largest) over the allowed keys
  readonly softmax: Float64Array; // 0 where masked; all 0 if everything is masked
  readonly weights: Float64Array; // all 0 for a muted head
}

export function recomputeRow(parts: HeadParts, query: number): RecomputedRow {
  const { q, k, bias, mask, muted } = parts;
  const dots = Float64Array.from({ length: k.rows }, (_, key) => dot(rowOf(q, query), rowOf(k, key)));
  const scaled = dots.map((value) => scaledBy(value, parts));
  const biases = bias && Float64Array.from(rowOf(bias, query));
  const scores = biases ? scaled.map((value, key) => value + biases[key]) : scaled;
  const allowed = Array.from({ length: k.rows }, (_, key) => mask.data[query * mask.columns + key] === 1);
  const largest = scores.reduce((max, score, key) => (allowed[key] ? Math.max(max, score) : max), -Infinity);
  const powers = scores.map((score, key) => (allowed[key] ? Math.exp(score - largest) : 0));
  const sum = powers.reduce((total, power) => total + power, 0);
  const softmax = sum > 0 ? powers.map((power) => power / sum) : powers;
  const weights = muted ? softmax.map(() => 0) : softmax;
  return { dots, scaled, biases, scores, allowed, largest, sum, softmax, weights };
}

export function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** q_i k_i in a given order, and their cumulative sum, whose last entry is q·k. */
export function products(
  q: Float32Array,
  k: Float32Array,
  order: readonly number[],
): { each: number[]; running: number[] } {
  let sum = 0;
  const each = order.map((i) => q[i] * k[i]);
  return { each, running: each.map((product) => (sum += product)) };
}

/**
 * Dimensions 0 … K−1 in drawing order: by index, or by decreasing contribution |q_i k_i|; with `pairs`, i next to
 * i + K/2, which are rotated together.
 */
export function dimensions(q: Float32Array, k: Float32Array | null, pairs: boolean): number[] {
  const half = q.length / 2;
  const groups = pairs
    ? Array.from({ length: half }, (_, i) => [i, i + half])
    : Array.from({ length: q.length }, (_, i) => [i]);
  if (k) {
    const size = (group: readonly number[]) => Math.abs(group.reduce((sum, i) => sum + q[i] * k[i], 0));
    groups.sort((a, b) => size(b) - size(a) || a[0] - b[0]);
  }
  return groups.flat();
}
