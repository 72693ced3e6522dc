/** Positions of tokens and paths of lines: two columns, or one sentence with arcs above and below it. */

export type Side = "query" | "key";

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** In pixels of the whole drawing, which may be larger than its visible part. */
export interface Layout {
  readonly kind: "columns" | "arcs";
  readonly width: number;
  readonly height: number;
  readonly vertical: boolean; // texts run from top to bottom
  /** The SVG path of a pair; `offset` separates the lines of several heads. */
  path(query: number, key: number, offset?: number): string;
  /** The distance of a point from that line. */
  distance(query: number, key: number, x: number, y: number): number;
  /** The boxes of a token and of its number. */
  label(side: Side, index: number): Box;
  number(side: Side, index: number): Box;
  /** The token at a point; null: none. */
  tokenAt(x: number, y: number): { readonly side: Side; readonly index: number } | null;
}

export interface LayoutInput {
  readonly width: number;
  readonly height: number;
  readonly queries: number;
  readonly keys: number;
  readonly label: number; // width of the longest token
  readonly number: number; // width of the numbers next to a token
}

const ROW = { min: 20, max: 72 };
const GAP = 8;

/** Queries on the left, keys on the right, one row each. */
export function columnLayout(input: LayoutInput): Layout {
  const max = Math.max(input.queries, input.keys);
  const row = clamp(Math.floor((input.height - 2) / max), ROW.min, ROW.max);
  const label = Math.min(input.label, input.width * 0.24);
  const margin = label + input.number + 2 * GAP;
  const between = clamp(input.width - 2 * margin, 90, 760);
  const left = Math.max(0, (input.width - between) / 2 - margin); // left edge of the numbers of the queries
  const from = left + margin;
  const to = from + between;
  const counts = { query: input.queries, key: input.keys };
  const middle = (index: number) => index * row + row / 2;
  return {
    kind: "columns",
    width: Math.max(input.width, to + margin),
    height: max * row + 2,
    vertical: false,
    path: (query, key, offset = 0) => {
      const third = between / 3; // then x is linear in t and y = 3t² − 2t³
      const [y, end] = [middle(query) + offset, middle(key) + offset];
      return `M${from} ${y}C${round(from + third)} ${y} ${round(to - third)} ${end} ${to} ${end}`;
    },
    distance: (query, key, x, y) => {
      const t = clamp((x - from) / between, 0, 1);
      const drop = middle(key) - middle(query);
      const slope = (drop * 6 * t * (1 - t)) / between;
      return Math.abs(middle(query) + drop * t * t * (3 - 2 * t) - y) / Math.hypot(1, slope);
    },
    label: (side, index) => ({
      x: side === "query" ? from - GAP - label : to + GAP,
      y: index * row,
      width: label,
      height: row,
    }),
    number: (side, index) => ({
      x: side === "query" ? left : to + 2 * GAP + label,
      y: index * row,
      width: input.number,
      height: row,
    }),
    tokenAt: (x, y) => {
      const side = x < from ? "query" : "key";
      const index = Math.floor(y / row);
      return (x >= from && x <= to) || index < 0 || index >= counts[side] ? null : { side, index };
    },
  };
}

/** One sentence: arcs above it go to earlier tokens, arcs below it to later ones; a small loop is attention to the token itself. */
export function arcLayout(input: LayoutInput, ahead: boolean): Layout {
  const pitch = clamp(input.width / input.keys, 22, 92);
  const left = Math.max(0, (input.width - pitch * input.keys) / 2);
  const vertical = input.label > pitch - 4;
  const band = (vertical ? Math.min(input.label, 110) : 26) + 18;
  const maxRadius = (pitch * Math.max(1, input.keys - 1)) / 2;
  const maxHeight = clamp((input.height - band) / (ahead ? 2 : 1) - 10, 60, maxRadius + 8);
  const flattening = Math.min(1, maxHeight / maxRadius);
  const top = Math.max(maxHeight, pitch * 0.8) + 4;
  const number = input.number > 54 ? Math.max(28, Math.min(input.number, pitch - 2)) : 28; // a single head's number is centred
  const centre = (index: number) => left + pitch * (index + 0.5);
  const loop = { width: pitch * 0.26, height: pitch * 0.5 };
  const box = (_: Side, index: number): Box => ({
    x: centre(index) - pitch / 2,
    y: top,
    width: pitch,
    height: band - 18,
  });
  return {
    kind: "arcs",
    width: Math.max(input.width, pitch * input.keys),
    height: top + band + (ahead ? maxHeight + 6 : 4),
    vertical,
    path: (query, key, offset = 0) => {
      const y = key > query ? top + band : top;
      if (query === key) {
        const [a, b] = [round(centre(query) + loop.width), round(centre(query) - loop.width)];
        const peak = round(y - loop.height - offset);
        return `M${a} ${y}C${a} ${peak} ${b} ${peak} ${b} ${y}`;
      }
      const radius = (Math.abs(key - query) * pitch) / 2;
      const radii = `${round(radius)} ${round(radius * flattening + offset)}`;
      return `M${round(centre(query))} ${y}A${radii} 0 0 0 ${round(centre(key))} ${y}`;
    },
    distance: (query, key, x, y) => {
      const base = key > query ? top + band : top;
      const radius = query === key ? loop.width : (Math.abs(key - query) * pitch) / 2;
      const height = query === key ? loop.height * 0.75 : radius * flattening;
      if (key > query ? y < base : y > base) return Number.POSITIVE_INFINITY;
      const across = (x - (centre(query) + centre(key)) / 2) / radius;
      return Math.abs(Math.hypot(across, (y - base) / height) - 1) * Math.min(radius, height);
    },
    label: box,
    number: (_, index) => ({ x: centre(index) - number / 2, y: top + band - 18, width: number, height: 18 }),
    tokenAt: (x, y) => {
      const index = Math.floor((x - left) / pitch);
      return y < top || y > top + band || index < 0 || index >= input.keys ? null : { side: "query", index };
    },
  };
}

function clamp(value: number, min: number, max: number): number {
  return Math.max(min, Math.min(max, value));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
