/** Figure 1 of the paper with the layers, heads and numbers of a trace. */

import type { VNode } from "preact";
import { type DrawingColours, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { t } from "../../i18n/i18n";
import type { Model, TraceInfo } from "../../trace/format";
import type { Column, ColumnKind, Flow } from "./flowData";
import { addsPositions, FONT, type FlowLayout, NORM, type Part, type Prediction, round, shorten, type Stack, topOf, xOf } from "./layout";

const OPACITIES = [0.2, 0.4, 0.65, 0.9];
const LENS_SIZE = 10;
const LANE_GAP = 4; // pixels between the keys of neighbouring tokens, at most

/** Everything of a stack that does not depend on the chosen token. */
export function stackDrawing(flow: Flow, band: number, layout: FlowLayout, info: TraceInfo, predictions: readonly Prediction[], colours: DrawingColours): VNode {
  const { columns, tokens } = flow.sides[band];
  const stack = layout.stacks[band];
  const largest = Math.max(1e-9, ...columns.flatMap(({ norm }) => [...(norm ?? [])]));
  const most = Math.max(1e-9, ...columns.flatMap(({ added }) => [...(added ?? [])]));
  const each = (draw: (column: Column, part: Part, i: number) => VNode | VNode[] | null) => columns.map((column, i) => <g key={i}>{draw(column, stack.parts[i], i)}</g>);
  return (
    <g font-size={FONT}>
      {layerFrames(columns, stack, colours)}
      {each((column, part) => boxes(column, part, stack, info.model, colours))}
      {each(({ kind }, part, i) => (i > 0 ? streams(columns[i - 1].norm ?? columns[i].norm, kind === "output" ? part.block[0] : part.top, part.bottom, stack, tokens.length, largest, colours) : null))}
      {each((column, part) => faintLinks(column, part, stack, layout, colours))}
      {each((column, part) => addedMarks(column, part, stack, most, colours))}
      {each((column, part) => (column.lens && part.bottom > part.top ? lensTexts(column.lens, part, columns, stack, colours) : null))}
      {each((column, part) => titleTexts(column, part, stack, info, colours))}
      {tokens.map(({ text, special }, row) => tokenText(text, row, stack.parts[0].top + 15, stack, "end", special ? colours.faint : colours.ink))}
      {outputs(columns, stack, predictions, colours)}
    </g>
  );
}

/** A frame for each layer, with its number. */
function layerFrames(columns: readonly Column[], { left, right, parts, gutter }: Stack, colours: DrawingColours): VNode[] {
  const layers = [...new Set(columns.map(({ layer }) => layer).filter((layer) => layer >= 0))];
  return layers.map((layer) => {
    const of = parts.filter((_, i) => columns[i].layer === layer && columns[i].kind !== "lens");
    const [top, bottom] = [of[of.length - 1].top + 3, of[0].bottom + 3];
    const first = of[0].expanded || layer === layers[0] || layer === layers[layers.length - 1];
    return (
      <g key={layer}>
        <rect x={left - 9} y={top} width={right - left + 18} height={bottom - top - 3} rx={of[0].expanded ? 9 : 3} fill={colours.raised} stroke={colours.line} />
        {first ? (
          <text x={gutter.far} y={of[0].expanded ? top + 18 : (top + bottom) / 2 + 3} text-anchor={gutter.anchor === "end" ? "start" : "end"} font-size={of[0].expanded ? 13 : 10} font-weight={700} fill={colours.ink}>{`L${layer}`}</text>
        ) : null}
      </g>
    );
  });
}

/** The boxes of a column: what it computes, its norm, and the arrow around it. */
function boxes({ kind }: Column, part: Part, { left, right, gutter }: Stack, model: Model, colours: DrawingColours): VNode | null {
  const fill = { tokens: null, embedding: colours.embedding, attention: colours.attention, cross: colours.attention, feed_forward: colours.forward, lens: null, output: colours.output }[kind];
  if (!fill) return null;
  const [top, bottom] = part.block;
  const outside = gutter.anchor === "end" ? left - 4 : right + 4;
  const away = gutter.anchor === "end" ? -12 : 12;
  return (
    <>
      <rect x={left - 3} y={top} width={right - left + 6} height={bottom - top} rx={part.expanded ? 5 : 1} fill={fill} stroke={part.expanded ? colours.edge : "none"} stroke-opacity={0.6} />
      {part.before === null ? null : <rect x={left - 3} y={part.before - NORM / 2} width={right - left + 6} height={NORM} rx={5} fill={colours.norm} stroke={colours.edge} stroke-opacity={0.6} />}
      {part.norm === null ? null : (
        <>
          <rect x={left - 3} y={part.norm - NORM / 2} width={right - left + 6} height={NORM} rx={5} fill={model.norm_first ? colours.raised : colours.norm} stroke={colours.edge} stroke-opacity={0.6} />
          <path d={`M${outside} ${part.bottom}h${away}V${part.norm}h${-away}`} fill="none" stroke={colours.edge} />
          <path d={`M${outside} ${part.norm}l${away / 3} -3v6z`} fill={colours.edge} />
        </>
      )}
      {kind === "embedding" && addsPositions(model) ? positionMark(part, left, right, gutter.anchor, colours) : null}
    </>
  );
}

/** The sum with the positional encoding: ⊕ and a sine, as in the paper. */
function positionMark({ block: [top] }: Part, left: number, right: number, anchor: "start" | "end", colours: DrawingColours): VNode {
  const y = top - 14;
  const at = anchor === "end" ? left - 16 : right + 16;
  const wave = `M${at - 6} ${y}q3 -7 6 0t6 0`;
  return (
    <g fill="none" stroke={colours.edge}>
      <path d={`M${left} ${y}H${right}`} stroke-dasharray="2 3" />
      <circle cx={at} cy={y} r={9} fill={colours.ground} />
      <path d={wave} stroke={colours.ink} />
      <path d={anchor === "end" ? `M${at + 9} ${y}H${left}` : `M${at - 9} ${y}H${right}`} />
    </g>
  );
}

/** The residual stream through a part: a line per token, thicker for a larger norm. */
function streams(norm: Float32Array | null, top: number, bottom: number, stack: Stack, count: number, largest: number, colours: DrawingColours): VNode[] {
  const paths = new Map<number, string>();
  for (let row = 0; row < count && bottom > top; row++) {
    const width = norm ? Math.round(1 + 3 * (norm[row] / largest)) : 1;
    paths.set(width, `${paths.get(width) ?? ""}M${round(xOf(stack, row))} ${round(bottom)}V${round(top)}`);
  }
  return [...paths].map(([width, d]) => <path key={width} d={d} stroke={colours.edge} stroke-opacity={0.55} stroke-width={width} fill="none" />);
}

/** The attention of every token, pale: at most three keys each. */
function faintLinks({ links, kind }: Column, { block: [top, bottom], expanded }: Part, stack: Stack, layout: FlowLayout, colours: DrawingColours): VNode[] {
  if (!expanded) return [];
  const paths = new Map<number, string>();
  for (const { query, key, weight } of links) {
    const opacity = OPACITIES[Math.min(OPACITIES.length - 1, Math.floor(weight * OPACITIES.length))];
    const d = kind === "cross" ? fromLane(layout, stack, key, query, top, bottom) : curve(xOf(stack, key), bottom, xOf(stack, query), top);
    paths.set(opacity, (paths.get(opacity) ?? "") + d);
  }
  return [...paths].map(([opacity, d]) => <path key={opacity} d={d} stroke={kind === "cross" ? colours.focus : colours.accent} stroke-opacity={0.22 * opacity} fill="none" />);
}

/** A curve upwards from a key to a query. */
export function curve(x0: number, y0: number, x1: number, y1: number): string {
  const middle = round((y0 + y1) / 2);
  return `M${round(x0)} ${round(y0)}C${round(x0)} ${middle} ${round(x1)} ${middle} ${round(x1)} ${round(y1)}`;
}

/** A curve from the lane, where the key of a source token goes up and down, to a query of a cross-attention. */
export function fromLane(layout: FlowLayout, stack: Stack, key: number, query: number, top: number, bottom: number): string {
  const [x0, x1] = [laneX(layout, key), xOf(stack, query)];
  const y = top + ((key + 0.5) / sourceCount(layout)) * (bottom - top);
  const start = stack.left - 3;
  return `M${round(x0)} ${round(y)}H${round(start)}C${round((start + x1) / 2)} ${round(y)} ${round(x1)} ${round(y)} ${round(x1)} ${round(top)}`;
}

/** Where the keys and values of a source token are in the lane; the first token is the rightmost, so that they do not cross above it. */
function laneX({ lane, stacks }: FlowLayout, key: number): number {
  const [left, right] = lane ?? [0, 0];
  const count = sourceCount({ stacks });
  const gap = Math.min(LANE_GAP, (right - left - 24) / Math.max(1, count));
  return (left + right) / 2 - 3 + ((count - 1) / 2 - key) * gap;
}

function sourceCount({ stacks: [source] }: Pick<FlowLayout, "stacks">): number {
  return Math.round((source.right - source.left) / source.pitch);
}

/** The keys and values: from the output of the encoder's last layer down the lane to every cross-attention. */
export function trunk(flow: Flow, layout: FlowLayout, colours: DrawingColours): VNode | null {
  const [source, target] = layout.stacks;
  if (!layout.lane || !target) return null;
  const count = flow.sides[0].tokens.length;
  const top = topOf(source, flow.sides[0].columns);
  const crossed = target.parts.filter((_, i) => flow.sides[1].columns[i].kind === "cross");
  if (!crossed.length) return null;
  const [highest, lowest] = [Math.min(...crossed.map(({ block }) => block[0])), Math.max(...crossed.map(({ block }) => block[1]))];
  const step = Math.min(LANE_GAP, 26 / count);
  const lines = Array.from({ length: count }, (_, key) => {
    const y = round(top - 8 - (count - key) * step);
    const [x, lane] = [round(xOf(source, key)), round(laneX(layout, key))];
    return `M${x} ${round(top)}V${y}H${lane}M${lane} ${round(Math.min(highest + 4, y))}V${round(lowest - 4)}`;
  }).join("");
  const arrows = crossed
    .filter(({ expanded }) => expanded)
    .map(({ block: [above, below] }) => `M${target.left - 4} ${round((above + below) / 2)}l-7 -4v8z`)
    .join("");
  const arrow = crossed.filter(({ expanded }) => expanded)[0];
  return (
    <g>
      <path d={lines} fill="none" stroke={colours.focus} stroke-opacity={0.5} />
      <path d={arrows} fill={colours.focus} />
      {arrow && target.gutter.width > 60 ? (
        <g font-size={11} font-weight={700} fill={colours.focus}>
          {crossed.filter(({ expanded }) => expanded).map(({ block: [above] }, i) => (
            <text key={i} x={target.left - 12} y={round(above) - 4} text-anchor="end">
              K, V
            </text>
          ))}
        </g>
      ) : null}
    </g>
  );
}

/** What a sublayer adds: a circle in Add & Norm whose area is its norm relative to the stream, of the largest. */
function addedMarks({ added, kind }: Column, { norm }: Part, stack: Stack, largest: number, colours: DrawingColours): VNode | null {
  if (!added || norm === null) return null;
  const most = Math.min(NORM / 2 - 1, stack.pitch / 2 - 1);
  const d = Array.from(added, (size, row) => {
    const r = round(Math.max(0.8, Math.min(most, most * Math.sqrt(size / largest))));
    return `M${round(xOf(stack, row) - r)} ${round(norm)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  }).join("");
  return <path d={d} fill={kind === "feed_forward" ? colours.ink : kind === "cross" ? colours.focus : colours.accent} fill-opacity={0.8} />;
}

/** The most probable token of the logit lens after a layer, in bold where it is that of the last layer. */
function lensTexts(lens: NonNullable<Column["lens"]>, { top, bottom }: Part, columns: readonly Column[], stack: Stack, colours: DrawingColours): VNode[] {
  const last = columns.findLast((column) => column.lens)?.lens;
  return lens.map(([best], row) => {
    const same = best?.id === last?.[row]?.[0]?.id;
    const text = fit(displayText(best?.piece ?? ""), stack.pitch - 6, LENS_SIZE);
    const [x, y] = [xOf(stack, row), (top + bottom) / 2];
    const width = textWidth(text, LENS_SIZE) + 4;
    return (
      <g key={row}>
        <rect x={x - width / 2} y={y - 6} width={width} height={12} fill={colours.ground} />
        <text x={x} y={y + 3.5} text-anchor="middle" font-size={LENS_SIZE} fill={same ? colours.ink : colours.faint} font-weight={same ? 700 : undefined}>
          {text}
        </text>
      </g>
    );
  });
}

/** A text cut to a width in pixels. */
function fit(text: string, width: number, size: number): string {
  const letters = [...text];
  let end = letters.length;
  while (end > 1 && textWidth(letters.slice(0, end).join("") + (end < letters.length ? "…" : ""), size) > width) end--;
  return end < letters.length ? `${letters.slice(0, end).join("")}…` : text;
}

const SLANTED_PITCH = 13; // pixels that a slanted text needs

/** A token below or above its column; slanted if the columns are narrow, and not all of them if they are narrower. */
function tokenText(text: string, row: number, y: number, stack: Stack, end: "start" | "end", fill: string, bold = false): VNode | null {
  if (stack.slanted && row % Math.ceil(SLANTED_PITCH / stack.pitch)) return null;
  const x = xOf(stack, row);
  const slant = stack.slanted ? { "text-anchor": end, transform: `rotate(-50 ${round(x)} ${round(y)})` } : { "text-anchor": "middle" };
  return (
    <text key={row} x={round(stack.slanted ? x + 3 : x)} y={round(stack.slanted ? y - 3 : y)} fill={fill} font-weight={bold ? 700 : undefined} {...slant}>
      {shorten(displayText(text))}
    </text>
  );
}

/** The answer above a stack: labels of the text with bars, or the predicted token of each column. */
function outputs(columns: readonly Column[], stack: Stack, predictions: readonly Prediction[], colours: DrawingColours): VNode[] {
  const at = columns.findIndex(({ kind }) => kind === "output");
  if (at < 0) return [];
  const y = stack.parts[at].block[0];
  const ofText = predictions.filter(({ row }) => row < 0);
  const room = Math.max(40, stack.right - stack.left - 130);
  return predictions.map(({ row, text, probability }, i) => {
    if (row >= 0) return <g key={i}>{tokenText(text, row, y - 8, stack, "start", colours.ink)}</g>;
    const line = y - 12 - 19 * (ofText.length - 1 - i);
    return (
      <g key={i}>
        <rect x={stack.left} y={line - 8} width={Math.max(1, room * probability)} height={11} rx={2} fill={colours.accent} opacity={i === 0 ? 0.9 : 0.4} />
        <text x={stack.left + Math.max(1, room * probability) + 6} y={line + 2} fill={colours.ink} font-weight={i === 0 ? 700 : undefined}>
          {shorten(displayText(text))} <tspan fill={colours.faint}>{probability.toFixed(2)}</tspan>
        </text>
      </g>
    );
  });
}

/** The titles next to a part, as the paper names it. */
function titleTexts(column: Column, part: Part, { gutter }: Stack, info: TraceInfo, colours: DrawingColours): VNode | null {
  if (!part.expanded || part.bottom <= part.top) return null;
  const { kind } = column;
  const write = (y: number, text: string, fill = colours.ink) => (
    <text x={gutter.x + (gutter.anchor === "end" ? -8 : 8)} y={round(y) + 4} text-anchor={gutter.anchor} fill={fill}>
      {gutter.width < 60 ? text : fit(text, gutter.width + 8, FONT)}
    </text>
  );
  const [top, bottom] = part.block;
  const isNarrow = gutter.width < 90;
  const small = isNarrow ? 10.5 : FONT;
  const attentionY = gutter.width < 60 ? (top + bottom) / 2 : top + 12;
  return (
    <g font-size={small}>
      {kind === "tokens" ? write(part.top + 11, columnTitle(kind, gutter.width), colours.faint) : null}
      {kind === "lens" ? write((part.top + part.bottom) / 2 + 5, columnTitle(kind, gutter.width), colours.faint) : null}
      {kind === "embedding" ? write((top + bottom) / 2, title(column, info, isNarrow)) : null}
      {kind === "embedding" && addsPositions(info.model) ? <g transform={`translate(${gutter.anchor === "end" ? -16 : 16} 0)`}>{write(top - 14, isNarrow ? "PE" : t({ ko: "위치 인코딩", en: "Positional Encoding" }))}</g> : null}
      {kind === "attention" || kind === "cross" ? write(attentionY, title(column, info, isNarrow)) : null}
      {kind === "feed_forward" || kind === "output" ? write((top + bottom) / 2, title(column, info, isNarrow)) : null}
      {part.norm === null || isNarrow ? null : write(part.norm, info.model.norm_first ? t({ ko: "Add (잔차 연결)", en: "Add" }) : "Add & Norm", colours.faint)}
      {part.before === null || isNarrow ? null : write(part.before, "Norm", colours.faint)}
    </g>
  );
}

/** The name of a column in figure 1. */
function title(column: Column, { model, blocks, classification, regression }: TraceInfo, isNarrow: boolean): string {
  if (isNarrow) return columnTitle(column.kind, 40);
  const masked = column.kind === "attention" && blocks.some(({ name, causal }) => name === column.block && causal);
  const final = model.norm_first ? "Norm · " : "";
  const byText = classification || regression;
  return {
    tokens: "",
    embedding: column.side === "source" ? t({ ko: "입력 임베딩", en: "Input Embedding" }) : t({ ko: "출력 임베딩", en: "Output Embedding" }),
    attention: masked ? t({ ko: "마스크드 셀프 어텐션", en: "Masked Self-Attention" }) : t({ ko: "셀프 어텐션", en: "Self-Attention" }),
    cross: t({ ko: "교차 어텐션", en: "Cross-Attention" }),
    feed_forward: t({ ko: "피드포워드", en: "Feed Forward" }),
    lens: "",
    output: byText ? t({ ko: `${final}분류층`, en: `${final}Classifier` }) : `${final}Linear · Softmax`,
  }[column.kind];
}

/** The name of a column, abbreviated in a narrow space. */
export function columnTitle(kind: ColumnKind, width = Number.POSITIVE_INFINITY): string {
  const long = {
    tokens: t({ ko: "토큰", en: "tokens" }),
    embedding: t({ ko: "임베딩", en: "embedding" }),
    attention: t({ ko: "어텐션", en: "attention" }),
    cross: t({ ko: "교차", en: "cross" }),
    feed_forward: t({ ko: "피드포워드", en: "feed-forward" }),
    lens: t({ ko: "렌즈", en: "lens" }),
    output: t({ ko: "출력", en: "output" }),
  }[kind];
  if (textWidth(long, 10.5) <= width - 20) return long;
  return { tokens: "", embedding: "E", attention: "A", cross: "C", feed_forward: "FFN", lens: "", output: "" }[kind];
}
