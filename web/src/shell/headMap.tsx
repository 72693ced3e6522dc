/** The head map: every head of every block as a thumbnail, layers down, heads across; it sets the focused head of all views. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { Canvas, type Draw } from "../draw/canvas";
import { css, headColours, ink } from "../draw/colours";
import { blit, hatch, paintBytes, rampStep as rampStep } from "../draw/paint";
import { shade } from "../draw/palette";
import { maxPool } from "../draw/pool";
import { useAsync } from "../state/useAsync";
import { selectHead, togglePin } from "../state/actions";
import { headKey, muted } from "../state/session";
import { setting } from "../state/settings";
import { focusedHead, pinned, sequence, view } from "../state/state";
import type { Block } from "../trace/format";
import { PATTERNS, patternScores } from "../trace/headPatterns";
import { clampIndex, type Matrix } from "../trace/matrix";
import type { Trace } from "../trace/trace";
import { Choice, selected, Toggle } from "../views/choice";
import { BLOCKS, headName } from "../i18n/blocks";
import { t } from "../i18n/i18n";
import { AccessibleGrid, gridStep } from "./accessibleGrid";
import { openDrawer } from "./keyboard";

const overlay = setting<"weights" | "entropy">("map", "show", "weights");
const sorted = setting("map", "sorted", false);
const sortBy = setting<keyof typeof ORDERS>("map", "by", "entropy");
export const ORDERS = {
  entropy: { ko: "엔트로피", en: "entropy" },
  previous_token: { ko: "이전 토큰", en: "previous token" },
  duplicate_token: { ko: "같은 토큰", en: "duplicate token" },
  induction: { ko: "귀납", en: "induction" },
  positional: { ko: "위치", en: "positional" },
  separator: { ko: "구분·첫 토큰", en: "separator, first token" },
  rare_word: { ko: "드문 단어", en: "rare word" },
};

const MAP_WIDTH = 232;
const LEFT = 22; // layer numbers
const TOP = 16; // head numbers
const GAP = 2;
const [MIN_CELL, MAX_CELL] = [9, 44]; // pixels of a side

interface HeadMapProps {
  readonly trace: Trace;
  /** The width of a block and the largest cell; default: those of the panel at the left. */
  readonly width?: number;
  readonly largest?: number;
}

export function HeadMap({ trace, width = MAP_WIDTH, largest = MAX_CELL }: HeadMapProps) {
  return (
    <>
      <div class="map-settings choices">
        <Choice
          title={{ ko: "셀", en: "cells" }}
          of={overlay}
          options={{ weights: { ko: "가중치", en: "weights" }, entropy: { ko: "엔트로피", en: "entropy" } }}
        />
        <Toggle title={{ ko: "정렬", en: "sort" }} of={sorted} />
        {sorted.value && <Choice title={{ ko: "기준", en: "by" }} of={sortBy} options={ORDERS} />}
      </div>
      {trace.info.blocks.map((block) => (
        <BlockMap key={block.name} trace={trace} block={block} width={width} largest={largest} />
      ))}
    </>
  );
}

/** Views that show no single head: choosing one opens its lines. */
const WITHOUT_HEAD: ReadonlySet<string> = new Set(["flow", "explanation", "circuit"]);

