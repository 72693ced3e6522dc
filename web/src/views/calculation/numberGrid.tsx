/** A grid of numbers; only the visible rows and columns are rendered. */

import { computed, useSignal } from "@preact/signals";
import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { shade } from "../../draw/palette";
import { gridStep } from "../../shell/accessibleGrid";
import { type Numbers, valueAt as at } from "./arithmetic";
import { cellBackground, colourScale } from "./paint";
import { type Cell, type CellSignal, focusedCell, hoverCell, toggleCellLock } from "./cellFocus";
import { formatNumber } from "../../draw/numbers";

export interface NumberGridProps {
  readonly label: string;
  readonly numbers: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[] | undefined; // default: numbered
  readonly text?: ((row: number, column: number) => string) | undefined;
  /** The hovered and the locked cell. */
  readonly focus: CellSignal;
  readonly locked: CellSignal;
  readonly plain?: boolean; // without colours
  readonly hidden?: (row: number, column: number) => boolean; // masked
  readonly reveal?: number | undefined; // a column to scroll to, if not all of them fit
}

const [ROW_HEIGHT, HEADER_WIDTH] = [22, 76];

export function NumberGrid(props: NumberGridProps) {
  const { label, numbers, rows, columns, focus, locked, plain, hidden, reveal } = props;
  const available = useSignal(Number.POSITIVE_INFINITY); // pixels
  const frame = useSignal(FRAME);
  const { width, decimals } = fitColumns(numbers, plain ?? false, available.value);
  const text = props.text ?? ((r: number, c: number) => formatNumber(at(numbers, r, c), decimals));
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const visibleRange = useSignal({ top: 0, bottom: 24, left: 0, right: 14 });
  const updateRange = () => {
    if (!box.current) return; // a scroll event may follow the removal of the grid
    available.value = spaceFor(box.current);
    const { scrollTop, scrollLeft, clientWidth, clientHeight, offsetWidth } = box.current;
    frame.value = offsetWidth - clientWidth;
    const top = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - 1);
    const left = Math.max(0, Math.floor(scrollLeft / width) - 1);
    const bottom = Math.min(numbers.rows, top + Math.ceil(clientHeight / ROW_HEIGHT) + 2);
    const right = Math.min(numbers.columns, left + Math.ceil((clientWidth - HEADER_WIDTH) / width) + 3);
    const current = visibleRange.peek();
    if (top !== current.top || left !== current.left || bottom !== current.bottom || right !== current.right) visibleRange.value = { top, left, bottom, right };
  };
  useLayoutEffect(() => {
    updateRange();
    const observer = new ResizeObserver(updateRange);
    observer.observe(box.current as HTMLDivElement);
    observer.observe((box.current as HTMLDivElement).parentElement as HTMLElement);
    const column = reveal ?? -1; // the columns that the step is about
    const frame = box.current as HTMLDivElement;
    if (column >= 0) frame.scrollLeft = Math.max(0, HEADER_WIDTH + (column + 1) * width - frame.clientWidth);
    return () => observer.disconnect();
  }, [numbers, width]);

  const colours = plain ? null : colourScale(numbers, shade.value);
  const cellUnder = (event: MouseEvent): Cell | null => {
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-at]")?.dataset.at?.split(".").map(Number);
    return found ? [found[0], found[1]] : null;
  };
  const press = (event: KeyboardEvent) => {
    const [r, c] = focus.value ?? locked.value ?? [0, 0];
    if (event.key === "Enter") toggleCellLock(locked, [r, c]);
    const move = gridStep(event);
    if (event.key !== "Enter" && !move) return;
    event.preventDefault();
    event.stopPropagation();
    if (!move) return;
    const to: Cell = [
      Math.min(numbers.rows - 1, Math.max(0, r + move[0])),
      Math.min(numbers.columns - 1, Math.max(0, c + move[1])),
    ];
    focus.value = to;
    const frame = box.current as HTMLDivElement;
    frame.scrollTop = Math.min(to[0] * ROW_HEIGHT, Math.max(frame.scrollTop, (to[0] + 2) * ROW_HEIGHT - frame.clientHeight));
    frame.scrollLeft = Math.min(to[1] * width, Math.max(frame.scrollLeft, HEADER_WIDTH + (to[1] + 1) * width - frame.clientWidth));
  };

  const { top, bottom, left, right } = visibleRange.value;
  const range = (from: number, to: number) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  const across = range(left, Math.min(right, numbers.columns));
  const active = useMemo(
    () =>
      computed(() => {
        const chosen = focusedCell(focus, locked, numbers.rows, numbers.columns);
        return chosen ? `${id}-${chosen[0]}-${chosen[1]}` : undefined;
      }),
    [numbers, focus, locked],
  );
  return (
    <div class="calculation-grid" ref={box} onScroll={updateRange} style={{ maxWidth: wholeColumns(available.value, width, numbers.columns, frame.value) }}>
      <div
        class="calculation-cells"
        role="grid"
        tabIndex={0}
        aria-label={label}
        aria-rowcount={numbers.rows + 1}
        aria-colcount={numbers.columns + 1}
        aria-activedescendant={active}
        style={{ width: HEADER_WIDTH + width * numbers.columns, height: ROW_HEIGHT * (numbers.rows + 1) }}
        onMouseMove={(event) => hoverCell(focus, cellUnder(event))}
        onMouseLeave={() => hoverCell(focus, null)}
        onClick={(event) => toggleCellLock(locked, cellUnder(event))}
        onKeyDown={press}
      >
        <div class="calculation-columns" role="row" aria-rowindex={1}>
          <span class="calculation-corner" role="columnheader">
            {label}
          </span>
          {across.map((c) => (
            <span key={c} role="columnheader" aria-colindex={c + 2} style={{ left: HEADER_WIDTH + c * width, width }}>
              {columns ? columns[c] : c}
            </span>
          ))}
        </div>
        {range(top, Math.min(bottom, numbers.rows)).map((r) => (
          <div key={r} class="calculation-row" role="row" aria-rowindex={r + 2} style={{ top: (r + 1) * ROW_HEIGHT }}>
            <span class="calculation-row-name" role="rowheader">
              {rows[r] ?? r}
            </span>
            {across.map((c) => (
              <span
                key={c}
                id={`${id}-${r}-${c}`}
                data-at={`${r}.${c}`}
                role="gridcell"
                aria-colindex={c + 2}
                class={hidden?.(r, c) ? "calculation-cell calculation-hidden" : "calculation-cell"}
                style={{ left: HEADER_WIDTH + c * width, width, backgroundColor: colours ? cellBackground(colours, at(numbers, r, c)) : undefined }}
              >
                {text(r, c)}
              </span>
            ))}
          </div>
        ))}
        <FocusBands {...props} width={width} />
      </div>
    </div>
  );
}

