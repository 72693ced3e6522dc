/** One head as a matrix: a canvas with the weights, a canvas with the focus, keyboard and pointer. */

import { useMemo, useRef } from "preact/hooks";
import { Canvas, type Draw } from "../../draw/canvas";
import { headColours, ink } from "../../draw/colours";
import { paint, paintBytes, toCanvas, tone } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { maxPool } from "../../draw/pool";
import { displayText } from "../../draw/text";
import { AccessibleGrid, gridStep } from "../../shell/accessibleGrid";
import { labelIndex } from "../../state/labels";
import { useAsync } from "../../state/useAsync";
import { hoverOver, selectHead, toggleLock } from "../../state/actions";
import {
  block,
  focusKey,
  focusQuery,
  hoverKey,
  hoverQuery,
  key,
  measure,
  query,
  scale,
  specials,
  unit,
} from "../../state/state";
import type { HeadLocation } from "../../trace/format";
import { clampIndex, valueAt } from "../../trace/matrix";
import { displayWeights, type Label, labels } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { BLOCKS, headName } from "../../i18n/blocks";
import { t } from "../../i18n/i18n";
import { computeTotals, drawCells, drawFocus, drawMatrix } from "./drawing";
import { CAPTION, cellAt, type Frame, frameOf, scrolledTo, spaceOf, zoomAt } from "./frame";
import { largest, range, setViewport, viewport, zoom } from "./settings";

interface PanelProps {
  readonly trace: Trace;
  readonly location: HeadLocation;
  readonly number: number | null; // index of the pin; null: the focused head
  readonly width: number;
  readonly height: number;
}

export function Panel({ trace, location, number, width, height }: PanelProps) {
  const { value, error } = useAsync(() => displayWeights(trace, location), [trace, location]);
  const named = useMemo(
    () => ({ queries: labels(trace.queries(location), unit.value), keys: labels(trace.keys(location), unit.value) }),
    [trace, location, unit.value],
  );
  const { queries, keys } = named;
  const panelHeight = height - (number === null ? 0 : CAPTION);
  const space = useMemo(() => spaceOf(width, panelHeight, queries, keys), [width, panelHeight, named]);
  const frame = frameOf(queries.length, keys.length, space, viewport());
  const fits = value && value.matrix.rows === queries.length && value.matrix.columns === keys.length;
  const picture = fits ? value : null; // weights of the previous unit are not drawn with the labels of the current one
  const max = useMemo(() => (picture ? largest(picture) : 1), [picture, measure.value, range.value]);
  const totals = useMemo(() => picture && computeTotals(picture), [picture]);
  const plain = unit.value === "piece" && measure.value === "weights" && specials.value !== "renormalise"; // as in thumbnails
  const image = useThumbnail(trace, location, plain && picture === null);
  const dots = frame.cell * (globalThis.devicePixelRatio || 1); // below 1, each pixel is the maximum of several cells
  const [pixelRows, pixelColumns] = [Math.min(dots, 1) * queries.length, Math.min(dots, 1) * keys.length];
  const cells = useMemo(
    () => picture && toCanvas(paint(maxPool(picture.matrix, pixelRows, pixelColumns), ink(shade.value), tone(scale.value, max))),
    [picture, max, pixelRows, pixelColumns, shade.value, scale.value],
  );
  const drawGround: Draw = (g, colours) => {
    const cellsImage = cells ?? image;
    const dim = specials.value === "dim";
    drawMatrix(g, { frame, names: named, weights: picture, totals, tone: tone(scale.value, max), ramp: ink(shade.value), dim }, colours, () => {
      if (cellsImage) drawCells(g, cellsImage, frame);
    });
  };
  const drawBase = useMemo(
    () => drawGround,
    [picture, image, cells, totals, named, space, max, frame.cell, frame.x, frame.y, specials.value],
  );
  return (
    <section class="matrix-panel">
      {number !== null && (
        <h2 style={{ borderColor: headColours[number].colour }}>
          {number + 1} · {t(BLOCKS[location.block])} {headName(location)}
        </h2>
      )}
      {error && <p role="alert">{error}</p>}
      <Cells {...{ location, named, frame, width, drawBase, picture }} sides={sidesOf(trace, location)} height={space.height} />
    </section>
  );
}

