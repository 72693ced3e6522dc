/** An ARIA grid of any size for keyboard and screen readers: canvases inside, and the focused cell as text. */

import type { ComponentChildren } from "preact";

interface GridProps {
  readonly id: string;
  readonly label: string;
  readonly rows: number;
  readonly columns: number;
  /** The focused cell; -1: none. */
  readonly row: number;
  readonly column: number;
  /** The text of the focused cell. */
  readonly cellText: string;
  readonly selected: boolean;
  readonly onKeyDown: (event: KeyboardEvent) => void;
  readonly children: ComponentChildren;
  readonly dataRole?: string; // for tests
}

export function AccessibleGrid({ id, label, rows, columns, row, column, cellText, selected, onKeyDown, children, dataRole }: GridProps) {
  return (
    <div
      class="grid"
      role="grid"
      data-role={dataRole}
      tabIndex={0}
      aria-label={label}
      aria-rowcount={rows}
      aria-colcount={columns}
      aria-activedescendant={`${id}-cell`}
      onKeyDown={onKeyDown}
    >
      <div role="row" aria-rowindex={Math.max(row, 0) + 1} class="visually-hidden">
        <div role="gridcell" id={`${id}-cell`} aria-colindex={Math.max(column, 0) + 1} aria-selected={selected}>
          {cellText}
        </div>
      </div>
      {children}
    </div>
  );
}

const STEPS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-10, 0],
  PageDown: [10, 0],
  Home: [0, -1e6],
  End: [0, 1e6],
};

/** The (down, right) step of a key in a grid; null: not a grid key. */
export function gridStep(event: KeyboardEvent): readonly [number, number] | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  return Object.hasOwn(STEPS, event.key) ? STEPS[event.key] : null;
}
