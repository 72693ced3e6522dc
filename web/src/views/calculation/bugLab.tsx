/** The bug lab: one typical implementation bug, the numbers without and with it, and its effect. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { shade } from "../../draw/palette";
import { useAsync } from "../../state/useAsync";
import { focusedHead } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { t } from "../../i18n/i18n";
import { valueAt } from "./arithmetic";
import { type Bug, type BugEffect, bugEffect } from "./bugs";
import { Heatmap } from "./heatmap";
import { colourScale } from "./paint";
import { type Cell, type CellSignal, focusedCell, hoveredCell, lockedCell } from "./cellFocus";
import { formatNumber } from "../../draw/numbers";

export function BugLab({ trace, bug }: { readonly trace: Trace; readonly bug: Bug }) {
  const { value, error } = useAsync(() => bugEffect(trace, focusedHead.value, bug.id), [trace, bug]);
  const localFocus = useSignal<Cell | null>(null);
  const localLock = useSignal<Cell | null>(null);
  const [focus, lock] = value?.columns ? [hoveredCell, lockedCell] : [localFocus, localLock];
  const at = shade.value;
  const colours = useMemo(() => {
    if (!value) return undefined;
    const data = [...Array.from(value.before.data), ...Array.from(value.after.data)];
    return colourScale({ rows: 1, columns: data.length, data }, at); // one scale for both
  }, [value, at]);
  const hidden = useMemo(() => (value?.hidden ? (i: number) => value.hidden?.[i] === 1 : undefined), [value]);
  if (error) return <p role="alert">{error}</p>;
  const versions = value && ([
    [{ ko: "정상", en: "correct" }, bug.correct, value.before, "good"],
    [{ ko: "버그", en: "bug" }, bug.wrong, value.after, "bad"],
  ] as const);
  return (
    <>
      <h2>{t(bug.title)}</h2>
      <p data-role="bug-effect">{value && t(value.description)}</p>
      {value && <FocusedPair effect={value} focus={focus} locked={lock} />}
      <div class="calculation-pair">
        {versions?.map(([title, code, numbers, kind]) => (
          <section key={kind}>
            <h3 class={`calculation-${kind}`}>
              {kind === "good" ? "✓" : "✗"} {t(title)}
            </h3>
            <pre>{code}</pre>
            <Heatmap label={t(title)} numbers={numbers} rows={value?.rows ?? []} columns={value?.columns} width={272} height={330} focus={focus} locked={lock} scale={colours} hidden={kind === "good" ? hidden : undefined} />
          </section>
        ))}
      </div>
    </>
  );
}

/** The focused number without and with the bug. */
function FocusedPair({ effect: { before, after, rows, columns }, focus, locked }: { readonly effect: BugEffect; readonly focus: CellSignal; readonly locked: CellSignal }) {
  const [r, c] = focusedCell(focus, locked, before.rows, before.columns) ?? [0, 0];
  return (
    <output class="calculation-sum">
      {`${rows[r]} → ${columns?.[c] ?? c}:  ✓ ${formatNumber(valueAt(before, r, c))}   ✗ ${formatNumber(valueAt(after, r, c))}`}
    </output>
  );
}