function BlockMap({ trace, block, width: space, largest }: Required<HeadMapProps> & { readonly block: Block }) {
  const { value, error } = useAsync(async () => {
    const number = sequence.value;
    const [thumbnails, entropy] = await Promise.all([
      trace.has(`${block.name}.thumbnails`) ? trace.thumbnails(block.name, number) : null,
      trace.entropy(block.name, number),
    ]);
    const by = PATTERNS.find((pattern) => sorted.value && pattern === selected(sortBy, ORDERS));
    const scores = by ? await patternScores(trace, block, number, by) : null;
    return { thumbnails, entropy, scores, order: scores ? scoreOrder(block, scores, -1) : scoreOrder(block, entropy) };
  }, [trace, block, sorted.value, sortBy.value]);
  const hoveredCell = useSignal<{ layer: number; column: number } | null>(null);
  const { layers, heads, name } = block;
  const side = Math.max(MIN_CELL, Math.min(largest, Math.floor((space - LEFT) / heads)));
  const [width, height] = [LEFT + heads * side, TOP + layers * side];
  const order = value && sorted.value ? value.order : null;
  const headAt = (layer: number, column: number) => order?.[layer][column] ?? column;
  const columnOf = (layer: number, head: number) => order?.[layer].indexOf(head) ?? head;
  const hasFocus = focusedHead.value.block === name;

  const cells = useMemo<Draw>(() => {
    if (!value) return () => undefined;
    return (g, colours) => {
      const ramp = ink(shade.value);
      const entropy = overlay.value === "entropy" ? value.entropy : null;
      const max = entropy ? entropy.data.reduce((a, b) => Math.max(a, b), 0) : 0;
      g.font = `11px ${colours.font}`;
      g.fillStyle = colours.soft;
      g.textAlign = "right";
      g.textBaseline = "middle";
      const every = (step: number) => Math.ceil(13 / step);
      for (let layer = 0; layer < layers; layer += every(side))
        g.fillText(String(layer), LEFT - 5, TOP + (layer + 0.5) * side);
      g.textAlign = "center";
      const across = Math.ceil(16 / side);
      if (!sorted.value)
        for (let head = 0; head < heads; head += across) g.fillText(String(head), LEFT + (head + 0.5) * side, TOP / 2);
      for (let layer = 0; layer < layers; layer++)
        for (let head = 0; head < heads; head++) {
          const column = sorted.value ? value.order[layer].indexOf(head) : head;
          const [x, y, size] = [LEFT + column * side, TOP + layer * side, side - GAP];
          if (entropy) {
            const step = rampStep(entropy.data[layer * heads + head] / (max || 1));
            g.fillStyle = css(ramp, step);
            g.fillRect(x, y, size, size);
            if (side >= 30) {
              g.fillStyle = step > 110 ? colours.paper : colours.ink;
              g.fillText(entropy.data[layer * heads + head].toFixed(1), x + size / 2, y + size / 2);
            }
          } else if (value.thumbnails) {
            const [, , down, wide] = value.thumbnails.shape;
            const pixels = size * (globalThis.devicePixelRatio || 1);
            const from = (layer * heads + head) * down * wide;
            const data = value.thumbnails.data.subarray(from, from + down * wide);
            const tile = maxPool({ rows: down, columns: wide, data }, pixels, pixels);
            blit(g, paintBytes(tile.data, tile.rows, tile.columns, ramp), x, y, size, size);
          }
          if (muted.value.has(headKey({ block: name, layer, head }))) hatch(g, x, y, size, size, colours.focus, 4);
          g.strokeStyle = colours.line;
          g.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
        }
    };
  }, [value, side, layers, heads, name]);

  const marks: Draw = (g, colours) => {
    const box = (layer: number, head: number, colour: string, thick: number) => {
      const [x, y] = [LEFT + columnOf(layer, head) * side, TOP + layer * side];
      g.strokeStyle = colour;
      g.lineWidth = thick;
      g.strokeRect(x - 1, y - 1, side, side);
      return [x, y] as const;
    };
    const hovered = hoveredCell.value;
    if (hovered) box(hovered.layer, headAt(hovered.layer, hovered.column), colours.focus, 1);
    pinned.value.forEach((pin, i) => {
      if (pin.block !== name) return;
      const [x, y] = box(pin.layer, pin.head, headColours[i].colour, 2.5);
      g.fillStyle = headColours[i].colour;
      g.fillRect(x - 2, y - 2, 9, 9);
      g.fillStyle = "#fff";
      g.font = `bold 8px ${colours.font}`;
      g.textAlign = "center";
      g.textBaseline = "middle";
      g.fillText(String(i + 1), x + 2.5, y + 3);
    });
    if (focusedHead.value.block === name) box(focusedHead.value.layer, focusedHead.value.head, colours.focus, 3);
  };

  const cellAt = (event: MouseEvent) => {
    const layer = Math.floor((event.offsetY - TOP) / side);
    const column = Math.floor((event.offsetX - LEFT) / side);
    return layer >= 0 && layer < layers && column >= 0 && column < heads ? { layer, column } : null;
  };
  const headText = (layer: number, head: number) => {
    const bits = value?.entropy ? ` · ${value.entropy.data[layer * heads + head].toFixed(2)} bit` : "";
    const score = value?.scores ? ` · ${t(ORDERS[selected(sortBy, ORDERS)])} ${value.scores.data[layer * heads + head].toFixed(2)}` : "";
    const mutedText = muted.value.has(headKey({ block: name, layer, head })) ? ` · ${t({ ko: "꺼짐", en: "muted" })}` : "";
    return `${headName({ layer, head })}${bits}${score}${mutedText}`;
  };
  const onClick = (event: MouseEvent) => {
    const cell = cellAt(event);
    if (!cell) return;
    const head = { block: name, layer: cell.layer, head: headAt(cell.layer, cell.column) };
    if (event.shiftKey) togglePin({ ...head, sequence: sequence.value });
    else {
      selectHead(head);
      openDrawer.value = null; // in a narrow window the drawer covers the stage
      if (WITHOUT_HEAD.has(view.value)) view.value = "lines";
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = gridStep(event);
    const from = hasFocus ? { layer: focusedHead.value.layer, head: focusedHead.value.head } : { layer: 0, head: headAt(0, 0) };
    if (event.key === "Enter" || event.key === " ") togglePin({ ...from, block: name, sequence: sequence.value });
    else if (step) {
      const layer = clampIndex(from.layer + (hasFocus ? step[0] : 0), layers);
      selectHead({
        block: name,
        layer,
        head: headAt(layer, clampIndex(columnOf(from.layer, from.head) + (hasFocus ? step[1] : 0), heads)),
      });
    } else return;
    event.preventDefault();
  };
  const titleHead = hoveredCell.value
    ? { layer: hoveredCell.value.layer, head: headAt(hoveredCell.value.layer, hoveredCell.value.column) }
    : hasFocus
      ? focusedHead.value
      : null;
  return (
    <section class="map-block" data-block={name}>
      <h2>
        {t(BLOCKS[name])} <small>{titleHead ? headText(titleHead.layer, titleHead.head) : `${layers} × ${heads}`}</small>
      </h2>
      {error && <p role="alert">{error}</p>}
      <AccessibleGrid
        id={`${largest === MAX_CELL ? "map" : "heads"}-${name}`}
        label={t({ ko: `${BLOCKS[name].ko}의 헤드`, en: `heads of the ${BLOCKS[name].en}` })}
        rows={layers}
        columns={heads}
        row={hasFocus ? focusedHead.value.layer : -1}
        column={hasFocus ? columnOf(focusedHead.value.layer, focusedHead.value.head) : -1}
        cellText={hasFocus ? headText(focusedHead.value.layer, focusedHead.value.head) : t({ ko: "선택 안 됨", en: "not selected" })}
        selected={hasFocus}
        onKeyDown={onKeyDown}
      >
        <div class="map-picture" style={{ width: `${width}px`, height: `${height}px` }}>
          <Canvas width={width} height={height} draw={cells} label="" />
          <Canvas
            width={width}
            height={height}
            draw={marks}
            label=""
            data-left={LEFT}
            data-top={TOP}
            data-cell={side}
            onPointerMove={(event) => (hoveredCell.value = cellAt(event))}
            onPointerLeave={() => (hoveredCell.value = null)}
            onClick={onClick}
          />
        </div>
      </AccessibleGrid>
    </section>
  );
}

/** The heads of each layer by increasing entropy, or with sign −1 by decreasing score. */
export function scoreOrder(
  { layers, heads }: Pick<Block, "layers" | "heads">,
  scores: Matrix | null,
  sign: 1 | -1 = 1,
): readonly (readonly number[])[] {
  return Array.from({ length: layers }, (_, layer) => {
    const order = Array.from({ length: heads }, (_, head) => head);
    if (!scores) return order;
    return order.sort((a, b) => sign * (scores.data[layer * heads + a] - scores.data[layer * heads + b]));
  });
}
