/** The ground of a word by what it adds, and ink that can be read on it. */

import { type Ramp, css } from "../../draw/colours";
import { signedTone, stepOf } from "../../draw/paint";

export function tint(ramp: Ramp, value: number, most: number): { background: string; color: string } {
  const index = stepOf(signedTone(most * 1.15)(value));
  const [r, g, b] = Array.from(ramp.subarray(3 * index, 3 * index + 3), (byte) => (byte / 255) ** 2.2);
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b; // black and white are as readable on 0.179
  return { background: css(ramp, index), color: luminance > 0.179 ? "#000000" : "#ffffff" };
}
