/** Export of the locked query and key as a picture and as a table. */

import { markup, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { key, query } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { headName } from "../../i18n/blocks";
import { chart, CHART } from "./chart";
import { columnsOf, HEAD, rangesOf, tableBody, tableHead } from "./drawing";
import { loadHead, select } from "./headData";
import { stepsOf } from "./pair";
import { queryBody, queryColumnOf, queryHead, queryLines } from "./queries";

const MAX_ROWS = 128; // from the first visible one on

/** What is on the screen, in pixels: the width of the list, the first of many rows, the heights of a row and of the plot. */
export const shown = { width: 860, first: 0, row: 22, plot: 54 };

async function lockedSelection(trace: Trace) {
  const found = await loadHead(trace);
  if (!found) throw new Error("the trace has no q and k of this layer");
  return { data: found, ...select(found, { query: query.value, key: key.value, locked: key.value }) };
}

export async function svg(trace: Trace): Promise<string> {
  const { data, queryRow, key, locked } = await lockedSelection(trace);
  const rows = Math.max(data.keys.length, data.queries.length);
  const start = rows > MAX_ROWS ? Math.min(shown.first, rows - MAX_ROWS) : 0;
  const [queries, keys] = [data.queries, data.keys].map((all) => [...all.keys()].slice(start, start + MAX_ROWS));
  const queryColumn = queryColumnOf(shown.width, data);
  const left = queryColumn.width;
  const columns = columnsOf(shown.width - left, data);
  const { row, plot } = shown;
  const drawing = { data, queryRow, ranges: rangesOf(data, queryRow), columns, row, plot, shade: "light", colours: PRINT_COLOURS } as const;
  const top = HEAD + 1; // below the line
  const bottom = top + Math.min(rows, MAX_ROWS) * row;
  const yOf = (at: number) => (at - start) * row;
  const mark = (at: number, width: number, more: object) => <rect x={left} y={top + yOf(at)} width={width} height={row} fill={PRINT_COLOURS.focus} {...more} />;
  const steps = stepLayout(stepsOf(drawing, key), left + columns.total);
  const pair = `${data.queries[queryRow.query]} → ${data.keys[key]}`;
  return svgDocument(
    left + columns.total + 14,
    bottom + 28 + steps.height + CHART + plot,
    `${trace.info.title}: ${data.location.block} ${headName(data.location)}, ${pair}`,
    markup(
      <g>
        {queryHead(drawing, queryColumn)}
        <g transform={`translate(${left} 0)`}>{tableHead(drawing)}</g>
        <path d={`M0 ${top - 0.5}H${left + columns.total + 14}M0 ${bottom + 0.5}H${left + columns.total + 14}`} stroke={PRINT_COLOURS.line} />
        {keys.includes(key) ? mark(key, columns.total + 14, { "fill-opacity": 0.14 }) : null}
        {locked !== null && keys.includes(locked) ? mark(locked, 4, {}) : null}
        <g transform={`translate(0 ${top})`}>
          {queryBody(drawing, queryColumn, queries)}
          {queryLines(drawing, queryColumn, yOf(queryRow.query + 0.5), keys, (at) => yOf(at + 0.5), PRINT_COLOURS)}
          <g transform={`translate(${left} 0)`}>{tableBody(drawing, keys)}</g>
        </g>
        <text y={bottom + 20} font-size={13} font-weight={700} fill={PRINT_COLOURS.ink}>
          {pair}
        </text>
        <g transform={`translate(0 ${bottom + 26})`}>{steps.drawing}</g>
        <g transform={`translate(0 ${bottom + 28 + steps.height})`}>{chart(drawing, key, left + columns.total)}</g>
      </g>,
    ),
  );
}

/** The numbers of the pair in rows, as on the page. */
function stepLayout(steps: readonly (readonly [string, string])[], width: number) {
  let [x, y] = [0, 0];
  const drawing = steps.map(([name, number]) => {
    const needed = Math.max(textWidth(name, 12), 8 * number.length) + 18;
    if (x > 0 && x + needed > width) [x, y] = [0, y + 38];
    const placed = (
      <g transform={`translate(${x} ${y})`} fill={PRINT_COLOURS.ink}>
        <text y={13} font-size={12}>
          {name}
        </text>
        <text y={30} font-size={13} font-family={PRINT_COLOURS.mono}>
          {number}
        </text>
      </g>
    );
    x += needed;
    return placed;
  });
  return { drawing, height: y + 40 };
}

/** All keys of the query with each step of equation (1). */
export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const { data, queryRow } = await lockedSelection(trace);
  const { query, row, recorded } = queryRow;
  return [
    ["query", "query_text", "key", "key_text", "dot", "scaled", "bias", "allowed", "score", "weight", "recomputed"],
    ...data.keys.map((text, at) => [
      query,
      data.queries[query],
      at,
      text,
      row.dots[at],
      row.scaled[at],
      row.biases?.[at] ?? 0,
      Number(row.allowed[at]),
      row.scores[at],
      recorded[at],
      row.weights[at],
    ]),
  ];
}
