/** The fault lab: one slip of the notes, the numbers before and after it, and what goes wrong. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { shade } from "../../draw/palette";
import { useAsync } from "../../state/useAsync";
import { focusedHead } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { t } from "../../i18n/i18n";
import { cell } from "./arithmetic";
import { type Damage, damage, type Fault } from "./bugs";
import { Heat } from "./heatmap";
import { colouring } from "./paint";
import { type Cell, focusOf, hovered, locked, type Spot } from "./cellFocus";
import { number } from "./formatSum";

export function Lab({ trace, fault }: { readonly trace: Trace; readonly fault: Fault }) {
  const { value, error } = useAsync(() => damage(trace, focusedHead.value, fault.id), [trace, fault]);
  const own = useSignal<Cell | null>(null);
  const kept = useSignal<Cell | null>(null);
  const [focus, lock] = value?.columns ? [hovered, locked] : [own, kept];
  const at = shade.value;
  const colours = useMemo(() => {
    if (!value) return undefined;
    const data = [...Array.from(value.before.data), ...Array.from(value.after.data)];
    return colouring({ rows: 1, columns: data.length, data }, at); // one scale for both
  }, [value, at]);
  const hidden = useMemo(() => (value?.hidden ? (i: number) => value.hidden?.[i] === 1 : undefined), [value]);
  if (error) return <p role="alert">{error}</p>;
  const sides = value && ([
    [{ ko: "바르게", en: "right" }, fault.right, value.before, "good"],
    [{ ko: "실수", en: "slip" }, fault.wrong, value.after, "bad"],
  ] as const);
  return (
    <>
      <h2>{t(fault.title)}</h2>
      <p data-role="damage">{value && t(value.said)}</p>
      {value && <Pair damage={value} focus={focus} locked={lock} />}
      <div class="calculation-pair">
        {sides?.map(([title, code, numbers, kind]) => (
          <section key={kind}>
            <h3 class={`calculation-${kind}`}>
              {kind === "good" ? "✓" : "✗"} {t(title)}
            </h3>
            <pre>{code}</pre>
            <Heat label={t(title)} numbers={numbers} rows={value?.rows ?? []} columns={value?.columns} width={272} height={330} focus={focus} locked={lock} colours={colours} hidden={kind === "good" ? hidden : undefined} />
          </section>
        ))}
      </div>
    </>
  );
}

/** The number in focus before and after. */
function Pair({ damage: { before, after, rows, columns }, focus, locked }: { readonly damage: Damage; readonly focus: Spot; readonly locked: Spot }) {
  const [r, c] = focusOf(focus, locked, before.rows, before.columns) ?? [0, 0];
  return (
    <output class="calculation-sum">
      {`${rows[r]} → ${columns?.[c] ?? c}:  ✓ ${number(cell(before, r, c))}   ✗ ${number(cell(after, r, c))}`}
    </output>
  );
}
