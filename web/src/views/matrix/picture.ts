/** The matrix for export: as SVG, and as a table. */

import { css, ink } from "../../draw/colours";
import { paint, still, stepOf, tone } from "../../draw/paint";
import { cells, element, label, PAPER, picture, rect, textWidth } from "../../draw/svg";
import { display } from "../../draw/text";
import { indexOf } from "../../state/labels";
import { key, measure, place, query, scale } from "../../state/state";
import { type Label, shown } from "../../trace/shown";
import type { Trace } from "../../trace/trace";
import { headName } from "../../words/blocks";
import { say } from "../../words/words";
import { range } from "./settings";

const MOST_CELLS = 128 * 128; // more are a picture in the picture
const SIDE = 420;

export async function svg(trace: Trace): Promise<string> {
  const { matrix, queries, keys, note } = await shown(trace, place.value);
  const most =
    measure.value === "values" || range.value === "most" ? matrix.data.reduce((a, b) => Math.max(a, b), 0) : 1;
  const toned = tone(scale.value, most);
  const size = Math.max(1, Math.min(36, SIDE / Math.max(matrix.rows, matrix.columns)));
  const longest = (labels: readonly Label[]) =>
    Math.min(
      140,
      labels.reduce((w, { text }) => Math.max(w, textWidth(display(text))), 20),
    );
  const [left, top] = [longest(queries) + 14, longest(keys) + 14];
  const [width, height] = [matrix.columns * size, matrix.rows * size];
  const ramp = ink("light");
  const picturedCells =
    matrix.data.length <= MOST_CELLS
      ? cells(matrix, left, top, size, (value) => css(ramp, stepOf(toned(value))))
      : element("image", {
          href: still(paint(matrix, ramp, toned)).toDataURL(),
          x: left,
          y: top,
          width,
          height,
          "image-rendering": "pixelated",
        });
  const every = Math.ceil(11 / size);
  const named = (i: number) => i % every === 0;
  const [row, column] = [indexOf(queries, query.value), indexOf(keys, key.value)];
  const frame = { fill: "none", stroke: PAPER.focus, "stroke-width": 2 };
  const where = `${place.value.block} ${headName(place.value)}`;
  return picture(
    left + width + 16,
    top + height + 28,
    `${trace.info.title}: ${where}`,
    picturedCells,
    element("rect", { x: left, y: top, width, height, fill: "none", stroke: PAPER.line }),
    queries.map(
      ({ text, special }, i) =>
        named(i) &&
        label(left - 6, top + (i + 0.5) * size + 4, display(text), {
          size: 11,
          anchor: "end",
          fill: special ? PAPER.faint : PAPER.ink,
          bold: i === row,
        }),
    ),
    keys.map(
      ({ text, special }, i) =>
        named(i) &&
        label(left + (i + 0.5) * size + 4, top - 6, display(text), {
          size: 11,
          turn: -90,
          fill: special ? PAPER.faint : PAPER.ink,
          bold: i === column,
        }),
    ),
    row >= 0 && rect(left, top + row * size, width, size, "none", frame),
    column >= 0 && rect(left + column * size, top, size, height, "none", frame),
    label(
      left,
      top + height + 18,
      [where, note && say(note), say({ ko: `색 0 … ${short(most)}`, en: `colours 0 … ${short(most)}` })]
        .filter(Boolean)
        .join(" · "),
      {
        size: 11,
        fill: PAPER.faint,
      },
    ),
  );
}

function short(number: number): string {
  return String(Math.round(number * 1000) / 1000);
}

/** A row a query, a column a key. */
export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const { matrix, queries, keys } = await shown(trace, place.value);
  const numbered = ({ text, pieces }: Label) => `${pieces[0]} ${display(text)}`;
  return [
    ["query \\ key", ...keys.map(numbered)],
    ...queries.map((query, row) => [
      numbered(query),
      ...matrix.data.subarray(row * matrix.columns, (row + 1) * matrix.columns),
    ]),
  ];
}
