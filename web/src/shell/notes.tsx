/** The note bar: what was done to the numbers before they were drawn, how exact they are, what the trace leaves out. */

import { drawnFraction } from "../state/coverage";
import { useAsync } from "../state/useAsync";
import { headKey } from "../state/session";
import { measure, focusedHead, specials, unit } from "../state/state";
import { displayWeights } from "../trace/display";
import type { Trace } from "../trace/trace";
import { t } from "../i18n/i18n";

export function NoteBar({ trace }: { readonly trace: Trace }) {
  const plain = unit.value === "piece" && specials.value !== "renormalise" && measure.value === "weights";
  const { value } = useAsync(async () => (plain ? null : displayWeights(trace, focusedHead.value)), [trace, plain]);
  const notes = [exactness(trace)];
  if (trace.info.muted.some(([block, layer, head]) => headKey({ block, layer, head }) === headKey(focusedHead.value)))
    notes.unshift(t({ ko: "꺼진 머리", en: "this head is muted" }));
  if (drawnFraction.value !== null)
    notes.unshift(t({ ko: `그려진 몫 ${fraction()} %`, en: `${fraction()} % of the mass drawn` }));
  if (!plain && value?.note) notes.push(t(value.note));
  else if (plain) notes.push(t({ ko: "다시 나누지 않음", en: "not renormalised" }));
  return (
    <div class="notes" data-role="notes">
      <span>{notes.join(" · ")}</span>
      {trace.info.notes.length > 0 && (
        <details>
          <summary>
            {t({
              ko: `이 기록에 대하여 (${trace.info.notes.length})`,
              en: `about this trace (${trace.info.notes.length})`,
            })}
          </summary>
          <ul>
            {trace.info.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

function fraction(): string {
  return (100 * (drawnFraction.value ?? 0)).toFixed(0);
}

function exactness(trace: Trace): string {
  if (!trace.hasExactWeights(focusedHead.value)) return t({ ko: `축소 그림에서 읽음 (±${trace.thumbnailError})`, en: `read off thumbnails (±${trace.thumbnailError})` });
  const name = `${focusedHead.value.block}.${focusedHead.value.layer}.weights`;
  return trace.dtype(name) === "F16" ? "float16" : "float32";
}
