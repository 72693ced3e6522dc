/**
 * Colour ramps of 256 steps, uniform in OKLab, one for light and one for dark backgrounds.
 *
 * A ramp interpolates linearly between its stops in OKLab (Ottosson 2020) and is rounded to sRGB bytes; step i of
 * 0 … 255 is at fraction i / 255. Value 0 has the colour of the page background. Stops are (lightness, chroma, hue in degrees).
 */

export type Shade = "light" | "dark";
/** 256 triples of red, green, blue. */
export type Ramp = Uint8Array;
type Stop = readonly [lightness: number, chroma: number, hue: number];

const PAPER = { light: [0.988, 0.003, 95], dark: [0.2, 0.008, 260] } as const satisfies Record<Shade, Stop>;

const INK: Record<Shade, readonly Stop[]> = {
  light: [PAPER.light, [0.74, 0.095, 245], [0.48, 0.12, 257], [0.22, 0.07, 265]],
  dark: [PAPER.dark, [0.44, 0.11, 257], [0.72, 0.115, 240], [0.97, 0.03, 215]],
};
const PURPLE_ORANGE: Record<Shade, readonly Stop[]> = {
  light: [[0.36, 0.14, 295], [0.7, 0.1, 295], PAPER.light, [0.76, 0.12, 62], [0.48, 0.12, 52]],
  dark: [[0.86, 0.08, 300], [0.56, 0.15, 297], PAPER.dark, [0.56, 0.12, 55], [0.88, 0.1, 80]],
};
const RED_BLUE: Record<Shade, readonly Stop[]> = {
  light: [[0.38, 0.15, 25], [0.72, 0.12, 30], PAPER.light, [0.74, 0.095, 240], [0.38, 0.12, 255]],
  dark: [[0.86, 0.09, 35], [0.56, 0.17, 27], PAPER.dark, [0.52, 0.12, 252], [0.88, 0.07, 230]],
};

/** Weights: background (0) to ink (1). */
export function ink(shade: Shade): Ramp {
  return ramp(INK[shade]);
}

/** Signed numbers: purple (-), background (0, steps 127 and 128), orange (+). */
export function diverging(shade: Shade): Ramp {
  return ramp(PURPLE_ORANGE[shade]);
}

/** Signed numbers of positional encodings: red (-) to blue (+), matplotlib's RdBu. */
export function redBlue(shade: Shade): Ramp {
  return ramp(RED_BLUE[shade]);
}

/** The colours of up to four compared heads (Okabe and Ito), each with its own dash pattern. */
export const headColours: readonly { readonly colour: string; readonly dash: readonly number[] }[] = [
  { colour: "#0072b2", dash: [] },
  { colour: "#d55e00", dash: [7, 3] },
  { colour: "#009e73", dash: [2, 3] },
  { colour: "#cc79a7", dash: [9, 3, 2, 3] },
];

/** Step `index` of a ramp as a CSS colour. */
export function css(ramp: Ramp, index: number): string {
  return `rgb(${ramp[3 * index]} ${ramp[3 * index + 1]} ${ramp[3 * index + 2]})`;
}

const rampCache = new Map<readonly Stop[], Ramp>();

function ramp(stops: readonly Stop[]): Ramp {
  let found = rampCache.get(stops);
  if (found) return found;
  found = new Uint8Array(3 * 256);
  const points = stops.map(([lightness, chroma, hue]) => {
    const angle = (hue * Math.PI) / 180;
    return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
  });
  for (let i = 0; i < 256; i++) {
    const position = (i / 255) * (points.length - 1);
    const before = Math.min(Math.floor(position), points.length - 2);
    const part = position - before;
    const [L, a, b] = [0, 1, 2].map((axis) => points[before][axis] * (1 - part) + points[before + 1][axis] * part);
    found.set(oklabToSrgb(L, a, b), 3 * i);
  }
  rampCache.set(stops, found);
  return found;
}

function oklabToSrgb(L: number, a: number, b: number): readonly number[] {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((linear) => {
    const light = Math.min(Math.max(linear, 0), 1);
    return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055));
  });
}
