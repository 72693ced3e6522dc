/** Layout and legend of the lines, and their export as a picture and a table. */

import { ink } from "../../draw/colours";
import { tone } from "../../draw/paint";
import { type DrawingColours, fitText, markup, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { scale } from "../../state/state";
import type { Label } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { BLOCKS } from "../../i18n/blocks";
import { type Message, t } from "../../i18n/i18n";
import { selected } from "../choice";
import { arcLayout, columnLayout, type Layout, type Side } from "./layout";
import { focusOf, hoverDrawing, hoveredLines, shortWeight } from "./hover";
import { type Heads, layout as layoutSetting, LAYOUTS, type LinesData, loadLines } from "./series";
import { elements, type LineStyle, stroke, strokes } from "./strokes";

/** The size of the drawing on the screen; exported pictures have it too. */
export const shownSize: [width: number, height: number] = [640, 320];

export function layoutOf({ weights, series, heads, lines, sentence }: LinesData, width: number, height: number): Layout {
  const { queries, keys } = weights;
  const longest = Math.max(24, ...[...queries, ...keys].map(({ text }) => textWidth(displayText(text), 13)));
  const number = heads === "all" ? Math.min(series.length * 9, 144) : series.length === 1 ? 54 : series.length * 34;
  const input = { width, height, queries: queries.length, keys: keys.length, label: longest + 16, number };
  if (selected(layoutSetting, LAYOUTS) === "columns" || !sentence) return columnLayout(input);
  return arcLayout(
    input,
    lines.list.some(({ query, key }) => key > query),
  );
}

/** A fraction in percent. */
export function percent(fraction: number): string {
  return `${Math.round(fraction * 1000) / 10} %`;
}

/** The fraction of the weight that is drawn. */
export function massNote({ lines, filtered }: LinesData): string {
  const count = lines.list.length.toLocaleString("en");
  const fraction = percent(lines.visibleMass && lines.shownMass / lines.visibleMass);
  return t({
    ko: `선 ${count}개가 ${filtered ? "선택한 세그먼트 사이 " : ""}가중치의 ${fraction}를 나타냅니다`,
    en: `${count} lines show ${fraction} of the weight${filtered ? " between these segments" : ""}`,
  });
}

/** The legend: heads by colour, three weights by darkness; 20 pixels high. */
export function legend(data: LinesData, style: LineStyle, colours: DrawingColours) {
  const { series, max } = data;
  const heads = series.flatMap(({ name, colour }, i) => (colour === null ? [] : [[name, i, max] as const]));
  const weights = [0.05, 0.25, 1].map((fraction) => [shortWeight(fraction * max, 2), 0, fraction * max] as const);
  let end = 0;
  return [...heads, ...weights].map(([text, number, weight]) => {
    const x = end;
    end += 48 + textWidth(text, 12);
    return (
      <g key={text} transform={`translate(${x} 0)`}>
        {elements([{ ...stroke(data, number, weight, style, "all"), d: "M0 10H26" }])}
        <text x={32} y={14} font-size={12} fill={colours.faint}>
          {text}
        </text>
      </g>
    );
  });
}

/** The names of the drawn heads, and how their weights were processed. */
function titleOf({ location, heads, series, weights }: LinesData): string {
  const { block, layer } = location;
  const headsText =
    heads === "focus" || heads === "pinned"
      ? `${t(BLOCKS[block])} ${series.map(({ name }) => name).join(", ")}`
      : `${t(BLOCKS[block])} L${layer}: ${t(HEAD_TITLES[heads])}`;
  return weights.note ? `${headsText} · ${t(weights.note)}` : headsText;
}

const HEAD_TITLES = {
  mean: { ko: "모든 헤드의 평균", en: "mean of all heads" },
  max: { ko: "모든 헤드의 최댓값", en: "maximum of all heads" },
  all: { ko: "모든 헤드", en: "all heads" },
} satisfies Partial<Record<Heads, Message>>;

export async function svg(trace: Trace): Promise<string> {
  const data = await loadLines(trace);
  const layout = layoutOf(data, ...shownSize);
  const focus = focusOf(data, true);
  const style = { ramp: ink("light"), faint: PRINT_COLOURS.faint, tone: tone(scale.value, data.max) };
  const { queries, keys } = data.weights;
  const title = titleOf(data);
  const counts = { query: queries.length, key: keys.length };
  return svgDocument(
    layout.width,
    layout.height + 50,
    `${trace.info.title}: ${title}`,
    markup([
      <g opacity={focus.query + focus.key > -2 ? 0.15 : 1}>
        {elements(strokes(data.lines.list, data, layout, style, "all"))}
      </g>,
      layout.kind === "columns" && names(layout, "query", queries, [0, counts.query], PRINT_COLOURS),
      names(layout, "key", keys, [0, counts.key], PRINT_COLOURS),
      hoverDrawing(data, focus, layout, style, PRINT_COLOURS, (side) => [0, counts[side]]),
      <g transform={`translate(8 ${layout.height + 8})`}>
        <text y={10} font-size={12} fill={PRINT_COLOURS.faint}>
          {`${title} · ${massNote(data)}`}
        </text>
        <g transform="translate(0 16)">{legend(data, style, PRINT_COLOURS)}</g>
      </g>,
    ]),
  );
}

/** The texts of the tokens of a side, from one index to another; special tokens in italics, padding struck through. */
export function names({ kind, vertical, label }: Layout, side: Side, tokens: readonly Label[], [from, to]: readonly [number, number], colours: DrawingColours) {
  return tokens.slice(from, to).map(({ text, special, real }, i) => {
    const { x, y, width, height } = label(side, from + i);
    const [across, anchor] = kind === "arcs" ? [x + width / 2, "middle"] : side === "query" ? [x + width - 8, "end"] : [x + 8, "start"];
    return (
      <text
        key={from + i}
        x={across}
        y={y + height / 2 + (vertical ? 0 : 4.5)}
        font-size={13}
        text-anchor={anchor}
        writing-mode={vertical ? "tb" : undefined}
        font-style={special ? "italic" : undefined}
        text-decoration={real ? undefined : "line-through"}
        fill={special || !real ? colours.faint : colours.ink}
      >
        {fitText(displayText(text), vertical ? height : width - (kind === "arcs" ? 2 : 8))}
      </text>
    );
  });
}

/** The drawn lines, or all lines of the locked token, one per row. */
export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const data = await loadLines(trace);
  const { queries, keys } = data.weights;
  const list = hoveredLines(data, focusOf(data, true)) ?? data.lines.list;
  return [
    ["head", "query", "query_text", "key", "key_text", "weight"],
    ...list.map(({ query, key, series, weight }) => [
      `${t(BLOCKS[data.location.block])} ${data.series[series].name}`,
      queries[query].pieces[0],
      displayText(queries[query].text),
      keys[key].pieces[0],
      displayText(keys[key].text),
      weight,
    ]),
  ];
}
