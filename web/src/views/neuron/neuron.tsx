/** Inside a head: how a query's vector and each key's make a weight, number by number, computed again in the page. */

import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { shade } from "../../draw/palette";
import { PAGE_COLOURS } from "../../draw/svg";
import { useAsync } from "../../state/useAsync";
import { focusKey, focusQuery, key, unit } from "../../state/state";
import { t } from "../../i18n/i18n";
import { neuron as about } from "../viewInfo";
import { Choice, Toggle } from "../choice";
import type { Drawn, StageProps } from "../view";
import { useWidth } from "../width";
import { columnsOf, rangesOf } from "./drawing";
import { asking, type Held, held, pairs, sort, SORTS } from "./headData";
import { Keys } from "./keys";
import "./neuron.css";
import { difference } from "./format";
import { Pair } from "./pair";
import { svg, table } from "./picture";

export const neuron: Drawn = { Stage: Neuron, svg, table };

function Neuron({ trace }: StageProps) {
  const { value, error } = useAsync(async () => ({ head: await held(trace) }), [trace]);
  if (!value) return <p role={error ? "alert" : undefined}>{error ?? "…"}</p>;
  return value.head ? <Head held={value.head} /> : <p>{t(about.why)}</p>;
}

function Head({ held }: { held: Held }) {
  const [box, width] = useWidth(760);
  const asked = useComputed(() => asking(held, { query: focusQuery.value, key: focusKey.value, locked: key.value }));
  const question = useComputed(() => asked.value.question).value;
  const columns = useMemo(() => columnsOf(width - 14, held), [width, held]);
  const ranges = useMemo(() => rangesOf(held, question), [held, question]);
  const drawing = { held, question, ranges, columns, shade: shade.value, inks: PAGE_COLOURS };
  return (
    <div class="neuron" ref={box}>
      <div class="choices">
        <span class="choice">
          {t({ ko: "질의", en: "query" })} {question.query} <b>{held.queries[question.query]}</b>
        </span>
        <Choice title={{ ko: "차원", en: "dimensions" }} of={sort} options={SORTS} />
        {held.rotary && (
          <Toggle title={{ ko: "함께 도는 쌍끼리 (i, i + K/2)", en: "rotary pairs (i, i + K/2)" }} of={pairs} />
        )}
      </div>
      <Keys drawing={drawing} asked={asked} />
      <Pair drawing={drawing} asked={asked} />
      <p>{checked(held, question)}</p>
    </div>
  );
}

/** How many weights came out as recorded, and what is special about this head. */
function checked({ block, parts, rotary, tolerance }: Held, { row, recorded }: ReturnType<typeof asking>["question"]) {
  const apart = row.weights.map((weight, at) => Math.abs(weight - recorded[at]));
  const right = apart.filter((one) => one <= tolerance).length;
  const worst = difference(Math.max(...apart));
  const all = right === apart.length;
  const shared = block.heads / block.key_heads;
  return (
    <>
      <b class={all ? "neuron-right" : "neuron-wrong"}>
        {all ? "✓ " : "✗ "}
        {t({
          ko: `다시 계산한 가중치 ${apart.length}개 가운데 ${right}개가 기록과 같음 (가장 큰 |Δ| ${worst})`,
          en: `${right} of ${apart.length} weights computed again agree with the trace (largest |Δ| ${worst})`,
        })}
      </b>
      <small>
        {t({ ko: " 보라 − · 주황 +", en: " purple − · orange +" })}
        {parts.muted && t({ ko: " · 꺼진 머리", en: " · a muted head" })}
        {shared > 1 && t({ ko: ` · 머리 ${shared}개가 k 하나를 같이 씀`, en: ` · ${shared} heads share one k` })}
        {rotary && t({ ko: " · q와 k는 위치만큼 돌린 뒤", en: " · q and k as turned by their positions" })}
        {unit.value !== "piece" && t({ ko: " · 묶지 않고 조각마다", en: " · by piece, not merged" })}
      </small>
    </>
  );
}
