/** The line view: attention weights as lines between tokens. */

import { useComputed, useSignal } from "@preact/signals";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Canvas, type Draw } from "../../draw/canvas";
import { ink } from "../../draw/colours";
import { tone } from "../../draw/paint";
import { palette, shade } from "../../draw/palette";
import { PAGE_COLOURS } from "../../draw/svg";
import { drawnFraction, hoverKey, hoverQuery, key, query, scale } from "../../state/state";
import { useAsync } from "../../state/useAsync";
import { hoverOver, toggleLock } from "../../state/actions";
import { t } from "../../i18n/i18n";
import { Choice, selected } from "../choice";
import type { StageProps, View } from "../view";
import type { Line } from "./selectLines";
import type { Layout, Side } from "./layout";
import "./lines.css";
import { layoutOf, legend, massNote, names, percent, shownSize, svg, table } from "./picture";
import { focusOf, hoverDrawing, hoveredLines, hoveredToken } from "./hover";
import {
  HEADS,
  heads,
  layout as layoutSetting,
  LAYOUTS,
  type LinesData,
  loadLines,
  mass,
  SEGMENTS,
  segments,
  side as sideOfSentence,
  SIDES,
} from "./series";
import { type LineStyle, strokes } from "./strokes";
import { Tokens } from "./tokens";

export const lines: View = {
  id: "lines",
  title: { ko: "선", en: "lines" },
  description: {
    ko: "선 하나가 가중치 하나입니다: 쿼리에서 키로, 진하고 굵을수록 가중치가 큽니다.",
    en: "One line is one weight, from a query to a key; darker and wider lines are larger weights.",
  },
  supports: () => true,
  missing: { ko: "", en: "" },
  Stage: Lines,
  svg,
  table,
};

function Lines({ trace }: StageProps) {
  const { value, error } = useAsync(() => loadLines(trace), [trace]);
  useEffect(() => {
    drawnFraction.value = value && value.lines.shownMass / (value.lines.totalMass || 1);
    return () => {
      drawnFraction.value = null;
    };
  }, [value]);
  if (!value) return <p role={error ? "alert" : undefined}>{error ?? "…"}</p>;
  return (
    <div class="lines">
      <div class="choices">
        <Choice title={{ ko: "헤드", en: "heads" }} of={heads} options={HEADS} />
        {value.sentence && <Choice title={{ ko: "배치", en: "layout" }} of={layoutSetting} options={LAYOUTS} />}
        {value.sentence && selected(layoutSetting, LAYOUTS) === "arcs" && (
          <Choice title={{ ko: "선택한 토큰은", en: "a token is" }} of={sideOfSentence} options={SIDES} />
        )}
        {value.pairs && <Choice title={{ ko: "세그먼트", en: "segments" }} of={segments} options={SEGMENTS} />}
        <label class="choice">
          {t({ ko: "표시할 가중치", en: "weight drawn" })}
          <input
            type="range"
            min={0.1}
            max={1}
            step={0.05}
            value={mass.value}
            onInput={(event) => (mass.value = event.currentTarget.valueAsNumber)}
          />
          {percent(mass.value)}
        </label>
      </div>
      <Picture data={value} />
      <div class="lines-legend">
        <b>{massNote(value)}</b>
        <svg height={20} aria-hidden="true">
          {legend(value, styleOf(value), PAGE_COLOURS)}
        </svg>
      </div>
    </div>
  );
}

function styleOf({ max }: LinesData): LineStyle {
  return { ramp: ink(shade.value), faint: palette.value.soft, tone: tone(scale.value, max) };
}