/** The sides that a head shares with the focused head: only there do rows and columns refer to the same tokens. */
function sidesOf(trace: Trace, location: HeadLocation): Sides {
  const [panelBlock, focus] = [trace.block(location.block), trace.block(block.value)];
  return { rows: panelBlock.queries === focus.queries, columns: panelBlock.keys === focus.keys };
}

interface Sides {
  readonly rows: boolean;
  readonly columns: boolean;
}

interface CellsProps {
  readonly location: HeadLocation;
  readonly sides: Sides;
  readonly named: { readonly queries: readonly Label[]; readonly keys: readonly Label[] };
  readonly picture: Awaited<ReturnType<typeof displayWeights>> | null;
  readonly frame: Frame;
  readonly width: number;
  readonly height: number;
  readonly drawBase: Draw;
}

/** The grid: only this part is rendered again when the pointer moves. */
function Cells({ location, sides, named, picture, frame, width, height, drawBase }: CellsProps) {
  const { queries, keys } = named;
  const rowOf = (piece: number | null) => (sides.rows ? labelIndex(queries, piece) : -1);
  const columnOf = (piece: number | null) => (sides.columns ? labelIndex(keys, piece) : -1);
  const [row, column] = [rowOf(focusQuery.value), columnOf(focusKey.value)];
  const drag = useRef<{ readonly x: number; readonly y: number; moved: boolean } | null>(null);
  const locked = query.value !== null && row === rowOf(query.value) && column === columnOf(key.value);
  const cellText =
    row < 0 || column < 0 || !picture
      ? t({ ko: "선택 안 됨", en: "no cell" })
      : cellSentence(queries[row], keys[column], valueAt(picture.matrix, row, column));

  const drawOverlay: Draw = (g, colours) => {
    const [queryLocked, keyLocked] = [rowOf(query.value), columnOf(key.value)];
    if (queryLocked >= 0 || keyLocked >= 0) drawFocus(g, frame, queryLocked, keyLocked, true, colours);
    const hovered = hoverQuery.value !== null || hoverKey.value !== null;
    if (hovered) drawFocus(g, frame, rowOf(focusQuery.value), columnOf(focusKey.value), false, colours);
  };
  const pointAt = (row: number, column: number, keyboard: boolean) =>
    hoverOver(sides.rows ? queries[row].pieces[0] : null, sides.columns ? keys[column].pieces[0] : null, keyboard);
  const moveTo = (event: PointerEvent) => {
    const from = drag.current;
    if (from && zoom.value > 1 && (from.moved || Math.hypot(event.offsetX - from.x, event.offsetY - from.y) > 3)) {
      setViewport({ zoom: zoom.value, x: frame.x - event.movementX / frame.cell, y: frame.y - event.movementY / frame.cell });
      from.moved = true;
      return;
    }
    const cell = cellAt(frame, event.offsetX, event.offsetY);
    if (cell) pointAt(cell.row, cell.column, false);
    else hoverOver(null, null);
  };
  const release = (event: PointerEvent) => {
    const cell = drag.current?.moved ? null : cellAt(frame, event.offsetX, event.offsetY);
    drag.current = null;
    if (!cell) return;
    selectHead(location);
    toggleLock(queries[cell.row].pieces[0], keys[cell.column].pieces[0]);
  };
  const wheel = (event: WheelEvent) => {
    if (event.deltaY > 0 && zoom.value <= 1) return; // everything is visible: the page may scroll
    event.preventDefault();
    if (event.shiftKey) setViewport({ zoom: zoom.value, x: frame.x + event.deltaY / frame.cell, y: frame.y });
    else setViewport(zoomAt(frame, zoom.value, 2 ** (-event.deltaY / 300), event.offsetX, event.offsetY));
  };
  const press = (event: KeyboardEvent) => {
    const step = gridStep(event);
    const [x, y] = [frame.left + frame.width / 2, frame.top + frame.height / 2];
    if (step) {
      const to = [
        clampIndex(Math.max(row, 0) + (row < 0 ? 0 : step[0]), queries.length),
        clampIndex(Math.max(column, 0) + (column < 0 ? 0 : step[1]), keys.length),
      ];
      pointAt(to[0], to[1], true);
      if (zoom.value > 1) setViewport({ zoom: zoom.value, ...scrolledTo(frame, to[0], to[1]) });
    } else if (event.key === "Enter") toggleLock();
    else if (event.key === "+" || event.key === "=") setViewport(zoomAt(frame, zoom.value, 1.5, x, y));
    else if (event.key === "-") setViewport(zoomAt(frame, zoom.value, 1 / 1.5, x, y));
    else if (event.key === "0") setViewport({ zoom: 1, x: 0, y: 0 });
    else return;
    event.preventDefault();
  };
  return (
    <AccessibleGrid
      id={`matrix-${location.block}-${location.layer}-${location.head}`}
      dataRole="grid"
      label={t({
        ko: `가중치: 쿼리 ${queries.length}개, 키 ${keys.length}개`,
        en: `weights: ${queries.length} queries, ${keys.length} keys`,
      })}
      rows={queries.length}
      columns={keys.length}
      row={row}
      column={column}
      cellText={cellText}
      selected={locked}
      onKeyDown={press}
    >
      <div class="matrix-picture" style={{ width: `${width}px`, height: `${height}px` }}>
        <Canvas
          width={width}
          height={height}
          draw={drawBase}
          label=""
          data-role="cells"
          data-left={frame.left - frame.x * frame.cell}
          data-top={frame.top - frame.y * frame.cell}
          data-cell={frame.cell}
        />
        <Canvas
          width={width}
          height={height}
          draw={drawOverlay}
          label=""
          onPointerDown={(event) => {
            drag.current = { x: event.offsetX, y: event.offsetY, moved: false };
            event.currentTarget.setPointerCapture(event.pointerId);
          }}
          onPointerMove={moveTo}
          onPointerUp={release}
          onPointerLeave={() => hoverOver(null, null)}
          onWheel={wheel}
        />
        {zoom.value > 1 && <Minimap frame={frame} weights={picture} />}
      </div>
    </AccessibleGrid>
  );
}

