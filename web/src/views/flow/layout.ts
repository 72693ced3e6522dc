/** Where the parts of figure 1 are: stacks side by side, tokens from left to right, layers from the bottom to the top. */

import { textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import type { Model } from "../../trace/format";
import type { Column, Flow } from "./flowData";

export interface Prediction {
  readonly row: number; // -1: of the whole text
  readonly text: string;
  readonly probability: number;
}

/** A column of the data in the picture; y grows downwards, so `top` is where its results are. */
export interface Part {
  readonly top: number;
  readonly bottom: number;
  readonly block: readonly [top: number, bottom: number]; // the coloured box
  readonly norm: number | null; // the middle of its Add & Norm
  readonly before: number | null; // the middle of the norm below the box, of models that normalize first
  readonly expanded: boolean;
}

export interface Stack {
  readonly left: number; // of the boxes
  readonly right: number;
  readonly pitch: number; // pixels from token to token
  readonly gutter: { readonly x: number; readonly far: number; readonly anchor: "start" | "end"; readonly width: number };
  readonly parts: readonly Part[];
  readonly slanted: boolean; // its texts
}

export interface FlowLayout {
  readonly width: number;
  readonly height: number;
  readonly stacks: readonly Stack[];
  readonly lane: readonly [left: number, right: number] | null; // of keys and values, between the stacks
}

const EDGE = 8;
const TITLE = 26; // above a stack
const TRUNK = 46; // above an encoder, for its keys and values
const [FLAT, SLANTED] = [24, 62]; // heights of texts
const [EMBEDDING, POSITIONS, FORWARD, OUTPUT, LENS] = [26, 28, 28, 28, 16];
export const NORM = 17; // the height of Add & Norm
const GAP = 9;
const [MIN_ATTENTION, MAX_ATTENTION] = [34, 150];
const [MIN_COMPACT, MAX_COMPACT] = [4, 9]; // a sublayer of a layer that is not expanded
const [MIN_PITCH, MAX_PITCH] = [9, 92];
const MIN_LENS_PITCH = 40; // narrower columns have no room for a token of the logit lens
const [WIDE, NARROW] = [760, 480]; // windows with long titles, and with short ones
export const FONT = 12;

export function addsPositions({ positions }: Model): boolean {
  return !["rotary", "relative", "none", "unknown"].includes(positions);
}

/** The layout for a box; a long text or a deep model makes it larger than the box. */
export function layoutFlow(flow: Flow, model: Model, predictions: readonly Prediction[], boxWidth: number, boxHeight: number, focus: number): FlowLayout {
  const count = flow.sides.length;
  const title = boxWidth >= WIDE ? 186 : boxWidth >= NARROW ? 96 : 44;
  const lane = count > 1 ? Math.max(26, Math.min(90, boxWidth * 0.08)) : 0;
  const room = (boxWidth - 2 * EDGE - lane) / count - title;
  const widths = flow.sides.map(({ tokens }) => Math.max(MIN_PITCH, Math.min(MAX_PITCH, room / tokens.length)) * tokens.length);
  const total = widths.reduce((sum, width) => sum + width + title, lane);
  let x = Math.max(EDGE, (boxWidth - total) / 2);
  const frames = flow.sides.map(({ tokens, side }, i) => {
    const isLeft = i === 0;
    const left = isLeft ? x + title : x;
    const right = left + widths[i];
    x = isLeft ? right + lane : right + title;
    const names = [...tokens.map(({ text }) => text), ...(i === count - 1 ? predictions.filter(({ row }) => row >= 0).map(({ text }) => text) : [])];
    const pitch = widths[i] / tokens.length;
    const gutter = isLeft ? { x: left - 14, far: left - title + EDGE, anchor: "end" as const, width: title - 14 } : { x: right + 14, far: right + title - EDGE, anchor: "start" as const, width: title - 14 };
    return { side, left, right, pitch, gutter, slanted: Math.max(...names.map((text) => textWidth(shorten(displayText(text)), FONT))) > pitch - 4 };
  });
  const heights = flow.sides.map(({ columns }, i) => stackHeights(columns, model, frames[i], predictions, boxHeight - TITLE - (count > 1 && i === 0 ? TRUNK : 0), focus));
  const height = Math.ceil(Math.max(boxHeight, ...heights.map((parts, i) => parts.reduce((sum, part) => sum + part.height, TITLE + (count > 1 && i === 0 ? TRUNK : 0)))));
  const stacks = frames.map((frame, i) => ({ ...frame, parts: placed(heights[i], height - 2) }));
  return { width: Math.ceil(Math.max(boxWidth, x)), height, stacks, lane: count > 1 ? [frames[0].right, frames[1].left] : null };
}

interface Sizes {
  readonly height: number;
  readonly block: readonly [above: number, height: number]; // from the top of the part
  readonly norm: number | null;
  readonly before: number | null;
  readonly expanded: boolean;
}

/** The heights of the columns of a stack: as many layers around the chosen one in full as fit. */
function stackHeights(columns: readonly Column[], model: Model, { pitch, slanted }: Pick<Stack, "pitch" | "slanted">, predictions: readonly Prediction[], room: number, focus: number): readonly Sizes[] {
  const labels = slanted ? SLANTED : FLAT;
  const ofText = predictions.filter(({ row }) => row < 0).length;
  const layers = 1 + Math.max(-1, ...columns.map(({ layer }) => layer));
  const chosen = Math.min(focus, layers - 1);
  const measure = (isExpanded: (layer: number) => boolean, attention: number, compact: number) =>
    columns.map(({ kind, layer }): Sizes => {
      const expanded = layer < 0 || isExpanded(layer);
      if (kind === "tokens") return part(labels, [0, 0], expanded);
      if (kind === "embedding") return part(EMBEDDING + GAP + (addsPositions(model) ? POSITIONS : 0), [addsPositions(model) ? POSITIONS : GAP, EMBEDDING], expanded);
      if (kind === "output") return part(OUTPUT + GAP + (ofText ? ofText * 19 + 6 : labels), [ofText ? ofText * 19 + 6 : labels, OUTPUT], expanded);
      if (kind === "lens") return part(expanded && pitch >= MIN_LENS_PITCH ? LENS : 0, [0, 0], expanded);
      if (!expanded) return part(compact + (kind === "feed_forward" ? 4 : 1), [kind === "feed_forward" ? 4 : 1, compact], false);
      const block = kind === "feed_forward" ? FORWARD : attention;
      const below = model.norm_first ? NORM + 2 : 0;
      return { height: GAP + NORM + 2 + block + below, block: [GAP + NORM + 2, block], norm: GAP + NORM / 2, before: model.norm_first ? GAP + NORM + 2 + block + 2 + NORM / 2 : null, expanded };
    });
  const sum = (all: readonly Sizes[]) => all.reduce((total, { height }) => total + height, 0);
  const near = Array.from({ length: layers }, (_, layer) => layer).sort((a, b) => Math.abs(a - chosen) - Math.abs(b - chosen));
  let full = new Set([chosen]);
  for (const layer of near) {
    const more = new Set([...full, layer]);
    if (sum(measure((each) => more.has(each), MIN_ATTENTION, MIN_COMPACT)) > room) break;
    full = more;
  }
  const isExpanded = (layer: number) => full.has(layer);
  const least = sum(measure(isExpanded, MIN_ATTENTION, MIN_COMPACT));
  const compactCount = columns.filter(({ kind, layer }) => layer >= 0 && !isExpanded(layer) && kind !== "lens").length;
  const compact = compactCount ? Math.max(MIN_COMPACT, Math.min(MAX_COMPACT, MIN_COMPACT + (room - least) / compactCount)) : MIN_COMPACT;
  const attentions = columns.filter(({ kind, layer }) => (kind === "attention" || kind === "cross") && isExpanded(layer)).length;
  const free = (room - sum(measure(isExpanded, MIN_ATTENTION, compact))) / Math.max(1, attentions);
  return measure(isExpanded, Math.max(MIN_ATTENTION, Math.min(MAX_ATTENTION, MIN_ATTENTION + free)), compact);
}

function part(height: number, block: Sizes["block"], expanded: boolean): Sizes {
  return { height, block, norm: null, before: null, expanded };
}

/** The parts from the bottom of the picture upwards. */
function placed(sizes: readonly Sizes[], floor: number): readonly Part[] {
  let bottom = floor;
  return sizes.map(({ height, block: [above, size], norm, before, expanded }) => {
    const top = bottom - height;
    const placed = { top, bottom, block: [top + above, top + above + size] as const, norm: norm === null ? null : top + norm, before: before === null ? null : top + before, expanded };
    bottom = top;
    return placed;
  });
}

/** The middle of a token. */
export function xOf({ left, pitch }: Pick<Stack, "left" | "pitch">, row: number): number {
  return left + (row + 0.5) * pitch;
}

/** The top of the last layer of a stack. */
export function topOf(stack: Stack, columns: readonly Column[]): number {
  return stack.parts[columns.findLastIndex(({ layer }) => layer >= 0)]?.top ?? stack.parts[stack.parts.length - 1].top;
}

/** A text of at most nine letters. */
export function shorten(text: string): string {
  const letters = [...text];
  return letters.length > 9 ? `${letters.slice(0, 8).join("")}…` : text;
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}
