/** The keys of a query as a drawing, one row each: k, q⊙k, the cumulative sum, and the numbers of equation (1). */

import { css, diverging, type Shade } from "../../draw/colours";
import { signedTone } from "../../draw/paint";
import { cellPaths, type DrawingColours, fitText, textWidth } from "../../draw/svg";
import { t } from "../../i18n/i18n";
import { type HeadData, type QueryRow, vector } from "./headData";
import { formatShort, scaleText } from "./format";
import { products } from "./recompute";

export const HEAD = 40; // pixels above the rows
const [MIN_ROW, MAX_ROW] = [22, 40];
const BAR = 72; // pixels of the weight 1

/** The height of a row, of which `count` have room in `height` pixels where they can. */
export function rowHeight(count: number, height: number): number {
  return Math.max(MIN_ROW, Math.min(MAX_ROW, Math.floor(height / count)));
}

export interface Columns {
  readonly token: number; // right edge of the key texts
  readonly strips: readonly [k: number, product: number, running: number]; // left edge of each strip
  readonly stripWidth: number; // of k and of q⊙k; the cumulative sum has two thirds
  readonly numbers: readonly number[]; // right edges: q·k, scaled, bias, mask, weight, tick
  readonly total: number;
}

export function columnsOf(width: number, { keys, parts }: HeadData): Columns {
  const token = Math.min(110, Math.max(30, ...keys.map((text) => textWidth(text, 13))) + 14);
  const sizes = [58, 56, parts.bias ? 50 : 0, 46, 86, 22];
  const total = Math.max(width, token + sizes.reduce((sum, size) => sum + size) + 200);
  const stripWidth = Math.floor(((total - token - sizes.reduce((sum, size) => sum + size)) * 3) / 8) - 10;
  const strips = [token + 8, token + stripWidth + 16, token + 2 * stripWidth + 24] as const;
  let end = strips[2] + (2 * stripWidth) / 3;
  return { token, strips, stripWidth, numbers: sizes.map((size) => (end += size)), total };
}

/** The ranges of the colours, and of the cumulative sums of all keys. */
export function rangesOf({ parts }: HeadData, { query, order }: QueryRow) {
  const q = vector(parts.q, query);
  const largest = (data: Float32Array) => data.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  const ranges = { q: largest(q), allQueries: largest(parts.q.data), k: largest(parts.k.data), product: 0, low: 0, high: 1e-6 };
  for (let key = 0; key < parts.k.rows; key++) {
    const { each, running } = products(q, vector(parts.k, key), order);
    ranges.product = Math.max(ranges.product, ...each, -Math.min(...each));
    ranges.low = Math.min(ranges.low, ...running);
    ranges.high = Math.max(ranges.high, ...running);
  }
  return ranges;
}
export type Ranges = ReturnType<typeof rangesOf>;

/** Vectors as rows of signed colours in the order of the dimensions; `max` is the darkest. */
export function strips(
  vectors: readonly ArrayLike<number>[],
  order: readonly number[],
  [x, y, width, height]: readonly [x: number, y: number, width: number, height: number],
  max: number,
  shade: Shade,
) {
  const data = Float32Array.from(vectors.flatMap((one) => order.map((i) => one[i])));
  const tone = signedTone(max);
  const colour = (value: number) => css(diverging(shade), Math.round(tone(value) * 32) * 8 - Number(tone(value) > 0.5));
  return (
    <g
      transform={`translate(${x} ${y}) scale(${width / order.length} ${height / vectors.length})`}
      shape-rendering="crispEdges"
    >
      {cellPaths({ rows: vectors.length, columns: order.length, data }, colour).map(([fill, d]) => (
        <path key={fill} fill={fill} d={d} />
      ))}
    </g>
  );
}

export interface HeadDrawing {
  readonly data: HeadData;
  readonly queryRow: QueryRow;
  readonly ranges: Ranges;
  readonly columns: Columns;
  readonly row: number; // pixels: the height of a row
  readonly plot: number; // and of the plot of a pair
  readonly shade: Shade;
  readonly colours: DrawingColours;
}

