/** Drawings of the beam tree and of the cache. */

import type { Drawing } from "../../draw/bars";
import { css, type Ramp } from "../../draw/colours";
import { formatNumber } from "../../draw/numbers";
import { type DrawingColours } from "../../draw/svg";
import { displayText } from "../../draw/text";
import type { Beam } from "../../trace/format";
import type { TreeLayout, TreeNode } from "./beams";

export const COLUMN = 92;
const ROW = 38;
const MARGIN = 24;

/** The tree: the answer is thick, ended hypotheses are squares, the column of the current step is marked. */
export function beamTree({ nodes, links, first, last, rows }: TreeLayout, step: number, colours: DrawingColours, rank: (beam: Beam, step: number) => number | null): Drawing {
  const x = (node: TreeNode) => MARGIN + (node.x + 0.5) * COLUMN;
  const y = (node: TreeNode) => MARGIN + (node.y + 0.5) * ROW;
  const roots = links.filter(({ from }) => !from).map(({ to }) => y(to));
  const origin = roots.reduce((sum, each) => sum + each, 0) / roots.length; // the common root
  const curves = (best: boolean) =>
    links
      .filter(({ to }) => to.beam.best === best)
      .map(({ from, to }) => {
        const [x0, y0] = from ? [x(from) + 5, y(from)] : [MARGIN / 2, first ? y(to) : origin];
        const middle = (x0 + x(to) - 5) / 2;
        return `M${x0} ${y0}C${middle} ${y0} ${middle} ${y(to)} ${x(to) - 5} ${y(to)}`;
      })
      .join("");
  const dots = (ended: boolean, best: boolean) =>
    nodes
      .filter(({ beam }) => beam.ended === ended && beam.best === best)
      .map((node) =>
        ended ? `M${x(node) - 4.5} ${y(node) - 4.5}h9v9h-9z` : `M${x(node) - 4} ${y(node)}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0`,
      )
      .join("");
  const width = 2 * MARGIN + (last - first + 1) * COLUMN;
  const height = 2 * MARGIN + rows * ROW;
  const content = (
    <g font-size={12} text-anchor="middle">
      <rect x={MARGIN + (step - first) * COLUMN} y={0} width={COLUMN} height={height} fill={colours.line} opacity={0.45} />
      {Array.from({ length: last - first + 1 }, (_, i) => (
        <text key={i} x={MARGIN + (i + 0.5) * COLUMN} y={14} font-size={11} fill={colours.faint}>
          {first + i + 1}
        </text>
      ))}
      <path d={curves(false)} fill="none" stroke={colours.faint} stroke-width={1} />
      <path d={curves(true)} fill="none" stroke={colours.focus} stroke-width={3} />
      {[false, true].flatMap((ended) =>
        [false, true].map((best) => (
          <path key={`${ended}${best}`} d={dots(ended, best)} fill={best ? colours.focus : colours.ground} stroke={best ? colours.focus : colours.faint} stroke-width={1.5} />
        )),
      )}
      {nodes.map((node) => (
        <text
          key={node.beam.id}
          x={x(node)}
          y={y(node) - 8}
          fill={colours.ink}
          font-weight={node.beam.best ? 700 : undefined}
          stroke={colours.ground}
          stroke-width={3}
          stroke-linejoin="round"
          paint-order="stroke"
        >
          {shortenPiece(displayText(node.beam.piece))}
          <tspan x={x(node)} dy={23} font-size={10.5} font-weight={400} fill={colours.faint}>
            {scoreText(node.beam.score, rank(node.beam, node.step))}
          </tspan>
        </text>
      ))}
    </g>
  );
  return { content, width, height };
}

/** The sum of log-probabilities; of a finished hypothesis also the score that ranks it, "−3.10 = −0.78". */
function scoreText(sum: number, rank: number | null): string {
  return [sum, ...(rank === null ? [] : [rank])].map((each) => formatNumber(each, 2)).join(" = ");
}

function shortenPiece(text: string): string {
  const letters = [...text];
  return letters.length > 8 ? `${letters.slice(0, 7).join("")}…` : text;
}

/** One cell per position, darker for later steps; empty: not yet written. */
export function cacheStrip(written: readonly number[], steps: number, ramp: Ramp, colours: DrawingColours): Drawing {
  const cell = Math.max(1.5, Math.min(22, 880 / Math.max(written.length, 1)));
  const colour = (step: number) => css(ramp, 40 + Math.round((170 * step) / Math.max(steps - 1, 1)));
  const content = (
    <g font-size={10} text-anchor="middle" fill={colours.faint}>
      {written.map((step, position) =>
        step < 0 ? null : (
          <rect key={position} x={position * cell} y={1} width={Math.max(cell - 1, 1)} height={18} fill={colour(step)}>
            <title>{`${position}: ${step + 1}`}</title>
          </rect>
        ),
      )}
      <rect x={0} y={0.5} width={written.length * cell} height={19} fill="none" stroke={colours.faint} />
      {cell >= 16
        ? written.map((step, position) =>
            step < 0 ? null : (
              <text key={position} x={(position + 0.5) * cell} y={31}>
                {step + 1}
              </text>
            ),
          )
        : null}
    </g>
  );
  return { content, width: written.length * cell + 1, height: 34 };
}
