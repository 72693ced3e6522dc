/** The hovered token: its frame, its lines, and their weights as numbers next to the tokens at the other end. */

import { css, headColours } from "../../draw/colours";
import { rampStep } from "../../draw/paint";
import { cellPaths, type DrawingColours } from "../../draw/svg";
import { labelIndex } from "../../state/labels";
import { focusKey, focusQuery, key, query } from "../../state/state";
import { valueAt } from "../../trace/matrix";
import { linesOfToken } from "./selectLines";
import type { Layout, Side } from "./layout";
import type { LinesData } from "./series";
import { elements, type LineStyle, strokes } from "./strokes";

/** The rows and columns of the hovered or locked tokens, or only of the locked ones; -1: none. */
export interface Focus {
  readonly query: number;
  readonly key: number;
  readonly locked: Readonly<Record<Side, number>>;
}

export function focusOf({ weights }: LinesData, lockedOnly = false): Focus {
  const locked = { query: labelIndex(weights.queries, query.value), key: labelIndex(weights.keys, key.value) };
  if (lockedOnly) return { ...locked, locked };
  return { query: labelIndex(weights.queries, focusQuery.value), key: labelIndex(weights.keys, focusKey.value), locked };
}

/** The token whose lines are drawn: the query or, without one, the key. */
export function hoveredToken({ query, key }: Focus): { readonly side: Side; readonly index: number } | null {
  if (query >= 0) return { side: "query", index: query };
  return key < 0 ? null : { side: "key", index: key };
}

export function hoveredLines({ series, visible }: LinesData, focus: Focus) {
  const one = hoveredToken(focus);
  return (
    one &&
    linesOfToken(
      series.map(({ matrix }) => matrix),
      one.side,
      one.index,
      visible,
    ).list
  );
}

/** The drawing; numbers are drawn for the tokens `from` up to `to` of a side. */
export function hoverDrawing(
  data: LinesData,
  focus: Focus,
  layout: Layout,
  style: LineStyle,
  colours: DrawingColours,
  range: (side: Side) => readonly [from: number, to: number],
) {
  const { series, visible } = data;
  const one = hoveredToken(focus);
  const pair =
    one && focus.query >= 0 && focus.key >= 0 && visible(focus.query, focus.key)
      ? series.map(({ matrix }, number) => ({ ...focus, series: number, weight: valueAt(matrix, focus.query, focus.key) }))
      : [];
  const kind = one?.index === focus.locked[one?.side ?? "key"] ? "locked" : "hovered";
  const other = one?.side === "query" ? "key" : "query";
  const [from, to] = one ? range(other) : [0, 0];
  return (
    <g>
      {(["query", "key"] as const).map((side) => [
        focus[side] >= 0 && <rect {...layout.label(side, focus[side])} fill={colours.focus} fill-opacity={0.14} />,
        focus.locked[side] >= 0 && (
          <rect {...layout.label(side, focus.locked[side])} fill="none" stroke={colours.focus} stroke-width={2} />
        ),
      ])}
      {elements(strokes(hoveredLines(data, focus) ?? [], data, layout, style, kind))}
      {elements(
        strokes(
          pair.filter(({ weight }) => weight > 0),
          data,
          layout,
          style,
          "pair",
        ),
        colours.focus,
      )}
      {Array.from({ length: to - from }, (_, i) => numbers(data, focus, layout, style, colours, other, from + i))}
    </g>
  );
}

/** The weights of one token in each head, as numbers with bars; for all heads, as a strip of colours. */
function numbers(data: LinesData, focus: Focus, layout: Layout, style: LineStyle, colours: DrawingColours, side: Side, index: number) {
  const { series, heads, max, weights: displayed, visible } = data;
  const [row, column] = side === "key" ? [focus.query, index] : [index, focus.key];
  if (!visible(row, column) || !displayed.allowed[row * displayed.keys.length + column]) return null;
  const { x, y, width, height } = layout.number(side, index);
  const weights = series.map(({ matrix }) => valueAt(matrix, row, column));
  const each = width / series.length;
  const colour = (weight: number) => css(style.ramp, 17 * Math.round(style.tone(weight) * 15));
  if (heads === "all")
    return (
      <g key={index} transform={`translate(${x} ${y + height / 2 - 6}) scale(${each} 12)`}>
        {cellPaths({ rows: 1, columns: weights.length, data: Float32Array.from(weights) }, colour).map(([fill, d]) => (
          <path key={fill} fill={fill} d={d} />
        ))}
      </g>
    );
  return weights.map((weight, number) => {
    const end = x + (number + 1) * each - 4;
    const barWidth = (each - 8) * Math.min(1, weight / max);
    const colourIndex = series[number].colour;
    return (
      <g key={`${index} ${number}`}>
        <text
          font-family={colours.mono}
          x={end}
          y={y + height / 2 + 4}
          font-size={11}
          font-weight={index === focus[side] ? 700 : undefined}
          text-anchor="end"
          fill={colours.ink}
        >
          {each < 24 ? "" : shortWeight(weight, each < 48 ? 2 : 3)}
        </text>
        <rect x={end - each + 8} y={y + height / 2 + 6} width={each - 8} height={2} fill={colours.line} />
        <rect
          x={end - each + 8}
          y={y + height / 2 + 6}
          width={barWidth}
          height={2}
          fill={colourIndex === null ? css(style.ramp, rampStep(0.75)) : headColours[colourIndex].colour}
        />
      </g>
    );
  });
}

/** A weight next to a token: ".413". */
export function shortWeight(weight: number, decimals: number): string {
  const text = weight.toFixed(weight < 10 ? decimals : 1);
  return Number(text) === 0 && weight > 0 ? "≈0" : text.replace(/^0\./, ".");
}
