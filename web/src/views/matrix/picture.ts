/** Export of the matrix as SVG, drawn like the screen and of its size, and as a table. */

import { css, headColours, ink } from "../../draw/colours";
import { paint, rampStep, tone, toCanvas } from "../../draw/paint";
import { maxPool } from "../../draw/pool";
import { element, FONTS, label, matrixCells, PRINT_COLOURS, rect, shortNumber, svgDocument } from "../../draw/svg";
import { SvgContext } from "../../draw/svgContext";
import { displayText } from "../../draw/text";
import { labelIndex } from "../../state/labels";
import { focusedHead, key, pinned, query, scale, specials } from "../../state/state";
import type { HeadLocation } from "../../trace/format";
import { rowOf } from "../../trace/matrix";
import { displayWeights, type Label } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { BLOCKS, headName } from "../../i18n/blocks";
import { t } from "../../i18n/i18n";
import { computeTotals, drawFocus, drawMatrix } from "./drawing";
import { CAPTION, frameOf, spaceOf, TOTALS_SIZE } from "./frame";
import { largest, viewport } from "./settings";

const MAX_VECTOR_CELLS = 128 * 128; // a larger matrix is embedded as a bitmap
const NOTE = 20; // height of the line below

/** The size of the panels on the screen. */
export const shownSize: [width: number, height: number] = [640, 480];

/** The displayed heads: the pinned ones, else the focused one. */
export function displayedHeads(): readonly HeadLocation[] {
  return pinned.value.length ? pinned.value : [focusedHead.value];
}

/** The size of one of several panels, and how many are in a row. */
export function panelSize(count: number, [width, height]: readonly [number, number]) {
  const across = count > 1 ? 2 : 1;
  return { across, width: Math.floor(width / across), height: Math.floor(height / Math.ceil(count / across)) };
}

export async function svg(trace: Trace): Promise<string> {
  const all = displayedHeads();
  const { across, width, height } = panelSize(all.length, shownSize);
  const [columnWidth, rowHeight] = [shownSize[0] / across, height];
  const panels = await Promise.all(all.map((one) => panel(trace, one, width, height - (all.length > 1 ? CAPTION : 0))));
  const bottom = Math.max(...panels.map((one, i) => Math.floor(i / across) * rowHeight + (all.length > 1 ? CAPTION : 0) + one.bottom));
  return svgDocument(
    shownSize[0],
    bottom + NOTE,
    `${trace.info.title}: ${all.map(headTitle).join(", ")}`,
    panels.map(({ drawing }, i) =>
      element(
        "g",
        { transform: `translate(${shortNumber((i % across) * columnWidth)} ${shortNumber(Math.floor(i / across) * rowHeight)})` },
        all.length > 1 && [rect(0, 0, 4, CAPTION, headColours[i].colour), label(10, 15, `${i + 1} · ${headTitle(all[i])}`, { size: 13, bold: true })],
        all.length > 1 ? element("g", { transform: `translate(0 ${CAPTION})` }, drawing) : drawing,
      ),
    ),
    label(10, bottom + 12, [all.length > 1 ? "" : headTitle(all[0]), panels[0].note].filter(Boolean).join(" · "), { size: 11, fill: PRINT_COLOURS.faint }),
  );
}

/** One head, as its canvases show it; and the lower end of the drawing. */
async function panel(trace: Trace, at: HeadLocation, width: number, height: number) {
  const [sides, focus] = [trace.block(at.block), trace.block(focusedHead.value.block)];
  const [lockedQuery, lockedKey] = [sides.queries === focus.queries ? query.value : null, sides.keys === focus.keys ? key.value : null];
  const [part, dim] = [viewport(), specials.value === "dim"];
  const weights = await displayWeights(trace, at);
  const { matrix, queries, keys, note } = weights;
  const [max, ramp] = [largest(weights), ink("light")];
  const toned = tone(scale.value, max);
  const frame = frameOf(queries.length, keys.length, spaceOf(width, height, queries, keys), part);
  const g = new SvgContext();
  const drawn = { frame, names: weights, weights, totals: computeTotals(weights), tone: toned, ramp, dim };
  drawMatrix(g, drawn, COLOURS, () => {
    const [x, y] = [frame.left - frame.x * frame.cell, frame.top - frame.y * frame.cell];
    g.save();
    g.beginPath();
    g.rect(frame.left, frame.top, frame.width, frame.height);
    g.clip();
    if (matrix.data.length <= MAX_VECTOR_CELLS) g.add(matrixCells(matrix, x, y, frame.cell, (value) => css(ramp, rampStep(toned(value)))));
    else {
      const pixels = Math.min(1, 2 * frame.cell); // of a cell
      const pooled = maxPool(matrix, pixels * matrix.rows, pixels * matrix.columns);
      const [w, h] = [matrix.columns * frame.cell, matrix.rows * frame.cell];
      g.add(element("image", { href: toCanvas(paint(pooled, ramp, toned)).toDataURL(), x, y, width: w, height: h, preserveAspectRatio: "none", "image-rendering": "pixelated" }));
    }
    g.restore();
  });
  const [row, column] = [labelIndex(queries, lockedQuery), labelIndex(keys, lockedKey)];
  if (row >= 0 || column >= 0) drawFocus(g, frame, row, column, true, COLOURS);
  const colours = t({ ko: `색상 0 … ${rounded(max)}`, en: `colors 0 … ${rounded(max)}` });
  return { drawing: g.markup(), bottom: frame.top + frame.height + TOTALS_SIZE, note: note ? `${t(note)} · ${colours}` : colours };
}

/** The colours of a canvas, for print. */
const COLOURS = { ...PRINT_COLOURS, paper: PRINT_COLOURS.ground, soft: PRINT_COLOURS.faint, font: FONTS };

function headTitle(at: HeadLocation): string {
  return `${t(BLOCKS[at.block])} ${headName(at)}`;
}

function rounded(number: number): string {
  return String(Math.round(number * 1000) / 1000);
}

/** One row per query and one column per key; several heads below each other, each with a title. */
export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const all = displayedHeads();
  const found = await Promise.all(all.map((one) => displayWeights(trace, one)));
  const numbered = ({ text, pieces }: Label) => `${pieces[0]} ${displayText(text)}`;
  return found.flatMap(({ matrix, queries, keys }, i) => [
    [all.length > 1 ? `${headTitle(all[i])}: query \\ key` : "query \\ key", ...keys.map(numbered)],
    ...queries.map((query, row) => [numbered(query), ...rowOf(matrix, row)]),
  ]);
}