/** The header of the columns, and the query above the keys; 40 pixels high. */
export function tableHead({ data, queryRow, ranges, columns, shade, colours }: HeadDrawing) {
  const { q, bias } = data.parts;
  const [k, product, running] = columns.strips;
  const names = [
    "q·k",
    scaleText(data.parts),
    bias ? "+ b" : "",
    t({ ko: "마스크", en: "mask" }),
    "softmax",
    "✓",
  ];
  return (
    <g font-size={12} fill={colours.faint}>
      <text x={k} y={13}>{`${t({ ko: "키 k", en: "key k" })} ±${formatShort(ranges.k, 1)}`}</text>
      <text x={product} y={13}>{`q ⊙ k ±${formatShort(ranges.product, 1)}`}</text>
      <text x={running} y={13}>
        Σ qᵢkᵢ
      </text>
      {names.map((name, i) => (
        <text key={name} x={columns.numbers[i]} y={13} text-anchor="end">
          {name}
        </text>
      ))}
      <text x={columns.token} y={33} text-anchor="end" fill={colours.ink} font-weight={700}>
        q
      </text>
      {strips([vector(q, queryRow.query)], queryRow.order, [k, 22, columns.stripWidth, 14], ranges.q, shade)}
      <rect x={k} y={22} width={columns.stripWidth} height={14} fill="none" stroke={colours.focus} />
    </g>
  );
}

/** The rows of some keys. */
export function tableBody({ data, queryRow, ranges, columns, row: ROW, shade, colours }: HeadDrawing, keys: readonly number[]) {
  const { query, row, recorded, order } = queryRow;
  const q = vector(data.parts.q, query);
  const vectors = keys.map((key) => vector(data.parts.k, key));
  const [k, product, running] = columns.strips;
  const rowsHeight = keys.length * ROW;
  const sumWidth = (2 * columns.stripWidth) / 3 - 6;
  const sumY = (sum: number) => (ROW - 7) * (1 - (sum - ranges.low) / (ranges.high - ranges.low)) + 3.5;
  return (
    <g font-size={12} fill={colours.ink}>
      {strips(vectors, order, [k, 0, columns.stripWidth, rowsHeight], ranges.k, shade)}
      {strips(
        vectors.map((one) => one.map((value, i) => value * q[i])),
        order,
        [product, 0, columns.stripWidth, rowsHeight],
        ranges.product,
        shade,
      )}
      {keys.map((key, n) => {
        const visible = row.allowed[key];
        const sums = products(q, vectors[n], order).running.map((sum) => sumY(sum).toFixed(1));
        const sumX = (i: number) => (running + ((i + 1) * sumWidth) / order.length).toFixed(1);
        const right = Math.abs(row.weights[key] - recorded[key]) <= data.tolerance;
        const numbers = [
          formatShort(row.dots[key]),
          formatShort(row.scaled[key]),
          row.biases ? formatShort(row.biases[key]) : "",
          visible ? "0" : "−∞",
          formatShort(recorded[key], 4),
          right ? "✓" : "✗",
        ];
        return (
          <g key={key} transform={`translate(0 ${n * ROW})`} fill={visible ? colours.ink : colours.faint}>
            <path d={`M0 0H${running - 8}M${running} ${sumY(0)}h${sumWidth}`} stroke={colours.line} />
            <path
              d={`M${running} ${sumY(0)}${sums.map((sum, i) => `L${sumX(i)} ${sum}`).join("")}`}
              fill="none"
              stroke={visible ? colours.accent : colours.faint}
              stroke-width={1.25}
            />
            <circle cx={running + sumWidth} cy={sums[sums.length - 1]} r={2.2} fill={visible ? colours.accent : colours.faint} />
            {visible ? <rect x={columns.numbers[3] + 14} y={ROW / 2 + 7} width={BAR} height={2} fill={colours.line} /> : null}
            <rect x={columns.numbers[3] + 14} y={ROW / 2 + 7} width={BAR * recorded[key]} height={2} fill={colours.accent} />
            <text x={columns.token} y={ROW / 2 + 5} font-size={13} text-anchor="end">
              {fitText(data.keys[key], columns.token - 8)}
            </text>
            {numbers.map((text, i) => (
              <text
                key={i}
                font-family={colours.mono}
                x={columns.numbers[i]}
                y={ROW / 2 + 4}
                text-anchor="end"
                fill={i < 5 ? undefined : right ? colours.faint : colours.bad}
              >
                {text}
              </text>
            ))}
          </g>
        );
      })}
    </g>
  );
}