const MINIMAP_SIZE = 96;

/** The whole matrix with its visible part; a click scrolls there. */
function Minimap({ frame, weights }: { readonly frame: Frame; readonly weights: CellsProps["picture"] }) {
  const size = MINIMAP_SIZE / Math.max(frame.rows, frame.columns);
  const image = useMemo(
    () => weights && toCanvas(paint(maxPool(weights.matrix, MINIMAP_SIZE, MINIMAP_SIZE), ink(shade.value), tone(scale.value))),
    [weights, shade.value, scale.value],
  );
  const go = (event: PointerEvent) => {
    if (!event.buttons) return;
    setViewport({
      zoom: zoom.value,
      x: event.offsetX / size - frame.width / frame.cell / 2,
      y: event.offsetY / size - frame.height / frame.cell / 2,
    });
  };
  return (
    <Canvas
      class="matrix-minimap"
      width={frame.columns * size}
      height={frame.rows * size}
      label={t({ ko: "전체에서 보이는 부분", en: "the visible part" })}
      onPointerDown={go}
      onPointerMove={go}
      draw={(g, colours) => {
        if (image) g.drawImage(image, 0, 0, frame.columns * size, frame.rows * size);
        g.strokeStyle = colours.focus;
        g.lineWidth = 2;
        g.strokeRect(
          frame.x * size,
          frame.y * size,
          (frame.width / frame.cell) * size,
          (frame.height / frame.cell) * size,
        );
      }}
    />
  );
}

/** The thumbnail of a head, shown until its weights are loaded. */
function useThumbnail(trace: Trace, location: HeadLocation, enabled: boolean): HTMLCanvasElement | null {
  const { value } = useAsync(
    async () =>
      enabled && trace.has(`${location.block}.thumbnails`) ? trace.thumbnails(location.block, location.sequence) : null,
    [trace, location, enabled],
  );
  if (!value || !enabled) return null;
  const [, heads, rows, columns] = value.shape;
  const from = (location.layer * heads + location.head) * rows * columns;
  return toCanvas(paintBytes(value.data.subarray(from, from + rows * columns), rows, columns, ink(shade.value)));
}

function cellSentence(query: Label, key: Label, weight: number): string {
  const [a, b] = [displayText(query.text), displayText(key.text)];
  return t({ ko: `쿼리 ${a}, 키 ${b}: ${weight.toFixed(4)}`, en: `query ${a}, key ${b}: ${weight.toFixed(4)}` });
}
