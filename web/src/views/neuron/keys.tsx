/** The keys as a scrolling listbox for pointer and keyboard; only rows near the viewport are drawn. */

import { type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { hoverOver, toggleLock } from "../../state/actions";
import { key as lockedKey, query as lockedQuery } from "../../state/state";
import { t } from "../../i18n/i18n";
import { queryBody, type QueryColumn, queryHead, queryLines } from "./queries";
import { HEAD, type HeadDrawing, tableBody, tableHead } from "./drawing";
import type { Selection } from "./headData";
import { formatShort } from "./format";
import { shown } from "./picture";

interface KeysProps {
  readonly drawing: HeadDrawing;
  readonly queryColumn: QueryColumn;
  readonly selection: ReadonlySignal<Selection>;
}

export function KeyList({ drawing, queryColumn, selection }: KeysProps) {
  const { data, queryRow, columns, row: ROW } = drawing;
  const { query, recorded } = queryRow;
  const scroller = useRef<HTMLDivElement>(null);
  const height = useSignal(320);
  const band = useSignal(0); // rows cover two viewport heights from there
  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const observer = new ResizeObserver(() => (height.value = box.clientHeight || 320));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  const count = data.keys.length;
  const from = Math.min(count, Math.floor((band.value * height.value) / ROW));
  const to = Math.min(count, from + Math.ceil((2 * height.value) / ROW) + 1);
  const rows = Array.from({ length: to - from }, (_, i) => from + i);
  const queryRows = Array.from({ length: Math.max(0, Math.min(data.queries.length, from + Math.ceil((2 * height.value) / ROW) + 1) - from) }, (_, i) => from + i);
  const left = queryColumn.width;
  const active = useComputed(() => `neuron-key-${selection.value.key}`);

  const moveKey = (by: number) => {
    const at = Math.max(0, Math.min(count - 1, selection.peek().key + by));
    const box = scroller.current;
    if (box && (at * ROW < box.scrollTop || (at + 1) * ROW > box.scrollTop + height.value))
      box.scrollTop = at * ROW - height.value / 2;
    hoverOver(query, at, true);
  };
  const moveQuery = (by: number) => {
    hoverOver(null, null, true);
    lockedQuery.value = Math.max(0, Math.min(data.queries.length - 1, query + by));
  };
  const moves: Readonly<Record<string, () => void>> = {
    ArrowUp: () => moveKey(-1),
    ArrowDown: () => moveKey(1),
    Home: () => moveKey(-count),
    End: () => moveKey(count),
    ArrowLeft: () => moveQuery(-1),
    ArrowRight: () => moveQuery(1),
    Enter: () => toggleLock(query, selection.peek().key),
  };
  /** The query or the key under the pointer; between the columns, where lines are, the chosen query stays. */
  const under = (event: MouseEvent): readonly [query: number, key: number | null] => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const [x, row] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / ROW)];
    const [first, width] = queryColumn.strip;
    if (x < first + width) return [Math.max(0, Math.min(data.queries.length - 1, row)), null];
    return [query, x < left ? null : Math.max(0, Math.min(count - 1, row))];
  };
  return (
    <div class="neuron-across">
      <svg width={left + columns.total} height={HEAD} aria-hidden="true">
        {queryHead(drawing, queryColumn)}
        <g transform={`translate(${left} 0)`}>{tableHead(drawing)}</g>
      </svg>
      <div
        class="neuron-scroll"
        ref={scroller}
        style={{ width: `${left + columns.total + 14}px` }}
        onScroll={({ currentTarget }) => {
          shown.first = Math.floor(currentTarget.scrollTop / ROW);
          band.value = Math.floor(currentTarget.scrollTop / height.value);
        }}
      >
        <div
          class="neuron-keys"
          role="listbox"
          tabIndex={0}
          aria-label={t({ ko: "키", en: "keys" })}
          aria-activedescendant={active}
          style={{ height: `${Math.max(count, data.queries.length) * ROW}px` }}
          onPointerMove={(event) => hoverOver(...under(event))}
          onPointerLeave={() => hoverOver(null, null)}
          onBlur={() => hoverOver(null, null)}
          onClick={(event) => toggleLock(...under(event))}
          onKeyDown={(event) => {
            const move = moves[event.key];
            if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
            event.preventDefault();
            event.stopPropagation();
            move();
          }}
        >
          <FocusMark selection={selection} left={left} row={ROW} />
          {rows.map((at) => (
            <div
              key={at}
              id={`neuron-key-${at}`}
              role="option"
              aria-selected={at === lockedKey.value}
              aria-setsize={count}
              aria-posinset={at + 1}
              aria-label={`${data.keys[at]} ${formatShort(recorded[at], 4)}`}
              title={data.keys[at]}
              style={{ top: `${at * ROW}px`, left: `${left}px`, height: `${ROW}px` }}
            />
          ))}
          <svg style={{ top: `${from * ROW}px` }} width={left + columns.total} height={Math.max(rows.length, queryRows.length) * ROW} aria-hidden="true">
            {queryBody(drawing, queryColumn, queryRows)}
            {queryLines(drawing, queryColumn, (query - from + 0.5) * ROW, rows, (key) => (key - from + 0.5) * ROW, drawing.colours)}
            <g transform={`translate(${left} 0)`}>{tableBody(drawing, rows)}</g>
          </svg>
        </div>
      </div>
    </div>
  );
}

/** The background of the focused key, and a bar next to the locked one. */
function FocusMark({ selection, left, row }: { selection: ReadonlySignal<Selection>; left: number; row: number }) {
  const { key, locked } = selection.value;
  return (
    <>
      <div class="neuron-mark" style={{ top: `${key * row}px`, left: `${left}px`, height: `${row}px` }} />
      {locked !== null && <div class="neuron-locked" style={{ top: `${locked * row}px`, left: `${left}px`, height: `${row}px` }} />}
    </>
  );
}
