/** Export of the matrix as SVG and as a table. */

import { css, ink } from "../../draw/colours";
import { paint, rampStep, toCanvas, tone } from "../../draw/paint";
import { type Child, element, label, matrixCells, PRINT_COLOURS, rect, shortNumber, svgDocument, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { labelIndex } from "../../state/labels";
import { focusedHead, key, measure, pinned, query, scale } from "../../state/state";
import type { HeadLocation } from "../../trace/format";
import { type Matrix, rowOf } from "../../trace/matrix";
import { displayWeights, type Label } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { BLOCKS, headName } from "../../i18n/blocks";
import { t } from "../../i18n/i18n";
import { range } from "./settings";

const MAX_VECTOR_CELLS = 128 * 128; // a larger matrix is embedded as a bitmap
const SIDE = 420;
const GAP = 6; // between hatching lines

/** The displayed heads: the pinned ones, else the focused one. */
function heads(): readonly HeadLocation[] {
  return pinned.value.length ? pinned.value : [focusedHead.value];
}

/** The panels as on the page: one, or two in a row. */
export async function svg(trace: Trace): Promise<string> {
  const all = heads();
  const panels = await Promise.all(all.map((one, i) => panel(trace, one, all.length > 1 ? `${i + 1} · ` : "")));
  const across = Math.min(2, panels.length);
  const panelWidth = Math.max(...panels.map(({ width }) => width));
  const panelHeight = Math.max(...panels.map(({ height }) => height));
  return svgDocument(
    across * panelWidth,
    Math.ceil(panels.length / across) * panelHeight,
    `${trace.info.title}: ${all.map(headTitle).join(", ")}`,
    element(
      "pattern",
      { id: "hidden", width: GAP, height: GAP, patternUnits: "userSpaceOnUse" },
      element("path", { d: `M0 0L${GAP} ${GAP}`, stroke: PRINT_COLOURS.line }),
    ),
    panels.map(({ drawing }, i) =>
      element("g", { transform: `translate(${shortNumber((i % across) * panelWidth)} ${shortNumber(Math.floor(i / across) * panelHeight)})` }, drawing),
    ),
  );
}

interface Panel {
  readonly width: number;
  readonly height: number;
  readonly drawing: readonly Child[];
}

/** One head with labels and a legend. */
async function panel(trace: Trace, at: HeadLocation, number: string): Promise<Panel> {
  const [sides, focus] = [trace.block(at.block), trace.block(focusedHead.value.block)];
  const [lockedQuery, lockedKey] = [sides.queries === focus.queries ? query.value : null, sides.keys === focus.keys ? key.value : null];
  const values = measure.value === "values";
  const { matrix, queries, keys, allowed, note } = await displayWeights(trace, at);
  const max = values || range.value === "max" ? matrix.data.reduce((a, b) => Math.max(a, b), 0) : 1;
  const toned = tone(scale.value, max);
  const size = Math.max(1, Math.min(36, SIDE / Math.max(matrix.rows, matrix.columns)));
  const longest = (labels: readonly Label[]) =>
    Math.min(
      140,
      labels.reduce((w, { text }) => Math.max(w, textWidth(displayText(text))), 20),
    );
  const [left, top] = [longest(queries) + 14, longest(keys) + 14];
  const [width, height] = [matrix.columns * size, matrix.rows * size];
  const ramp = ink("light");
  const picturedCells =
    matrix.data.length <= MAX_VECTOR_CELLS
      ? matrixCells(matrix, left, top, size, (value) => css(ramp, rampStep(toned(value))))
      : element("image", {
          href: toCanvas(paint(matrix, ramp, toned)).toDataURL(),
          x: left,
          y: top,
          width,
          height,
          "image-rendering": "pixelated",
        });
  const every = Math.ceil(11 / size);
  const named = (i: number) => i % every === 0;
  const [row, column] = [labelIndex(queries, lockedQuery), labelIndex(keys, lockedKey)];
  const frame = { fill: "none", stroke: PRINT_COLOURS.focus, "stroke-width": 2 };
  const caption = [
    number + headTitle(at),
    note && t(note),
    t({ ko: `색상 0 … ${rounded(max)}`, en: `colours 0 … ${rounded(max)}` }),
  ];
  return {
    width: left + width + 16,
    height: top + height + 28,
    drawing: [
      picturedCells,
      element("path", { d: hidden(allowed, matrix, left, top, size), fill: "url(#hidden)" }),
      element("rect", { x: left, y: top, width, height, fill: "none", stroke: PRINT_COLOURS.line }),
      queries.map(
        ({ text, special }, i) =>
          named(i) &&
          label(left - 6, top + (i + 0.5) * size + 4, displayText(text), {
            size: 11,
            anchor: "end",
            fill: special ? PRINT_COLOURS.faint : PRINT_COLOURS.ink,
            bold: i === row,
          }),
      ),
      keys.map(
        ({ text, special }, i) =>
          named(i) &&
          label(left + (i + 0.5) * size + 4, top - 6, displayText(text), {
            size: 11,
            turn: -90,
            fill: special ? PRINT_COLOURS.faint : PRINT_COLOURS.ink,
            bold: i === column,
          }),
      ),
      row >= 0 && rect(left, top + row * size, width, size, "none", frame),
      column >= 0 && rect(left + column * size, top, size, height, "none", frame),
      label(left, top + height + 18, caption.filter(Boolean).join(" · "), { size: 11, fill: PRINT_COLOURS.faint }),
    ],
  };
}

function headTitle(at: HeadLocation): string {
  return `${t(BLOCKS[at.block])} ${headName(at)}`;
}

/** The masked cells as a path; neighbours in a row are merged. */
function hidden(allowed: Uint8Array, { rows, columns }: Matrix, left: number, top: number, size: number): string {
  const path: string[] = [];
  for (let row = 0; row < rows; row++)
    for (let from = 0, to; from < columns; from = to) {
      for (to = from + 1; to < columns; to++) if (allowed[row * columns + to] !== allowed[row * columns + from]) break;
      if (allowed[row * columns + from]) continue;
      const panelWidth = shortNumber((to - from) * size);
      path.push(`M${shortNumber(left + from * size)} ${shortNumber(top + row * size)}h${panelWidth}v${shortNumber(size)}h-${panelWidth}z`);
    }
  return path.join("");
}

function rounded(number: number): string {
  return String(Math.round(number * 1000) / 1000);
}

/** One row per query and one column per key; several heads below each other, each with a title. */
export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const all = heads();
  const found = await Promise.all(all.map((one) => displayWeights(trace, one)));
  const numbered = ({ text, pieces }: Label) => `${pieces[0]} ${displayText(text)}`;
  return found.flatMap(({ matrix, queries, keys }, i) => [
    [all.length > 1 ? `${headTitle(all[i])}: query \\ key` : "query \\ key", ...keys.map(numbered)],
    ...queries.map((query, row) => [numbered(query), ...rowOf(matrix, row)]),
  ]);
}