const FRAME = 18; // borders and a scroll bar, at most

/** The pixels that the grid may use in its row. */
function spaceFor(box: HTMLElement): number {
  const parent = box.parentElement as HTMLElement;
  const style = getComputedStyle(parent);
  if (style.display !== "flex") return parent.clientWidth;
  const others = [...parent.children].filter((child) => child !== box);
  return others.reduce((space, child) => space - child.getBoundingClientRect().width - (Number.parseFloat(style.columnGap) || 0), parent.clientWidth);
}

/** The width that ends between two columns, so that no number is cut off. */
function wholeColumns(space: number, width: number, columns: number, frame: number): string | undefined {
  if (!Number.isFinite(space)) return undefined;
  const whole = Math.max(1, Math.min(columns, Math.floor((space - HEADER_WIDTH - FRAME) / width)));
  return `${HEADER_WIDTH + whole * width + frame}px`;
}

/** The column width and the decimals: fewer of them if all columns fit then. */
function fitColumns({ data, columns }: Numbers, plain: boolean, space: number): { width: number; decimals: number } {
  if (plain) return { width: [60, 52].find((width) => HEADER_WIDTH + FRAME + columns * width <= space) ?? 44, decimals: 4 };
  let max = 1;
  for (let i = 0; i < data.length; i++) if (Number.isFinite(data[i])) max = Math.max(max, Math.abs(data[i]));
  const widest = 56 + 8 * Math.floor(Math.log10(max));
  const width = (decimals: number) => widest - 7 * (4 - decimals); // a digit has 7.2 pixels: −1.23 is not cut off
  const decimals = [4, 3, 2].find((decimals) => HEADER_WIDTH + FRAME + columns * width(decimals) <= space) ?? 4;
  return { width: width(decimals), decimals };
}

/** The row and the column of the focused cell. */
function FocusBands({ numbers, focus, locked, width }: NumberGridProps & { readonly width: number }) {
  const chosen = focusedCell(focus, locked, numbers.rows, numbers.columns);
  if (!chosen) return null;
  return (
    <>
      <i class="calculation-band" style={{ top: (chosen[0] + 1) * ROW_HEIGHT, left: 0, right: 0, height: ROW_HEIGHT }} />
      <i class="calculation-band" style={{ left: HEADER_WIDTH + chosen[1] * width, top: 0, bottom: 0, width }} />
    </>
  );
}
