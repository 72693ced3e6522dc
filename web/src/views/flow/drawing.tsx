/** The drawing of the flow: one band per side, tokens from top to bottom, sublayers from left to right. */

import type { VNode } from "preact";
import { type DrawingColours, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { t } from "../../i18n/i18n";
import { type Column, type ColumnKind, type Flow, type Link, withoutLens } from "./flowData";

export interface Prediction {
  readonly row: number; // -1: of the whole text
  readonly text: string;
  readonly probability: number;
}

export interface FlowLayout {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly column: number; // pixels
  readonly bands: readonly { readonly top: number; readonly row: number; readonly rows: number; readonly columns: number }[];
}

const TITLE = 34; // above a band
const GAP = 18;
const RIGHT = 128; // the output, at most
const [MIN_COLUMN, MAX_COLUMN] = [25, 150];
const [MIN_ROW, MAX_ROW] = [14, 26];
const PROBABILITY = 32; // the width of a blank and 0.99, and a margin
const MIN_LENS_COLUMN = 46; // narrower ones have no room for a token of the logit lens
const OPACITIES = [0.2, 0.4, 0.65, 0.9];

/** The flow and its layout for a box; the columns of the logit lens are left out where they are too narrow. */
export function fitFlow(flow: Flow, predictions: readonly Prediction[], boxWidth: number, boxHeight: number): { readonly flow: Flow; readonly layout: FlowLayout } {
  const right = Math.min(RIGHT, Math.max(0, ...predictions.map(({ text }) => textWidth(shorten(displayText(text))))) + PROBABILITY);
  const layout = layoutFlow(flow, right, boxWidth, boxHeight);
  if (layout.column >= MIN_LENS_COLUMN) return { flow, layout };
  const narrow = withoutLens(flow);
  return { flow: narrow, layout: layoutFlow(narrow, right, boxWidth, boxHeight) };
}

/** The layout for a box; a long text or a deep model makes it larger than the box. */
function layoutFlow(flow: Flow, right: number, boxWidth: number, boxHeight: number): FlowLayout {
  const names = flow.sides.flatMap(({ tokens }) => tokens.map(({ text }) => textWidth(shorten(displayText(text)))));
  const left = Math.min(110, Math.max(30, ...names)) + 14;
  const most = Math.max(...flow.sides.map(({ columns }) => columns.length));
  const column = Math.max(MIN_COLUMN, Math.min(MAX_COLUMN, (boxWidth - left - right) / most));
  const all = flow.sides.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const free = boxHeight - flow.sides.length * (TITLE + GAP);
  const row = Math.max(MIN_ROW, Math.min(MAX_ROW, free / Math.max(all, 1)));
  let top = 0;
  const bands = flow.sides.map(({ tokens, columns }) => {
    const band = { top: top + TITLE, row, rows: tokens.length, columns: columns.length };
    top += TITLE + row * tokens.length + GAP;
    return band;
  });
  return { width: Math.ceil(left + most * column + right), height: Math.ceil(top), left, column, bands };
}

export function xOf(layout: FlowLayout, column: number): number {
  return layout.left + (column + 0.5) * layout.column;
}

export function yOf(layout: FlowLayout, band: number, row: number): number {
  const { top, row: height } = layout.bands[band];
  return top + (row + 0.5) * height;
}

/** The parts of a band: texts, and for each column the stream, the links and what is added. */
export function bandDrawing(flow: Flow, band: number, layout: FlowLayout, predictions: readonly Prediction[], colours: DrawingColours): VNode {
  const { columns, tokens } = flow.sides[band];
  const largest = Math.max(1e-9, ...columns.flatMap(({ norm }) => [...(norm ?? [])]));
  const most = Math.max(1e-9, ...columns.flatMap(({ added }) => [...(added ?? [])]));
  return (
    <g font-size={11}>
      {columns.map((_, i) => (i > 0 ? <g key={i}>{streamPaths(columns, i, band, layout, largest, colours)}</g> : null))}
      {columns.map((column, i) => (
        <g key={i}>{linkPaths(column, i, band, layout, flow, colours)}</g>
      ))}
      {columns.map((column, i) => (
        <g key={i}>{addedMarks(column, i, band, layout, most, colours)}</g>
      ))}
      {columns.map((column, i) => (column.lens ? <g key={i}>{lensTexts(column.lens, i, band, columns, layout, colours)}</g> : null))}
      {tokens.map(({ text, special }, row) => (
        <text key={row} x={layout.left - 6} y={yOf(layout, band, row) + 4} text-anchor="end" fill={special ? colours.faint : colours.ink}>
          {shorten(displayText(text))}
        </text>
      ))}
      {predictions.map(({ row, text, probability }, i) => {
        const x = xOf(layout, columns.length - 1);
        const y = row < 0 ? yOf(layout, band, 0) + i * 20 : yOf(layout, band, row);
        return (
          <g key={i}>
            <rect x={x} y={y - 5} width={Math.max(1, 40 * probability)} height={10} fill={colours.accent} opacity={0.35} />
            <text x={x + 4} y={y + 4} fill={colours.ink} font-weight={i === 0 && row < 0 ? 700 : undefined}>
              {shorten(displayText(text))} <tspan fill={colours.faint}>{probability.toFixed(2)}</tspan>
            </text>
          </g>
        );
      })}
    </g>
  );
}

/** The residual stream into a column: a line per token, thicker for a larger norm. */
function streamPaths(columns: readonly Column[], i: number, band: number, layout: FlowLayout, largest: number, colours: DrawingColours): VNode[] {
  const norm = columns[i].norm ?? columns[i - 1].norm;
  const paths = new Map<number, string>();
  for (let row = 0; row < layout.bands[band].rows; row++) {
    const width = norm ? Math.round(1 + 3 * (norm[row] / largest)) : 1;
    const y = yOf(layout, band, row);
    paths.set(width, `${paths.get(width) ?? ""}M${round(xOf(layout, i - 1))} ${round(y)}H${round(xOf(layout, i))}`);
  }
  return [...paths].map(([width, d]) => <path key={`s${width}`} d={d} stroke={colours.line} stroke-width={width} fill="none" />);
}

/** Attention: curves from the keys of the column before; those of cross-attention start at the tokens of the source. */
function linkPaths(column: Column, i: number, band: number, layout: FlowLayout, flow: Flow, colours: DrawingColours): VNode[] {
  const paths = new Map<number, string>();
  const [x0, x1] = [xOf(layout, i - 1), xOf(layout, i)];
  const middle = (x0 + x1) / 2;
  for (const link of column.links) {
    const opacity = OPACITIES[Math.min(OPACITIES.length - 1, Math.floor(link.weight * OPACITIES.length))];
    const [y0, y1] = [keyY(column, link, band, layout, flow), yOf(layout, band, link.query)];
    paths.set(opacity, `${paths.get(opacity) ?? ""}M${round(x0)} ${round(y0)}C${round(middle)} ${round(y0)} ${round(middle)} ${round(y1)} ${round(x1)} ${round(y1)}`);
  }
  const colour = column.kind === "cross" ? colours.focus : colours.accent;
  return [...paths].map(([opacity, d]) => <path key={`l${opacity}`} d={d} stroke={colour} stroke-opacity={opacity} stroke-width={1 + opacity} fill="none" />);
}

/** The row of a key; the tokens of the source are spread over the height of the target's band. */
function keyY({ kind }: Column, { key }: Link, band: number, layout: FlowLayout, flow: Flow): number {
  if (kind !== "cross") return yOf(layout, band, key);
  const source = flow.sides.find(({ side }) => side === "source")?.tokens.length ?? 1;
  const { top, row, rows } = layout.bands[band];
  return top + ((key + 0.5) / source) * row * rows;
}

/** What a sublayer adds: circles for attention, squares for feed-forward; the area is its norm relative to the stream, of the largest. */
function addedMarks({ kind, added }: Column, i: number, band: number, layout: FlowLayout, largest: number, colours: DrawingColours): VNode | null {
  if (!added) return null;
  const x = xOf(layout, i);
  const most = layout.bands[band].row / 2 - 1;
  let d = "";
  for (let row = 0; row < layout.bands[band].rows; row++) {
    const r = round(Math.max(0.8, Math.min(most, most * Math.sqrt(added[row] / largest))));
    const y = yOf(layout, band, row);
    d += kind === "feed_forward" ? `M${round(x - r)} ${round(y - r)}h${2 * r}v${2 * r}h${-2 * r}z` : `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  }
  return <path d={d} fill={kind === "feed_forward" ? colours.ink : kind === "cross" ? colours.focus : colours.accent} fill-opacity={0.8} />;
}

/** The most probable token of the logit lens after a layer, in bold where it is that of the last layer. */
function lensTexts(lens: NonNullable<Column["lens"]>, i: number, band: number, columns: readonly Column[], layout: FlowLayout, colours: DrawingColours): VNode[] {
  const last = columns.findLast((column) => column.lens)?.lens;
  const width = layout.column - 6;
  return lens.map(([best], row) => {
    const same = best?.id === last?.[row]?.[0]?.id;
    const text = fit(displayText(best?.piece ?? ""), width);
    const [x, y] = [xOf(layout, i), yOf(layout, band, row)];
    const drawn = Math.min(width, textWidth(text, LENS_SIZE) + 4);
    return (
      <g key={row}>
        <rect x={x - drawn / 2} y={y - 6} width={drawn} height={12} fill={colours.ground} />
        <text x={x} y={y + 3.5} text-anchor="middle" font-size={LENS_SIZE} fill={same ? colours.ink : colours.faint} font-weight={same ? 700 : undefined}>
          {text}
        </text>
      </g>
    );
  });
}

const LENS_SIZE = 10;

/** A text cut to a width in pixels. */
function fit(text: string, width: number): string {
  const letters = [...text];
  let end = letters.length;
  while (end > 1 && textWidth(letters.slice(0, end).join("") + (end < letters.length ? "…" : ""), LENS_SIZE) > width) end--;
  return end < letters.length ? `${letters.slice(0, end).join("")}…` : text;
}

/** Titles above the columns: the layer over its sublayers. */
export function titles(flow: Flow, band: number, layout: FlowLayout, colours: DrawingColours): VNode {
  const { columns, side } = flow.sides[band];
  const y = layout.bands[band].top;
  const width = layout.column;
  return (
    <g font-size={10.5} text-anchor="middle" fill={colours.faint}>
      {columns.map(({ kind, layer }, i) => {
        const starts = layer >= 0 && columns[i - 1]?.layer !== layer;
        return (
          <g key={i}>
            {starts ? (
              <text x={xOf(layout, i) - width / 2 + 2} y={y - 20} text-anchor="start" fill={colours.ink} font-weight={700}>
                {`L${layer}`}
              </text>
            ) : null}
            <text x={xOf(layout, i)} y={y - 7}>
              {columnTitle(kind, width)}
            </text>
          </g>
        );
      })}
      <text x={layout.left - 6} y={y - 20} text-anchor="end" fill={colours.ink} font-weight={700}>
        {side === "source" ? t({ ko: "인코더", en: "encoder" }) : t({ ko: "디코더", en: "decoder" })}
      </text>
    </g>
  );
}

/** The title of a column, abbreviated in a narrow one. */
export function columnTitle(kind: ColumnKind, width = Number.POSITIVE_INFINITY): string {
  const long = {
    tokens: t({ ko: "토큰", en: "tokens" }),
    embedding: t({ ko: "임베딩", en: "embedding" }),
    attention: t({ ko: "어텐션", en: "attention" }),
    cross: t({ ko: "교차", en: "cross" }),
    feed_forward: t({ ko: "피드포워드", en: "feed-forward" }),
    lens: t({ ko: "렌즈", en: "lens" }),
    output: t({ ko: "출력", en: "output" }),
  }[kind];
  if (textWidth(long, 10.5) <= width - 2) return long;
  return { tokens: "", embedding: "E", attention: "A", cross: "C", feed_forward: "FFN", lens: "", output: "" }[kind];
}

function shorten(text: string): string {
  const letters = [...text];
  return letters.length > 9 ? `${letters.slice(0, 8).join("")}…` : text;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
