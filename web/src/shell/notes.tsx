/** The note bar: what was done to the numbers before they were drawn, how exact they are, what the trace leaves out. */

import { drawnShare } from "../state/drawn";
import { useLoaded } from "../state/loaded";
import { nameOf } from "../state/open";
import { measure, place, specials, unit } from "../state/state";
import { shown } from "../trace/shown";
import type { Trace } from "../trace/trace";
import { say } from "../words/words";

export function Notes({ trace }: { readonly trace: Trace }) {
  const plain = unit.value === "piece" && specials.value !== "renormalise" && measure.value === "weights";
  const { value } = useLoaded(async () => (plain ? null : shown(trace, place.value)), [trace, plain]);
  const said = [exactness(trace)];
  if (trace.info.muted.some(([block, layer, head]) => nameOf({ block, layer, head }) === nameOf(place.value)))
    said.unshift(say({ ko: "꺼진 머리", en: "this head is muted" }));
  if (drawnShare.value !== null)
    said.unshift(say({ ko: `그려진 몫 ${share()} %`, en: `${share()} % of the mass drawn` }));
  if (!plain && value?.note) said.push(say(value.note));
  else if (plain) said.push(say({ ko: "다시 나누지 않음", en: "not renormalised" }));
  return (
    <div class="notes" data-role="notes">
      <span>{said.join(" · ")}</span>
      {trace.info.notes.length > 0 && (
        <details>
          <summary>
            {say({
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

function share(): string {
  return (100 * (drawnShare.value ?? 0)).toFixed(0);
}

function exactness(trace: Trace): string {
  if (!trace.exact(place.value)) return say({ ko: `축소 그림에서 읽음 (±${trace.within})`, en: `read off thumbnails (±${trace.within})` });
  const name = `${place.value.block}.${place.value.layer}.weights`;
  return trace.dtype(name) === "F16" ? "float16" : "float32";
}
