/** A query and a key by dimension: both vectors, their products, and the cumulative sum up to q·k. */

import { css, diverging } from "../../draw/colours";
import { type HeadDrawing, strips } from "./drawing";
import { vector } from "./headData";
import { formatShort } from "./format";
import { products } from "./recompute";

/** The height of a chart without its plot. */
export const CHART = 58;
const [LEFT, TOP] = [22, 40];

export function chart({ data, queryRow, ranges, plot: PLOT, shade, colours }: HeadDrawing, key: number, width: number) {
  const { order, query } = queryRow;
  const q = vector(data.parts.q, query);
  const k = vector(data.parts.k, key);
  const { each, running } = products(q, k, order);
  const plotWidth = width - LEFT - 52;
  const step = plotWidth / order.length;
  const minValue = Math.min(0, ...running, ...each);
  const maxValue = Math.max(1e-6, ...running, ...each);
  const x = (n: number) => (LEFT + n * step).toFixed(2);
  const y = (value: number) => (TOP + ((maxValue - value) / (maxValue - minValue)) * PLOT).toFixed(2);
  const bars = (sign: number) =>
    each
      .map((value, n) => (value * sign > 0 ? `M${x(n + 0.15)} ${y(0)}H${x(n + 0.85)}V${y(value)}H${x(n + 0.15)}z` : ""))
      .join("");
  const stride = 2 ** Math.max(0, Math.ceil(Math.log2(18 / step)));
  const end = running[running.length - 1];
  return (
    <g font-size={10} fill={colours.faint}>
      <text y={12} font-size={12} fill={colours.ink}>
        q
      </text>
      <text y={28} font-size={12} fill={colours.ink}>
        k
      </text>
      {strips([q], order, [LEFT, 2, plotWidth, 13], ranges.q, shade)}
      {strips([k], order, [LEFT, 18, plotWidth, 13], ranges.k, shade)}
      <path d={bars(1)} fill={css(diverging(shade), 222)} />
      <path d={bars(-1)} fill={css(diverging(shade), 33)} />
      <path d={`M${LEFT} ${y(0)}h${plotWidth}`} stroke={colours.line} />
      <path
        d={`M${LEFT} ${y(0)}${running.map((sum, n) => `L${x(n + 1)} ${y(sum)}`).join("")}`}
        fill="none"
        stroke={colours.accent}
        stroke-width={1.5}
      />
      <circle cx={x(order.length)} cy={y(end)} r={2.6} fill={colours.accent} />
      <text x={LEFT + plotWidth + 6} y={Number(y(end)) + 4} fill={colours.ink} font-size={12} font-weight={700}>
        {formatShort(end)}
      </text>
      {order.map((i, n) =>
        n % stride ? null : (
          <text key={n} x={x(n + 0.5)} y={TOP + PLOT + 14} text-anchor="middle">
            {i}
          </text>
        ),
      )}
    </g>
  );
}
