/** Numbers as pixels: one pixel per cell, scaled when drawn. */

import type { Scale } from "../state/state";
import type { Matrix } from "../trace/matrix";
import type { Ramp } from "./colours";
import type { Context } from "./svgContext";

/** Maps a number to a fraction of the ramp, 0 … 1. */
export type Tone = (value: number) => number;

export const MIN_LOG_FRACTION = 1e-4; // start of the logarithmic scale, as a fraction of `max`

/** The tone of numbers from 0 to `max`. */
export function tone(scale: Scale, max = 1): Tone {
  const range = max > 0 ? max : 1;
  if (scale === "linear") return (value) => clip(value / range);
  if (scale === "sqrt") return (value) => Math.sqrt(clip(value / range));
  return (value) => clip(1 - Math.log10(Math.max(value, 0) / range) / Math.log10(MIN_LOG_FRACTION));
}

/** The tone of signed numbers: -max … 0 … max on a diverging ramp. */
export function signedTone(max: number): Tone {
  const range = max > 0 ? max : 1;
  return (value) => clip(0.5 + value / range / 2);
}

/** The ramp step of a tone. */
export function rampStep(fraction: number): number {
  return Math.round(255 * fraction);
}

/** One pixel per cell; NaN is transparent. */
export function paint(matrix: Matrix, ramp: Ramp, tone: Tone): ImageData {
  const image = new ImageData(matrix.columns, matrix.rows);
  for (let i = 0; i < matrix.data.length; i++) {
    const fraction = tone(matrix.data[i]);
    if (fraction >= 0) setPixel(image, i, ramp, rampStep(fraction));
  }
  return image;
}

/** Thumbnail bytes as pixels: a byte is a step of the ramp. */
export function paintBytes(bytes: Uint8Array, rows: number, columns: number, ramp: Ramp): ImageData {
  const image = new ImageData(columns, rows);
  for (let i = 0; i < bytes.length; i++) setPixel(image, i, ramp, bytes[i]);
  return image;
}

function setPixel(image: ImageData, at: number, ramp: Ramp, step: number): void {
  image.data[4 * at] = ramp[3 * step];
  image.data[4 * at + 1] = ramp[3 * step + 1];
  image.data[4 * at + 2] = ramp[3 * step + 2];
  image.data[4 * at + 3] = 255;
}

/** An image as a canvas that can be drawn at any size. */
export function toCanvas(image: ImageData): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

/** Draws `image` into a rectangle without smoothing. */
export function blit(
  g: CanvasRenderingContext2D,
  image: ImageData,
  x: number,
  y: number,
  width: number,
  height: number,
): void {
  g.imageSmoothingEnabled = false;
  g.drawImage(toCanvas(image), x, y, width, height);
}

/** Diagonal hatching of a rectangle for masked or padding cells, so that they differ not only by colour. */
export function hatch(
  g: Context,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
  gap = 6,
): void {
  g.save();
  g.beginPath();
  g.rect(x, y, width, height);
  g.clip();
  g.beginPath();
  for (let at = Math.floor((x - y - height) / gap) * gap; at <= x + width - y; at += gap) {
    g.moveTo(at + y, y); // lines x - y = at, so that hatching is continuous across cells
    g.lineTo(at + y + height, y + height);
  }
  g.strokeStyle = colour;
  g.lineWidth = 1;
  g.stroke();
  g.restore();
}

function clip(fraction: number): number {
  return fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
}
