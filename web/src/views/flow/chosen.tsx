/** The chosen token of each side, and its attention in every layer. */

import type { VNode } from "preact";
import type { DrawingColours } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { block, query } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { curve, fromLane } from "./drawing";
import { type Column, type Flow, meanRow, strongest } from "./flowData";
import { FONT, type FlowLayout, type Prediction, round, shorten, xOf } from "./layout";

const MAX_KEYS = 12; // of a token in a layer
const NAMED_KEYS = 2; // next to the layer

/** A head whose attention is drawn instead of the mean of the heads of its layer. */
export interface ShownHead {
  readonly band: number;
  readonly column: number;
  readonly head: number;
}

/**
 * The row of the chosen token of each side: the locked query, else the one that predicts the longest piece; of the
 * source, the token that it attends to most in the last layer, else the first.
 */
export function chosenRows(trace: Trace, flow: Flow, predictions: readonly Prediction[]): readonly number[] {
  const locked = query.value;
  const side = trace.block(block.value).queries;
  const last = flow.sides.length - 1;
  const rows = flow.sides.map(({ side: own, tokens }, band) => {
    const row = own === side && locked !== null ? tokens.findIndex(({ pieces }) => pieces.includes(locked)) : -1;
    return row >= 0 || band < last ? row : predicting(predictions);
  });
  if (last > 0 && rows[0] < 0) {
    const cross = flow.sides[1].columns.findLast(({ kind }) => kind === "cross");
    rows[0] = (cross && strongest(meanRow(cross.heads, rows[1]), 1)[0]?.key) ?? 0;
  }
  return rows.map((row) => Math.max(0, row));
}

/** The row that predicts the longest piece. */
function predicting(predictions: readonly Prediction[]): number {
  const own = predictions.filter(({ row, text }) => row >= 0 && !/^[[<]/.test(text));
  const longest = Math.max(...own.map(({ text }) => text.length));
  return own.find(({ text }) => text.length === longest)?.row ?? 0;
}

/** The weights of the chosen token in a column: of one head, or their mean. */
export function weightsOf(column: Column, row: number, head: number | null): Float32Array {
  return meanRow(head === null ? column.heads : [column.heads[head] ?? null], row);
}

/** The attention of the chosen tokens over the picture of a stack. */
export function chosenDrawing(flow: Flow, band: number, row: number, layout: FlowLayout, predictions: readonly Prediction[], shown: ShownHead | null, colours: DrawingColours): VNode {
  const { columns, tokens } = flow.sides[band];
  const stack = layout.stacks[band];
  const x = xOf(stack, row);
  const outputAt = columns.findIndex(({ kind }) => kind === "output");
  const top = outputAt < 0 ? stack.parts[stack.parts.length - 1].top : stack.parts[outputAt].block[0];
  const wide = Math.max(8, Math.min(stack.pitch - 6, 34));
  const predicted = predictions.find((each) => each.row === row);
  return (
    <g font-size={FONT}>
      <rect x={round(x - wide / 2)} y={top} width={wide} height={stack.parts[0].top - top + 2} rx={4} fill={colours.accent} opacity={0.1} />
      <path d={`M${round(x)} ${stack.parts[0].top}V${top}`} stroke={colours.accent} stroke-width={2} />
      {columns.map((column, i) => {
        if (!column.block) return null;
        const { block: [above, below], expanded } = stack.parts[i];
        const head = shown?.band === band && shown.column === i ? shown.head : null;
        const weights = weightsOf(column, row, head);
        const colour = column.kind === "cross" ? colours.focus : colours.accent;
        return (
          <g key={i}>
            {strongest(weights, expanded ? MAX_KEYS : 1).map(({ key, weight }) => (
              <path
                key={key}
                d={column.kind === "cross" ? fromLane(layout, stack, key, row, above, below) : curve(xOf(stack, key), below, x, above)}
                fill="none"
                stroke={colour}
                stroke-width={round(1 + 6 * weight)}
                stroke-opacity={round(0.3 + 0.6 * weight)}
                stroke-linecap="round"
              />
            ))}
            {expanded ? headMarks(column, row, head, stack.parts[i].block, stack, colour, colours) : null}
            {expanded && stack.gutter.width > 90 ? keyNames(flow, column, weights, above, stack, colours) : null}
          </g>
        );
      })}
      {!stack.slanted ? frame(displayText(tokens[row].text), x, stack.parts[0].top + 15, wide, colours) : null}
      {predicted && outputAt >= 0 ? (
        <text x={stack.gutter.x + (stack.gutter.anchor === "end" ? -8 : 8)} y={stack.parts[outputAt].block[0] - 8} text-anchor={stack.gutter.anchor} fill={colours.accent} font-weight={700}>
          {stack.gutter.width < 60 ? predicted.probability.toFixed(2) : `${shorten(displayText(predicted.text))} ${predicted.probability.toFixed(2)}`}
        </text>
      ) : null}
    </g>
  );
}

/** A line below the chosen token. */
function frame(text: string, x: number, y: number, wide: number, colours: DrawingColours): VNode | null {
  return text ? <path d={`M${round(x - wide / 2)} ${y + 6}h${wide}`} stroke={colours.accent} stroke-width={2} /> : null;
}

export const HEAD_SIZE = 11;

/** The boxes of the heads of a layer, next to it: [left, top] of each, and their pitch. */
export function headBoxes(count: number, [top]: readonly [number, number], { gutter }: FlowLayout["stacks"][number]): { readonly left: number; readonly top: number; readonly pitch: number } | null {
  if (gutter.width < 90) return null;
  const pitch = Math.min(HEAD_SIZE + 3, (gutter.width - 40) / count);
  const x = gutter.x + (gutter.anchor === "end" ? -8 - pitch * count : 8);
  return { left: x, top: top + 22, pitch };
}

/** A square per head: the darker, the more the chosen token attends to a single key. */
function headMarks({ heads }: Column, row: number, shown: number | null, block: readonly [number, number], stack: FlowLayout["stacks"][number], colour: string, colours: DrawingColours): VNode | null {
  const at = headBoxes(heads.length, block, stack);
  if (!at) return null;
  return (
    <>
      {heads.map((matrix, head) => {
        const weight = matrix ? (strongest(meanRow([matrix], row), 1)[0]?.weight ?? 0) : 0;
        const size = Math.max(2, Math.min(HEAD_SIZE, at.pitch - 1));
        return <rect key={head} x={round(at.left + head * at.pitch)} y={at.top} width={round(size)} height={HEAD_SIZE} rx={2} fill={colour} fill-opacity={round(0.12 + 0.8 * weight)} stroke={shown === head ? colours.ink : colour} stroke-width={shown === head ? 2 : 1} />;
      })}
    </>
  );
}

/** The keys that the chosen token reads most. */
function keyNames(flow: Flow, column: Column, weights: Float32Array, above: number, { gutter, parts }: FlowLayout["stacks"][number], colours: DrawingColours): VNode | null {
  if (parts.every(({ block }) => block[1] - block[0] < 44)) return null;
  const keys = flow.sides.find(({ columns }) => (column.kind === "cross" ? !columns.includes(column) : columns.includes(column)))?.tokens;
  const text = strongest(weights, NAMED_KEYS).map(({ key, weight }) => `${shorten(displayText(keys?.[key]?.text ?? ""))} ${weight.toFixed(2)}`).join(" · ");
  return (
    <text x={gutter.x + (gutter.anchor === "end" ? -8 : 8)} y={above + 47} text-anchor={gutter.anchor} font-size={11} fill={column.kind === "cross" ? colours.focus : colours.accent}>
      {text}
    </text>
  );
}

