/** Export of the locked query and key as a picture and as a table. */

import { markup, PRINT_COLOURS, svgDocument } from "../../draw/svg";
import { key, query } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { headName } from "../../i18n/blocks";
import { chart, CHART_HEIGHT } from "./chart";
import { columnsOf, rangesOf, ROW, tableBody, tableHead } from "./drawing";
import { loadHead, select } from "./headData";
import { queryBody, queryColumnOf, queryHead, queryLines } from "./queries";

const MAX_KEYS = 48; // keys with the largest weights

async function lockedSelection(trace: Trace) {
  const found = await loadHead(trace);
  if (!found) throw new Error("the trace has no q and k of this layer");
  return { data: found, ...select(found, { query: query.value, key: key.value, locked: key.value }) };
}

export async function svg(trace: Trace): Promise<string> {
  const { data, queryRow, key } = await lockedSelection(trace);
  const { recorded } = queryRow;
  const topKeys = [...data.keys.keys()].sort((a, b) => recorded[b] - recorded[a]).slice(0, MAX_KEYS);
  const keys = topKeys.sort((a, b) => a - b);
  const queryColumn = queryColumnOf(860, data);
  const left = queryColumn.width;
  const columns = columnsOf(860 - left, data);
  const drawing = { data, queryRow, ranges: rangesOf(data, queryRow), columns, shade: "light", colours: PRINT_COLOURS } as const;
  const start = Math.max(0, Math.min(data.queries.length - MAX_KEYS, queryRow.query - MAX_KEYS / 2));
  const queries = [...data.queries.keys()].slice(start, start + MAX_KEYS);
  const listHeight = 56 + Math.max(keys.length, queries.length) * ROW;
  const pair = `${data.queries[queryRow.query]} → ${data.keys[key]}`;
  return svgDocument(
    left + columns.total + 20,
    listHeight + CHART_HEIGHT + 16,
    `${trace.info.title}: ${data.location.block} ${headName(data.location)}, ${pair}`,
    markup(
      <g transform="translate(10 4)">
        {queryHead(drawing, queryColumn)}
        <g transform="translate(0 44)">
          {queryBody(drawing, queryColumn, queries)}
          {queryLines(drawing, queryColumn, (queries.indexOf(queryRow.query) + 0.5) * ROW, keys, (at) => (keys.indexOf(at) + 0.5) * ROW, PRINT_COLOURS)}
        </g>
        <g transform={`translate(${left} 0)`}>{tableHead(drawing)}</g>
        <rect
          x={left}
          y={44 + keys.indexOf(key) * ROW}
          width={columns.total}
          height={ROW}
          fill={PRINT_COLOURS.focus}
          fill-opacity={0.14}
        />
        <g transform={`translate(${left} 44)`}>{tableBody(drawing, keys)}</g>
        <text y={listHeight + 6} font-size={13} font-weight={700} fill={PRINT_COLOURS.ink}>
          {pair}
        </text>
        <g transform={`translate(0 ${listHeight + 12})`}>{chart(drawing, key)}</g>
      </g>,
    ),
  );
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
