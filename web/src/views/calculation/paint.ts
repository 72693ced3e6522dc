/** Tables of numbers in colours: weights in ink, signed numbers around 0; what is hidden stays clear. */

import { css, diverging, ink, type Ramp, type Shade } from "../../draw/colours";
import { paint, signedTone, rampStep, type Tone, tone } from "../../draw/paint";
import type { Numbers } from "./arithmetic";

export interface ColourScale {
  readonly ramp: Ramp;
  readonly tone: Tone;
  readonly zero: number; // where on the ramp number 0 is
}

/** How a table is coloured: up to its largest number, on both sides of 0 where some are below. */
export function colourScale(numbers: Numbers, shade: Shade): ColourScale {
  let [min, max] = [0, 0];
  for (let i = 0; i < numbers.data.length; i++) {
    const value = numbers.data[i];
    if (!Number.isFinite(value)) continue;
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  return min < 0
    ? { ramp: diverging(shade), tone: signedTone(Math.max(max, -min)), zero: 0.5 }
    : { ramp: ink(shade), tone: tone("linear", max), zero: 0 };
}

const MAX_SATURATION = 0.35; // of the ramp: the page's ink stays readable on it

/** The ground of a cell with a number written on it. */
export function cellBackground({ ramp, tone, zero }: ColourScale, value: number): string {
  return Number.isFinite(value) ? css(ramp, rampStep(zero + (tone(value) - zero) * MAX_SATURATION)) : "transparent";
}

/** One pixel a cell. */
export function heatmapImage(numbers: Numbers, { ramp, tone }: ColourScale): ImageData {
  const data = Float32Array.from(numbers.data, (value) => (Number.isFinite(value) ? value : Number.NaN));
  return paint({ rows: numbers.rows, columns: numbers.columns, data }, ramp, tone);
}
