/** A whole matrix as a heatmap: masked cells hatched, row and column of the focused cell framed. */

import { useCallback, useMemo } from "preact/hooks";
import { Canvas, type Draw } from "../../draw/canvas";
import { hatch, toCanvas } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { textWidth } from "../../draw/svg";
import type { Numbers } from "./arithmetic";
import { type ColourScale, colourScale, heatmapImage } from "./paint";
import { type Cell, type CellSignal, focusedCell, hoverCell, toggleCellLock } from "./cellFocus";

export interface HeatmapProps {
  readonly label: string;
  readonly numbers: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[] | undefined;
  readonly width: number;
  readonly height: number; // maximum
  readonly largest?: number; // pixels of a cell, at most
  readonly focus: CellSignal;
  readonly locked: CellSignal;
  readonly hidden?: ((index: number) => boolean) | undefined; // by index
  readonly scale?: ColourScale | undefined;
  /** The row and the column to mark for the focused cell of another matrix; hover is then disabled here. */
  readonly highlight?: (row: number, column: number) => { readonly row?: number; readonly column?: number };
}

const [MIN_LABELLED_CELL, SIDE, TOP, FLAT] = [11, 58, 46, 18];

export function Heatmap({ label, numbers, rows, columns, width, height, largest = 24, focus, locked, hidden, scale: givenScale, highlight }: HeatmapProps) {
  const [R, C] = [numbers.rows, numbers.columns];
  const named = rows.length > 0 && Math.min((height - (columns ? TOP : 0)) / R, largest) >= MIN_LABELLED_CELL;
  const left = named ? SIDE : 0;
  const cellWidth = Math.min((width - left) / C, largest);
  const isFlat = Boolean(columns?.every((name) => textWidth(name, 11) <= Math.min(cellWidth, (height - FLAT) / R) - 2)); // names in one line above the columns
  const top = named && columns && cellWidth >= MIN_LABELLED_CELL ? (isFlat ? FLAT : TOP) : 0;
  const square = columns ? Math.min(cellWidth, (height - top) / R) : 0; // queries and keys: square cells
  const [w, h] = columns ? [square, square] : [(width - left) / C, Math.min((height - top) / R, largest)];
  const at = shade.value;
  const picture = useMemo(() => {
    const visible = hidden ? { ...numbers, data: Float64Array.from(numbers.data, (value, i) => (hidden(i) ? Number.NaN : value)) } : numbers;
    return toCanvas(heatmapImage(visible, givenScale ?? colourScale(numbers, at)));
  }, [numbers, hidden, givenScale, at]);
  const draw = useCallback<Draw>(
    (g, colours) => {
      hatch(g, left, top, C * w, R * h, colours.hidden, 5);
      g.imageSmoothingEnabled = w < 1 || h < 1;
      g.drawImage(picture, left, top, C * w, R * h);
      g.font = `11px ${colours.font}`;
      g.textBaseline = "middle";
      const [r, c] = (highlight ? focus.value : focusedCell(focus, locked, R, C)) ?? [];
      const { row, column } = highlight && r !== undefined && c !== undefined ? highlight(r, c) : { row: r, column: c };
      const ink = (isFocused: boolean) => (g.fillStyle = isFocused ? colours.focus : colours.ink);
      if (left)
        for (let r = 0; r < R; r++) {
          if (!isNamed(r, row, h)) continue;
          ink(row === r);
          g.fillText(fitText(g, rows[r], SIDE - 6), 0, top + (r + 0.5) * h);
        }
      if (top)
        for (let c = 0; columns && c < C; c++) {
          if (!isNamed(c, column, w)) continue;
          ink(column === c);
          g.save();
          g.translate(left + (c + 0.5) * w, isFlat ? top / 2 : top - 3);
          g.textAlign = isFlat ? "center" : "start";
          if (!isFlat) g.rotate(-Math.PI / 2);
          g.fillText(fitText(g, columns[c], isFlat ? w : TOP - 4), 0, 0);
          g.restore();
        }
      g.strokeStyle = colours.line;
      g.strokeRect(left + 0.5, top + 0.5, C * w - 1, R * h - 1);
      g.strokeStyle = colours.focus;
      g.lineWidth = 1.5;
      if (row !== undefined) g.strokeRect(left, top + row * h, C * w, h);
      if (column !== undefined) g.strokeRect(left + column * w, top, w, R * h);
    },
    [picture, rows, columns, w, h, isFlat, focus, locked, highlight],
  );
  const cellUnder = (event: MouseEvent): Cell | null => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const [r, c] = [Math.floor((event.clientY - box.top - top) / h), Math.floor((event.clientX - box.left - left) / w)];
    return r >= 0 && r < R && c >= 0 && c < C ? [r, c] : null;
  };
  return (
    <Canvas
      width={left + C * w}
      height={top + R * h}
      draw={draw}
      label={label}
      {...(highlight
        ? {}
        : {
            onMouseMove: (event: MouseEvent) => hoverCell(focus, cellUnder(event)),
            onMouseLeave: () => hoverCell(focus, null),
            onClick: (event: MouseEvent) => toggleCellLock(locked, cellUnder(event)),
          })}
    />
  );
}

/** Truncates a text to a width. */
function fitText(g: CanvasRenderingContext2D, text: string, maxWidth: number): string {
  if (g.measureText(text).width <= maxWidth) return text;
  let end = text.length;
  while (end > 1 && g.measureText(`${text.slice(0, end)}…`).width > maxWidth) end--;
  return `${text.slice(0, end)}…`;
}

/** Whether a row or column of this size has its name: as many as fit, and the focused one. */
function isNamed(at: number, focused: number | undefined, size: number): boolean {
  const every = Math.ceil(11 / size);
  return at === focused || (at % every === 0 && (focused === undefined || focused < 0 || Math.abs(at - focused) >= every));
}
