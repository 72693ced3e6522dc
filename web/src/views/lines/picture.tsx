/** Layout and legend of the picture, and the picture as it stands, with what is locked, for export. */

import { ink } from "../../draw/colours";
import { tone } from "../../draw/paint";
import { type DrawingColours, markup, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { scale } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { t, type Message } from "../../i18n/i18n";
import { chosen } from "../choice";
import { arcsOver, columns, type Layout, type Side } from "./layout";
import { brief, focusOf, linesTold, pointed } from "./hover";
import { type Drawn, drawn, type Heads, LAYOUTS, layout as wanted } from "./series";
import { elements, type Look, stroke, strokes } from "./strokes";

export function layoutOf({ shown, series, heads, arcs, sentence }: Drawn, width: number, height: number): Layout {
  const { queries, keys } = shown;
  const longest = Math.max(24, ...[...queries, ...keys].map(({ text }) => textWidth(displayText(text), 13)));
  const number = heads === "all" ? Math.min(series.length * 9, 144) : series.length === 1 ? 54 : series.length * 34;
  const room = { width, height, queries: queries.length, keys: keys.length, label: longest + 16, number };
  if (chosen(wanted, LAYOUTS) === "columns" || !sentence) return columns(room);
  return arcsOver(
    room,
    arcs.list.some(({ query, key }) => key > query),
  );
}

/** A share in percent. */
export function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`;
}

/** How much of the weights is drawn. */
export function shareDrawn({ arcs, filtered }: Drawn): string {
  const count = arcs.list.length.toLocaleString("en");
  const share = percent(arcs.among && arcs.shown / arcs.among);
  return t({
    ko: `선 ${count}개가 ${filtered ? "고른 문장 사이 " : ""}무게의 ${share}를 보입니다`,
    en: `${count} lines show ${share} of the mass${filtered ? " between these segments" : ""}`,
  });
}

/** What lines stand for: heads by colour, three weights by darkness; 20 pixels high. */
export function legend(drawn: Drawn, look: Look, inks: DrawingColours) {
  const { series, most } = drawn;
  const heads = series.flatMap(({ name, colour }, i) => (colour === null ? [] : [[name, i, most] as const]));
  const weights = [0.05, 0.25, 1].map((share) => [brief(share * most, 2), 0, share * most] as const);
  let end = 0;
  return [...heads, ...weights].map(([text, number, weight]) => {
    const x = end;
    end += 48 + textWidth(text, 12);
    return (
      <g key={text} transform={`translate(${x} 0)`}>
        {elements([{ ...stroke(drawn, number, weight, look, "all"), d: "M0 10H26" }])}
        <text x={32} y={14} font-size={12} fill={inks.faint}>
          {text}
        </text>
      </g>
    );
  });
}

/** The heads that are drawn, by name, and what was done to their weights. */
function whereOf({ place, heads, series, shown }: Drawn): string {
  const { block, layer } = place;
  const drawn =
    heads === "focus" || heads === "pinned"
      ? `${block} ${series.map(({ name }) => name).join(", ")}`
      : `${block} L${layer}: ${t(DRAWN[heads])}`;
  return shown.note ? `${drawn} · ${t(shown.note)}` : drawn;
}

const DRAWN = {
  mean: { ko: "모든 머리의 평균", en: "mean of all heads" },
  max: { ko: "모든 머리의 최대", en: "largest of all heads" },
  all: { ko: "모든 머리", en: "all heads" },
} satisfies Partial<Record<Heads, Message>>;

export async function svg(trace: Trace): Promise<string> {
  const shows = await drawn(trace);
  const layout = layoutOf(shows, 640, 320);
  const focus = focusOf(shows, true);
  const look = { ramp: ink("light"), faint: PRINT_COLOURS.faint, tone: tone(scale.value, shows.most) };
  const { queries, keys } = shows.shown;
  const where = whereOf(shows);
  const counts = { query: queries.length, key: keys.length };
  return svgDocument(
    layout.width,
    layout.height + 50,
    `${trace.info.title}: ${where}`,
    markup([
      <g opacity={focus.query + focus.key > -2 ? 0.15 : 1}>
        {elements(strokes(shows.arcs.list, shows, layout, look, "all"))}
      </g>,
      layout.kind === "columns" && queries.map(({ text }, index) => name(layout, "query", index, text)),
      keys.map(({ text }, index) => name(layout, "key", index, text)),
      pointed(shows, focus, layout, look, PRINT_COLOURS, (side) => [0, counts[side]]),
      <g transform={`translate(8 ${layout.height + 8})`}>
        <text y={10} font-size={12} fill={PRINT_COLOURS.faint}>
          {`${where} · ${shareDrawn(shows)}`}
        </text>
        <g transform="translate(0 16)">{legend(shows, look, PRINT_COLOURS)}</g>
      </g>,
    ]),
  );
}

/** A token as text. */
function name({ kind, vertical, label }: Layout, side: Side, index: number, text: string) {
  const { x, y, width, height } = label(side, index);
  const [across, anchor] =
    kind === "arcs" ? [x + width / 2, "middle"] : side === "query" ? [x + width - 8, "end"] : [x + 8, "start"];
  const place = `translate(${across} ${y + height / 2 + (vertical ? 0 : 4)})${vertical ? " rotate(90)" : ""}`;
  return (
    <text transform={place} font-size={13} text-anchor={anchor} fill={PRINT_COLOURS.ink}>
      {displayText(text)}
    </text>
  );
}

/** The drawn lines, or all of what is locked, one a row. */
export async function table(trace: Trace): Promise<readonly (readonly (string | number)[])[]> {
  const shows = await drawn(trace);
  const { queries, keys } = shows.shown;
  const list = linesTold(shows, focusOf(shows, true)) ?? shows.arcs.list;
  return [
    ["head", "query", "query_text", "key", "key_text", "weight"],
    ...list.map(({ query, key, series, weight }) => [
      `${shows.place.block} ${shows.series[series].name}`,
      queries[query].pieces[0],
      queries[query].text,
      keys[key].pieces[0],
      keys[key].text,
      weight,
    ]),
  ];
}