function Picture({ data }: { data: LinesData }) {
  const scroller = useRef<HTMLDivElement>(null);
  const size = useSignal({ width: 720, height: 480 });
  const band = useSignal(0); // scroll position in viewport heights: tokens and canvas cover two heights from there
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const observer = new ResizeObserver(
      () => (size.value = { width: box.clientWidth, height: box.clientHeight || 480 }),
    );
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  const { width, height } = size.value;
  [shownSize[0], shownSize[1]] = [width, height];
  const layout = useMemo(() => layoutOf(data, width, height), [data, width, height, layoutSetting.value]);
  const top = Math.min(band.value * height, layout.height);
  const visibleHeight = Math.min(2 * height, layout.height - top);
  const labels = { query: data.weights.queries, key: data.weights.keys };
  const range = (side: Side): [number, number] => {
    const { length } = labels[side];
    if (layout.kind === "arcs") return [0, length];
    const row = layout.label(side, 0).height;
    return [Math.min(length, Math.floor(top / row)), Math.min(length, Math.ceil((top + visibleHeight) / row))];
  };
  const draw = useCallback<Draw>(
    (g) => {
      g.translate(0, -top);
      for (const { d, colour, alpha, width, dash } of strokes(data.lines.list, data, layout, styleOf(data), "all")) {
        [g.strokeStyle, g.globalAlpha, g.lineWidth] = [colour, alpha, width];
        g.setLineDash([...dash]);
        g.stroke(new Path2D(d));
      }
    },
    [data, layout, top],
  );
  const faint = useComputed(() => (hoveredToken(focusOf(data)) ? "lines-faint" : ""));

  /** Sets the hovered token or line. */
  const hover = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const token = layout.tokenAt(x, y);
    const list = hoveredLines(data, focusOf(data, true)) ?? data.lines.list;
    const line = token ? null : nearest(layout, list, x, y);
    const side = layout.kind === "arcs" ? selected(sideOfSentence, SIDES) : token?.side;
    const at = (of: Side) => {
      const index = line ? line[of] : side === of ? token?.index : undefined;
      return index === undefined ? null : labels[of][index].pieces[0];
    };
    hoverOver(at("query"), at("key"));
  };
  /** Locks the hovered side and keeps the other. */
  const lockHovered = () => {
    const [queryPiece, keyPiece] = [hoverQuery.value, hoverKey.value];
    if (queryPiece !== null && keyPiece !== null) toggleLock(queryPiece, keyPiece);
    else if (queryPiece !== null) query.value = queryPiece === query.value ? null : queryPiece;
    else if (keyPiece !== null) key.value = keyPiece === key.value ? null : keyPiece;
  };
  /** Scrolls to a token and hovers over it. */
  const focusToken = (side: Side, index: number) => {
    const { y } = layout.label(side, index);
    const view = scroller.current;
    if (view && (y < view.scrollTop || y + 30 > view.scrollTop + height)) view.scrollTop = y - height / 2;
    const piece = labels[side][index].pieces[0];
    hoverOver(side === "query" ? piece : null, side === "key" ? piece : null, true);
  };
  const sides = layout.kind === "arcs" ? [selected(sideOfSentence, SIDES)] : (["query", "key"] as const);
  return (
    <div
      class="lines-scroll"
      ref={scroller}
      onScroll={({ currentTarget }) => (band.value = Math.floor(currentTarget.scrollTop / height))}
    >
      <div
        class="lines-drawing"
        style={{ width: `${layout.width}px`, height: `${layout.height}px` }}
        onPointerMove={hover}
        onPointerLeave={() => hoverOver(null, null)}
        onClick={(event) => {
          hover(event);
          lockHovered();
        }}
      >
        <Canvas class={faint} style={{ top: `${top}px` }} width={layout.width} height={visibleHeight} draw={draw} label="" />
        <svg style={{ top: `${top}px` }} width={layout.width} height={visibleHeight} viewBox={`0 ${top} ${layout.width} ${visibleHeight}`} aria-hidden="true">
          {sides.map((side) => names(layout, side, labels[side], range(side), PAGE_COLOURS))}
        </svg>
        <HoverLayer data={data} layout={layout} top={top} visibleHeight={visibleHeight} range={range} />
        {sides.map((side) => (
          <Tokens
            key={sides.length > 1 ? side : "both"}
            side={side}
            layout={layout}
            labels={labels[side]}
            range={range(side)}
            focusToken={focusToken}
            lockHovered={lockHovered}
          />
        ))}
      </div>
    </div>
  );
}

interface HoverLayerProps {
  readonly data: LinesData;
  readonly layout: Layout;
  readonly top: number;
  readonly visibleHeight: number;
  readonly range: (side: Side) => readonly [number, number];
}

/** Rendered for every hover, while the canvas below is unchanged. */
function HoverLayer({ data, layout, top, visibleHeight, range }: HoverLayerProps) {
  const { width } = layout;
  return (
    <svg
      style={{ top: `${top}px` }}
      width={width}
      height={visibleHeight}
      viewBox={`0 ${top} ${width} ${visibleHeight}`}
      aria-hidden="true"
    >
      {hoverDrawing(data, focusOf(data), layout, styleOf(data), PAGE_COLOURS, range)}
    </svg>
  );
}

/** The line within 6 pixels of a point. */
function nearest(layout: Layout, list: readonly Line[], x: number, y: number): Line | null {
  let [min, found] = [6, null as Line | null];
  for (const line of list) {
    const distance = layout.distance(line.query, line.key, x, y);
    if (distance < min) [min, found] = [distance, line];
  }
  return found;
}
