/** Colours of matrices: weights in ink, signed numbers around 0; masked cells are transparent. */

import { css, diverging, ink, type Ramp, type Shade } from "../../draw/colours";
import { paint, rampStep, signedTone, type Tone, tone } from "../../draw/paint";
import type { Numbers } from "./arithmetic";

export interface ColourScale {
  readonly ramp: Ramp;
  readonly tone: Tone;
  readonly zero: number; // the fraction of the ramp at 0
}

/** The colour scale of a matrix: up to its maximum, symmetric around 0 if it has negative numbers. */
export function colourScale(numbers: Numbers, shade: Shade): ColourScale {
  const { min, max } = finiteRange(numbers);
  return min < 0
    ? { ramp: diverging(shade), tone: signedTone(Math.max(max, -min)), zero: 0.5 }
    : { ramp: ink(shade), tone: tone("linear", max), zero: 0 };
}

/** The smallest and the largest finite number, and 0. */
export function finiteRange(numbers: Numbers): { readonly min: number; readonly max: number } {
  let [min, max] = [0, 0];
  for (let i = 0; i < numbers.data.length; i++) {
    const value = numbers.data[i];
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  return { min, max };
}

const MAX_SATURATION = 0.35; // of the ramp, so that text stays readable on it

/** The background of a cell that shows a number. */
export function cellBackground({ ramp, tone, zero }: ColourScale, value: number): string {
  return Number.isFinite(value) ? css(ramp, rampStep(zero + (tone(value) - zero) * MAX_SATURATION)) : "transparent";
}

/** One pixel per cell. */
export function heatmapImage(numbers: Numbers, { ramp, tone }: ColourScale): ImageData {
  const data = Float32Array.from(numbers.data, (value) => (Number.isFinite(value) ? value : Number.NaN));
  return paint({ rows: numbers.rows, columns: numbers.columns, data }, ramp, tone);
}
