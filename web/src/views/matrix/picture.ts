/** Export of the matrix as SVG and as a table. */

import { css, ink } from "../../draw/colours";
import { paint, rampStep, toCanvas, tone } from "../../draw/paint";
import { type Child, element, HATCHING, hatchedCells, label, matrixCells, PRINT_COLOURS, rect, shortNumber, svgDocument, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { labelIndex } from "../../state/labels";
import { focusedHead, key, measure, pinned, query, scale, specials } from "../../state/state";
import type { HeadLocation } from "../../trace/format";
import { rowOf } from "../../trace/matrix";
import { type DisplayedWeights, displayWeights, type Label } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { BLOCKS, headName } from "../../i18n/blocks";
import { t } from "../../i18n/i18n";
import { cellText, computeTotals, contrastingColour } from "./drawing";
import { MIN_CELL_FOR_NUMBERS, TOTALS_SIZE } from "./frame";
import { range } from "./settings";

const MAX_VECTOR_CELLS = 128 * 128; // a larger matrix is embedded as a bitmap
const [SIDE, MAX_CELL] = [560, 56];

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
    HATCHING,
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
  const weights = await displayWeights(trace, at);
  const { matrix, queries, keys, allowed, note } = weights;
  const max = values || range.value === "max" ? matrix.data.reduce((a, b) => Math.max(a, b), 0) : 1;
  const toned = tone(scale.value, max);
  const size = Math.max(1, Math.min(MAX_CELL, SIDE / Math.max(matrix.rows, matrix.columns)));
  const longest = (labels: readonly Label[]) =>
    Math.min(
      140,
      labels.reduce((w, { text }) => Math.max(w, textWidth(displayText(text))), 20),
    );
  const upright = matrix.columns > 12 || longest(keys) > 48;
  const [left, top] = [longest(queries) + 14, upright ? longest(keys) + 14 : 24];
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
  const cell = row >= 0 && column >= 0 && rect(left + column * size, top + row * size, size, size, "none", { ...frame, "stroke-width": 3.5 });
  const pale = { opacity: 0.65 };
  const special = specials.value === "dim" ? [...queries.map(({ special }, i) => special && rect(left, top + i * size, width, size, PRINT_COLOURS.ground, pale)), ...keys.map(({ special }, i) => special && rect(left + i * size, top, size, height, PRINT_COLOURS.ground, pale))] : [];
  const numbers = size < MIN_CELL_FOR_NUMBERS ? [] : Array.from(matrix.data, (value, i) => allowed[i] !== 0 && label(left + ((i % matrix.columns) + 0.5) * size, top + (Math.floor(i / matrix.columns) + 0.5) * size + 4, cellText(value, size), { size: size < 48 ? 11 : 13, anchor: "middle", fill: contrastingColour(ramp, rampStep(toned(value))) }));
  const caption = [
    number + headTitle(at),
    note && t(note),
    t({ ko: `색상 0 … ${rounded(max)}`, en: `colours 0 … ${rounded(max)}` }),
  ];
  return {
    width: left + width + TOTALS_SIZE,
    height: top + height + TOTALS_SIZE + 22,
    drawing: [
      picturedCells,
      numbers,
      special,
      hatchedCells(matrix, (i) => allowed[i] === 0, left, top, size),
      element("rect", { x: left, y: top, width, height, fill: "none", stroke: PRINT_COLOURS.line }),
      queries.map(
        ({ text, special }, i) =>
          named(i) &&
          label(left - 6, top + (i + 0.5) * size + 4, displayText(text), {
            size: 11,
            anchor: "end",
            fill: special ? PRINT_COLOURS.faint : PRINT_COLOURS.ink,
            bold: i === row,
            italic: special,
          }),
      ),
      keys.map(({ text, special }, i) => {
        const style = { size: 11, fill: special ? PRINT_COLOURS.faint : PRINT_COLOURS.ink, bold: i === column, italic: special };
        const x = left + (i + 0.5) * size;
        if (!named(i)) return null;
        return upright ? label(x + 4, top - 6, displayText(text), { ...style, turn: -90 }) : label(x, top - 8, displayText(text), { ...style, anchor: "middle" });
      }),
      row >= 0 && rect(left, top + row * size, width, size, "none", frame),
      column >= 0 && rect(left + column * size, top, size, height, "none", frame),
      cell,
      totals(weights, left, top, size),
      label(left, top + height + TOTALS_SIZE + 12, caption.filter(Boolean).join(" · "), { size: 11, fill: PRINT_COLOURS.faint }),
    ],
  };
}

/** The sum of each column, and of each row unless all are 1, as on the page. */
function totals(weights: DisplayedWeights, left: number, top: number, size: number): Child {
  const { rows, columns } = weights.matrix;
  const { columnSums, rowSums, maxColumnSum, maxRowSum, allRowsEqual } = computeTotals(weights);
  const [right, bottom, longest, thick] = [left + columns * size, top + rows * size, TOTALS_SIZE - 10, Math.max(size - 1, 1)];
  return [
    Array.from(columnSums, (sum, i) => rect(left + i * size, bottom + 4, thick, (longest * sum) / maxColumnSum, PRINT_COLOURS.edge)),
    allRowsEqual ? null : Array.from(rowSums, (sum, i) => rect(right + 4, top + i * size, (longest * sum) / maxRowSum, thick, PRINT_COLOURS.edge)),
    label(right + 6, bottom + 16, "Σ", { fill: PRINT_COLOURS.faint }),
  ];
}

function headTitle(at: HeadLocation): string {
  return `${t(BLOCKS[at.block])} ${headName(at)}`;
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
