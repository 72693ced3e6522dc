/** The locked query and key as a picture and as a table, for export. */

import { markup, PRINT_COLOURS, svgDocument } from "../../draw/svg";
import { key, query } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { headName } from "../../i18n/blocks";
import { chart, HIGH } from "./chart";
import { body, columnsOf, head, rangesOf, ROW } from "./drawing";
import { asking, held } from "./headData";

const MOST = 48; // keys of a picture: those with the largest weights

async function locked(trace: Trace) {
  const found = await held(trace);
  if (!found) throw new Error("this trace holds no q and k");
  return { held: found, ...asking(found, { query: query.value, key: key.value, locked: key.value }) };
}

export async function svg(trace: Trace): Promise<string> {
  const { held, question, key } = await locked(trace);
  const { recorded } = question;
  const heaviest = [...held.keys.keys()].sort((a, b) => recorded[b] - recorded[a]).slice(0, MOST);
  const keys = heaviest.sort((a, b) => a - b);
  const columns = columnsOf(860, held);
  const drawing = { held, question, ranges: rangesOf(held, question), columns, shade: "light", inks: PRINT_COLOURS } as const;
  const high = 56 + keys.length * ROW;
  const pair = `${held.queries[question.query]} → ${held.keys[key]}`;
  return svgDocument(
    columns.all + 20,
    high + HIGH + 16,
    `${trace.info.title}: ${held.place.block} ${headName(held.place)}, ${pair}`,
    markup(
      <g transform="translate(10 4)">
        {head(drawing)}
        <rect
          y={44 + keys.indexOf(key) * ROW}
          width={columns.all}
          height={ROW}
          fill={PRINT_COLOURS.focus}
          fill-opacity={0.14}
        />
        <g transform="translate(0 44)">{body(drawing, keys)}</g>
        <text y={high + 6} font-size={13} font-weight={700} fill={PRINT_COLOURS.ink}>
          {pair}
        </text>
        <g transform={`translate(0 ${high + 12})`}>{chart(drawing, key)}</g>
      </g>,
    ),
  );
}

/** All keys of the query with each step of equation (1). */
export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const { held, question } = await locked(trace);
  const { query, row, recorded } = question;
  return [
    ["query", "query_text", "key", "key_text", "dot", "scaled", "bias", "allowed", "score", "weight", "recomputed"],
    ...held.keys.map((text, at) => [
      query,
      held.queries[query],
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
