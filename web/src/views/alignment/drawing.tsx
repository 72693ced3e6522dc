/** The alignment as a drawing: cells, hard alignment, the path of mean columns, and the coverage of each source token. */

import type { VNode } from "preact";
import { css, type Ramp } from "../../draw/colours";
import { rampStep, tone } from "../../draw/paint";
import { cellPaths, type DrawingColours, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { scale, specials } from "../../state/state";
import { type Label } from "../../trace/display";
import type { AlignmentData } from "./alignmentData";

const FONT = 13;
const MAX_LABEL_WIDTH = 130; // pixels
const BAR_HEIGHT = 44; // pixels of the largest coverage
const GAP = 8;
const MAX_CELL = 120; // of a short text

export interface AlignmentLayout {
  readonly cell: number;
  readonly left: number;
  readonly top: number;
  readonly flat: boolean; // whether the names of the columns fit above them
  readonly width: number;
  readonly height: number;
  readonly bars: number; // the top of the coverage bars
}

/** The layout for an available box; a long source text is wider, a long target text higher. */
export function layoutOf({ matrix: { rows, columns }, queries, keys }: AlignmentData, availableWidth: number, availableHeight: number): AlignmentLayout {
  const widest = (labels: readonly Label[]) => Math.max(...labels.map(({ text }) => textWidth(shortLabel(text), FONT)));
  const left = Math.ceil(Math.max(widest(queries), 40) + GAP); // whole pixels: sharp edges
  const within = (slope: number) => sized(rows, columns, left, slope, availableWidth, availableHeight);
  const flat = within(0);
  return flat.cell >= widest(keys) + 6 ? flat : within(Math.max(widest(keys), 40) * 0.75);
}

/** The layout with names of the columns that rise by `slope` and are as wide; 0: level. */
function sized(rows: number, columns: number, left: number, slope: number, availableWidth: number, availableHeight: number): AlignmentLayout {
  const top = Math.ceil(slope + FONT + GAP);
  const room = availableHeight - top - 2 * GAP - BAR_HEIGHT - 18;
  const largest = Math.max(32, Math.min(MAX_CELL, Math.floor(room / rows)));
  const cell = Math.max(3, Math.min(largest, Math.floor((availableWidth - left - slope) / columns), Math.floor(Math.max(900, availableHeight) / rows)));
  const bars = top + rows * cell + GAP;
  return { cell, left, top, flat: slope === 0, bars, width: Math.ceil(left + columns * cell + slope), height: bars + BAR_HEIGHT + 18 };
}

function shortLabel(text: string): string {
  const letters = [...displayText(text)];
  let width = 0;
  const fit = letters.findIndex((letter) => (width += textWidth(letter, FONT)) > MAX_LABEL_WIDTH);
  return fit < 0 ? letters.join("") : `${letters.slice(0, fit).join("")}…`;
}

export function alignmentDrawing(data: AlignmentData, colours: DrawingColours, ramp: Ramp, { cell, left, top, flat, bars }: AlignmentLayout): VNode {
  const { matrix, queries, keys, coverage, marked, centres } = data;
  const shade = tone(scale.value, maxWeight(data));
  const palette = Array.from({ length: 256 }, (_, i) => css(ramp, i));
  const each = Math.ceil((FONT + 2) / cell); // every how many rows or columns are labelled
  const point = (column: number, row: number) => `${(column + 0.5) * cell} ${(row + 0.5) * cell}`;
  const dim = specials.value === "dim";
  const ring = Math.max(1.5, cell * 0.3);
  const rings = marked
    .map((column, row) => (column < 0 ? "" : `M${point(column, row)}m${-ring} 0a${ring} ${ring} 0 1 0 ${2 * ring} 0a${ring} ${ring} 0 1 0 ${-2 * ring} 0`))
    .join("");
  const knownCentres = centres.flatMap((centre, row) => (Number.isNaN(centre) ? [] : [point(centre, row)]));
  const largest = Math.max(...coverage, 1);
  const barHeight = (value: number) => (value / largest) * BAR_HEIGHT;
  return (
    <g font-size={FONT} fill={colours.ink}>
      {queries.map(({ text, special }, row) =>
        row % each ? null : (
          <text key={row} x={left - GAP} y={top + (row + 0.5) * cell + 4.5} text-anchor="end" fill={special && dim ? colours.faint : colours.ink}>
            {shortLabel(text)}
          </text>
        ),
      )}
      {keys.map(({ text, special }, column) =>
        column % each ? null : (
          <text
            key={column}
            transform={`translate(${left + (column + 0.5) * cell + (flat ? 0 : 3)} ${top - GAP})${flat ? "" : " rotate(-45)"}`}
            text-anchor={flat ? "middle" : "start"}
            fill={special && dim ? colours.faint : colours.ink}
          >
            {shortLabel(text)}
          </text>
        ),
      )}
      <g transform={`translate(${left} ${top})`}>
        <g transform={`scale(${cell})`} shape-rendering="crispEdges">
          {cellPaths(matrix, (value) => palette[rampStep(shade(value))]).map(([fill, d]) => (
            <path key={fill} fill={fill} d={d} />
          ))}
          {dim &&
            keys.map(({ special }, column) =>
              special ? <rect key={column} x={column} y={0} width={1} height={matrix.rows} fill={colours.ground} opacity={0.65} /> : null,
            )}
        </g>
        <rect x={-0.5} y={-0.5} width={matrix.columns * cell + 1} height={matrix.rows * cell + 1} fill="none" stroke={colours.line} />
        {data.path && knownCentres.length > 1 ? (
          <>
            <path d={`M${knownCentres.join("L")}`} fill="none" stroke={colours.ground} stroke-width={4} stroke-linejoin="round" opacity={0.8} />
            <path d={`M${knownCentres.join("L")}`} fill="none" stroke={colours.accent} stroke-width={1.75} stroke-linejoin="round" stroke-dasharray="6 3" />
          </>
        ) : null}
        {rings ? (
          <>
            <path d={rings} fill="none" stroke={colours.ground} stroke-width={4} opacity={0.9} />
            <path d={rings} fill="none" stroke={colours.focus} stroke-width={1.75} />
          </>
        ) : null}
      </g>
      <g transform={`translate(${left} ${bars})`}>
        <path
          fill={colours.accent}
          shape-rendering="crispEdges"
          d={[...coverage].map((value, column) => `M${column * cell + Math.min(1, cell / 6)} 0h${cell - Math.min(2, cell / 3)}v${barHeight(value)}h${-(cell - Math.min(2, cell / 3))}z`).join("")}
        />
        <path d={`M0 ${barHeight(1)}H${matrix.columns * cell}`} stroke={colours.faint} stroke-dasharray="2 3" />
        <text x={-GAP} y={barHeight(1) + 4} text-anchor="end" fill={colours.faint} font-size={11}>
          Σ = 1
        </text>
        {cell >= 24
          ? [...coverage].map((value, column) => (
              <text key={column} x={(column + 0.5) * cell} y={BAR_HEIGHT + 13} text-anchor="middle" font-size={10} fill={colours.faint}>
                {value.toFixed(value < 10 ? 2 : 1)}
              </text>
            ))
          : null}
      </g>
    </g>
  );
}

/** The number of the darkest colour: 1 for the weights of one head, else the maximum. */
export function maxWeight({ matrix, single }: Pick<AlignmentData, "matrix" | "single">): number {
  return single ? 1 : matrix.data.reduce((largest, value) => Math.max(largest, value), 0);
}
