/** All queries of the head in a column, each with its vector, and lines from the chosen one to the keys by weight. */

import { type DrawingColours, fitText, textWidth } from "../../draw/svg";
import { t } from "../../i18n/i18n";
import { type HeadDrawing, strips } from "./drawing";
import { formatShort } from "./format";
import { type HeadData, vector } from "./headData";

export interface QueryColumn {
  readonly token: number; // right edge of the texts
  readonly strip: readonly [left: number, width: number];
  readonly width: number; // with the space of the lines
}

const MIN_WEIGHT = 0.005; // weaker lines are not drawn
const OPACITIES = [0.15, 0.35, 0.6, 0.9];

/** The column of the queries; narrower in a narrow box. */
export function queryColumnOf(width: number, { queries }: HeadData): QueryColumn {
  const [longest, strip, gap] = width < 620 ? [60, 30, 34] : width < 800 ? [60, 60, 40] : [100, Math.min(160, 0.12 * width), 76];
  const token = Math.min(longest, Math.max(24, ...queries.map((text) => textWidth(text, 13))) + 14);
  return { token, strip: [token + 6, strip], width: token + 6 + strip + gap };
}

/** The name of the column; 40 pixels high. */
export function queryHead({ data, ranges, colours }: HeadDrawing, { token, strip: [left] }: QueryColumn) {
  return (
    <g font-size={12} fill={colours.faint}>
      <text x={token} y={13} text-anchor="end" fill={colours.ink} font-weight={700}>
        {t({ ko: "쿼리", en: "query" })}
      </text>
      <text x={left} y={13}>{`q (${data.parts.q.columns}) ±${formatShort(ranges.q, 1)}`}</text>
    </g>
  );
}

/** The rows of some queries; the chosen one is framed. */
export function queryBody({ data, queryRow, ranges, row: ROW, shade, colours }: HeadDrawing, { token, strip: [left, width] }: QueryColumn, queries: readonly number[]) {
  const at = queries.indexOf(queryRow.query);
  return (
    <g font-size={13} fill={colours.ink}>
      {queries.length > 0 && strips(queries.map((query) => vector(data.parts.q, query)), queryRow.order, [left, 0, width, queries.length * ROW], ranges.allQueries, shade)}
      {queries.map((query, n) => (
        <text key={query} x={token} y={(n + 0.5) * ROW + 5} text-anchor="end" font-weight={query === queryRow.query ? 700 : undefined}>
          {fitText(data.queries[query], token - 8)}
        </text>
      ))}
      {at >= 0 && <rect x={left} y={at * ROW} width={width} height={ROW} fill="none" stroke={colours.focus} stroke-width={1.5} />}
    </g>
  );
}

/** Curves from the query at `from` to keys; `yOf` is the middle of the row of a key. */
export function queryLines({ data, queryRow, columns }: HeadDrawing, { strip: [left, width], width: end }: QueryColumn, from: number, keys: readonly number[], yOf: (key: number) => number, colours: DrawingColours) {
  const paths = new Map<number, string>();
  const x0 = left + width + 2;
  for (const key of keys) {
    const weight = queryRow.recorded[key];
    if (weight < MIN_WEIGHT) continue;
    const opacity = OPACITIES[Math.min(OPACITIES.length - 1, Math.floor(Math.sqrt(weight) * OPACITIES.length))];
    const x1 = Math.round(end + columns.token - Math.min(columns.token - 8, textWidth(data.keys[key], 13)) - 4);
    const middle = (x0 + end) / 2;
    paths.set(opacity, `${paths.get(opacity) ?? ""}M${x0} ${from}C${middle} ${from} ${middle} ${yOf(key)} ${x1} ${yOf(key)}`);
  }
  return (
    <g fill="none" stroke={colours.accent} data-role="neuron-lines">
      {[...paths].map(([opacity, d]) => (
        <path key={opacity} d={d} stroke-opacity={opacity} stroke-width={1 + opacity} />
      ))}
    </g>
  );
}
