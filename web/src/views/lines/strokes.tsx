/** Lines as strokes: one path per style, faintest first, for canvas and SVG. */

import { css, headColours, type Ramp } from "../../draw/colours";
import { rampStep, type Tone } from "../../draw/paint";
import type { Line } from "./selectLines";
import type { Layout } from "./layout";
import type { LinesData } from "./series";

export interface Stroke {
  readonly d: string;
  readonly colour: string;
  readonly alpha: number;
  readonly width: number;
  readonly dash: readonly number[];
}

export interface LineStyle {
  readonly ramp: Ramp; // for lines of a head without a colour
  readonly faint: string; // for the other heads when some have a colour
  readonly tone: Tone;
}

/** The kind of a line: any, of the hovered token, of the locked token, of the focused pair. */
export type LineKind = "all" | "hovered" | "locked" | "pair";

const EXTRA_WIDTH: Readonly<Record<LineKind, number>> = { all: 0, hovered: 0.25, locked: 1, pair: 1.5 };
const LEVELS = 10;

/** The style of a weight: darker and wider for larger weights. */
export function stroke({ series }: LinesData, index: number, weight: number, style: LineStyle, kind: LineKind): Omit<Stroke, "d"> {
  const level = Math.ceil(style.tone(weight) * LEVELS) / LEVELS;
  const width = 0.5 + 3 * level * level + EXTRA_WIDTH[kind];
  const min = kind === "all" ? 0.06 : 0.34; // few lines stay visible even if faint
  const { colour } = series[index];
  if (colour !== null) return { ...headColours[colour], alpha: 2 * min + (1 - 2 * min) * level, width };
  if (series.length > 1)
    return { colour: style.faint, alpha: (min + level) / Math.sqrt(series.length + 1), width, dash: [] };
  return { colour: css(style.ramp, rampStep(min + (1 - min) * level)), alpha: 1, width, dash: [] };
}

export function strokes(list: readonly Line[], data: LinesData, layout: Layout, style: LineStyle, kind: LineKind): readonly Stroke[] {
  const { weights, dim, series: all } = data;
  const offset = all.length <= headColours.length ? 3 : 0; // pixels between lines of one pair
  const found = new Map<string, Stroke & { parts: string[] }>();
  for (const { query, key, series, weight } of list.toReversed()) {
    const drawn = stroke(data, series, weight, style, kind);
    const alpha = dim && (weights.queries[query].special || weights.keys[key].special) ? drawn.alpha / 4 : drawn.alpha;
    const name = `${drawn.colour} ${alpha}`;
    const same = found.get(name) ?? { ...drawn, alpha, d: "", parts: [] };
    same.parts.push(layout.path(query, key, offset * (series - (all.length - 1) / 2)));
    found.set(name, same);
  }
  return [...found.values()].map(({ parts, ...rest }) => ({ ...rest, d: parts.join("") }));
}

/** Strokes as SVG elements. */
export function elements(strokes: readonly Stroke[], colour?: string) {
  return strokes.map((one, i) => (
    <path
      key={i}
      d={one.d}
      fill="none"
      stroke={colour ?? one.colour}
      stroke-opacity={one.alpha}
      stroke-width={one.width}
      stroke-dasharray={one.dash.join(" ") || undefined}
    />
  ));
}
