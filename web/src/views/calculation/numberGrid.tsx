/** Numbers in cells, as many as the eye can see: rows and columns beyond are made when they are scrolled to. */

import { computed, useSignal } from "@preact/signals";
import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { shade } from "../../draw/palette";
import { gridStep } from "../../shell/accessibleGrid";
import { cell as at, type Numbers } from "./arithmetic";
import "./numberGrid.css";
import { colouring, ground } from "./paint";
import { type Cell, focusOf, hover, type Spot, toggle } from "./cellFocus";
import { number } from "./formatSum";

export interface GridProps {
  readonly label: string;
  readonly numbers: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[] | undefined; // numbered without
  readonly text?: ((row: number, column: number) => string) | undefined;
  /** Pointed at, and locked. */
  readonly focus: Spot;
  readonly locked: Spot;
  readonly plain?: boolean; // without colours
  readonly hidden?: (row: number, column: number) => boolean; // hatched
}

const [HEIGHT, SIDE] = [22, 76];

export function Grid(props: GridProps) {
  const { label, numbers, rows, columns, focus, locked, plain, hidden } = props;
  const width = useMemo(() => (plain ? 60 : widthOf(numbers)), [numbers, plain]);
  const text = props.text ?? ((r: number, c: number) => number(at(numbers, r, c)));
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const seen = useSignal({ top: 0, bottom: 24, left: 0, right: 14 });
  const look = () => {
    const { scrollTop, scrollLeft, clientWidth, clientHeight } = box.current as HTMLDivElement;
    const top = Math.max(0, Math.floor(scrollTop / HEIGHT) - 1);
    const left = Math.max(0, Math.floor(scrollLeft / width) - 1);
    const bottom = Math.min(numbers.rows, top + Math.ceil(clientHeight / HEIGHT) + 2);
    const right = Math.min(numbers.columns, left + Math.ceil((clientWidth - SIDE) / width) + 3);
    const now = seen.peek();
    if (top !== now.top || left !== now.left || bottom !== now.bottom || right !== now.right) seen.value = { top, left, bottom, right };
  };
  useLayoutEffect(() => {
    look();
    const watch = new ResizeObserver(look);
    watch.observe(box.current as HTMLDivElement);
    return () => watch.disconnect();
  }, [numbers, width]);

  const colours = plain ? null : colouring(numbers, shade.value);
  const under = (event: MouseEvent): Cell | null => {
    const found = (event.target as HTMLElement).closest<HTMLElement>("[data-at]")?.dataset.at?.split(".").map(Number);
    return found ? [found[0], found[1]] : null;
  };
  const press = (event: KeyboardEvent) => {
    const [r, c] = focus.value ?? locked.value ?? [0, 0];
    if (event.key === "Enter") toggle(locked, [r, c]);
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
    frame.scrollTop = Math.min(to[0] * HEIGHT, Math.max(frame.scrollTop, (to[0] + 2) * HEIGHT - frame.clientHeight));
    frame.scrollLeft = Math.min(to[1] * width, Math.max(frame.scrollLeft, SIDE + (to[1] + 1) * width - frame.clientWidth));
  };

  const { top, bottom, left, right } = seen.value;
  const range = (from: number, to: number) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  const across = range(left, Math.min(right, numbers.columns));
  const active = useMemo(
    () =>
      computed(() => {
        const chosen = focusOf(focus, locked, numbers.rows, numbers.columns);
        return chosen ? `${id}-${chosen[0]}-${chosen[1]}` : undefined;
      }),
    [numbers, focus, locked],
  );
  return (
    <div class="calculation-grid" ref={box} onScroll={look}>
      <div
        class="calculation-all"
        role="grid"
        tabIndex={0}
        aria-label={label}
        aria-rowcount={numbers.rows + 1}
        aria-colcount={numbers.columns + 1}
        aria-activedescendant={active}
        style={{ width: SIDE + width * numbers.columns, height: HEIGHT * (numbers.rows + 1) }}
        onMouseMove={(event) => hover(focus, under(event))}
        onMouseLeave={() => hover(focus, null)}
        onClick={(event) => toggle(locked, under(event))}
        onKeyDown={press}
      >
        <div class="calculation-across" role="row" aria-rowindex={1}>
          <span class="calculation-corner" role="columnheader">
            {label}
          </span>
          {across.map((c) => (
            <span key={c} role="columnheader" aria-colindex={c + 2} style={{ left: SIDE + c * width, width }}>
              {columns ? columns[c] : c}
            </span>
          ))}
        </div>
        {range(top, Math.min(bottom, numbers.rows)).map((r) => (
          <div key={r} class="calculation-row" role="row" aria-rowindex={r + 2} style={{ top: (r + 1) * HEIGHT }}>
            <span class="calculation-side" role="rowheader">
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
                style={{ left: SIDE + c * width, width, backgroundColor: colours ? ground(colours, at(numbers, r, c)) : undefined }}
              >
                {text(r, c)}
              </span>
            ))}
          </div>
        ))}
        <Bands {...props} width={width} />
      </div>
    </div>
  );
}

/** A column as wide as its longest number of four decimals. */
function widthOf({ data }: Numbers): number {
  let most = 1;
  for (let i = 0; i < data.length; i++) if (Number.isFinite(data[i])) most = Math.max(most, Math.abs(data[i]));
  return 56 + 8 * Math.floor(Math.log10(most));
}

/** The row and the column of the cell in focus. */
function Bands({ numbers, focus, locked, width }: GridProps & { readonly width: number }) {
  const chosen = focusOf(focus, locked, numbers.rows, numbers.columns);
  if (!chosen) return null;
  return (
    <>
      <i class="calculation-band" style={{ top: (chosen[0] + 1) * HEIGHT, left: 0, right: 0, height: HEIGHT }} />
      <i class="calculation-band" style={{ left: SIDE + chosen[1] * width, top: 0, bottom: 0, width }} />
    </>
  );
}
