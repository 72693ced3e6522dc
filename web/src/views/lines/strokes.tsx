/** Lines as strokes: those of one look in one path, the lightest first, for canvas and SVG alike. */

import { css, headColours, type Ramp } from "../../draw/colours";
import { rampStep, type Tone } from "../../draw/paint";
import type { Arc } from "./arcs";
import type { Layout } from "./layout";
import type { Drawn } from "./series";

export interface Stroke {
  readonly d: string;
  readonly colour: string;
  readonly alpha: number;
  readonly width: number;
  readonly dash: readonly number[];
}

export interface Look {
  readonly ramp: Ramp; // of a line whose head has no colour
  readonly faint: string; // of the other heads beside coloured ones
  readonly tone: Tone;
}

/** What the lines are: all together, of what is pointed at, of what is locked, of the pair in focus. */
export type Rank = "all" | "pointed" | "locked" | "pair";

const THICKER: Readonly<Record<Rank, number>> = { all: 0, pointed: 0.25, locked: 1, pair: 1.5 };
const LEVELS = 10;

/** How a weight of a series is drawn: the tone says how dark and how wide. */
export function stroke({ series }: Drawn, number: number, weight: number, look: Look, rank: Rank): Omit<Stroke, "d"> {
  const level = Math.ceil(look.tone(weight) * LEVELS) / LEVELS;
  const width = 0.5 + 3 * level * level + THICKER[rank];
  const least = rank === "all" ? 0.06 : 0.34; // the faintest of few lines can still be followed
  const { colour } = series[number];
  if (colour !== null) return { ...headColours[colour], alpha: 2 * least + (1 - 2 * least) * level, width };
  if (series.length > 1)
    return { colour: look.faint, alpha: (least + level) / Math.sqrt(series.length + 1), width, dash: [] };
  return { colour: css(look.ramp, rampStep(least + (1 - least) * level)), alpha: 1, width, dash: [] };
}

export function strokes(list: readonly Arc[], drawn: Drawn, layout: Layout, look: Look, rank: Rank): readonly Stroke[] {
  const { shown, dim, series: all } = drawn;
  const apart = all.length <= headColours.length ? 3 : 0; // pixels between lines of one pair
  const found = new Map<string, Stroke & { parts: string[] }>();
  for (const { query, key, series, weight } of list.toReversed()) {
    const made = stroke(drawn, series, weight, look, rank);
    const alpha = dim && (shown.queries[query].special || shown.keys[key].special) ? made.alpha / 4 : made.alpha;
    const name = `${made.colour} ${alpha}`;
    const same = found.get(name) ?? { ...made, alpha, d: "", parts: [] };
    same.parts.push(layout.path(query, key, apart * (series - (all.length - 1) / 2)));
    found.set(name, same);
  }
  return [...found.values()].map(({ parts, ...rest }) => ({ ...rest, d: parts.join("") }));
}

/** Strokes as elements. */
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
