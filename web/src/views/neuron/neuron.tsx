/** The neuron view: the weight of a query and each key, number by number, recomputed in the page. */

import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { shade } from "../../draw/palette";
import { PAGE_COLOURS } from "../../draw/svg";
import { useAsync } from "../../state/useAsync";
import { focusKey, focusQuery, key, unit } from "../../state/state";
import { t } from "../../i18n/i18n";
import { neuron as about } from "../viewInfo";
import { formatDifference } from "../calculation/formatSum";
import { Choice, Toggle } from "../choice";
import type { StageProps, ViewRenderer } from "../view";
import { useRoom } from "../width";
import { columnsOf, rangesOf, rowHeight } from "./drawing";
import { type HeadData, loadHead, pairs, select, sort, SORTS } from "./headData";
import { KeyList } from "./keys";
import "./neuron.css";
import { queryColumnOf } from "./queries";
import { Pair } from "./pair";
import { shown, svg, table } from "./picture";

const [AROUND, AROUND_NARROW] = [280, 400]; // pixels of the stage without the rows and the plot of the pair
const [MIN_PLOT, MAX_PLOT] = [54, 150];

export const neuron: ViewRenderer = { Stage: Neuron, svg, table };

function Neuron({ trace }: StageProps) {
  const { value, error } = useAsync(async () => ({ head: await loadHead(trace) }), [trace]);
  if (!value) return <p role={error ? "alert" : undefined}>{error ?? "…"}</p>;
  return value.head ? <HeadView data={value.head} /> : <p>{t(about.missing)}</p>;
}

function HeadView({ data }: { data: HeadData }) {
  const [box, width, height] = useRoom(760);
  const selection = useComputed(() => select(data, { query: focusQuery.value, key: focusKey.value, locked: key.value }));
  const queryRow = useComputed(() => selection.value.queryRow).value;
  const queryColumn = useMemo(() => queryColumnOf(width - 14, data), [width, data]);
  const rows = Math.max(data.keys.length, data.queries.length);
  const room = height - (width < 620 ? AROUND_NARROW : AROUND);
  const row = rowHeight(rows, room - MIN_PLOT);
  const plot = Math.max(MIN_PLOT, Math.min(MAX_PLOT, room - rows * row));
  Object.assign(shown, { width: width - 14, row, plot });
  const columns = useMemo(() => columnsOf(width - 14 - queryColumn.width, data), [queryColumn, data]);
  const ranges = useMemo(() => rangesOf(data, queryRow), [data, queryRow]);
  const drawing = { data, queryRow, ranges, columns, row, plot, shade: shade.value, colours: PAGE_COLOURS };
  return (
    <div class="neuron" ref={box}>
      <div class="choices">
        <span class="choice">
          {t({ ko: "쿼리", en: "query" })} {queryRow.query} <b>{data.queries[queryRow.query]}</b>
        </span>
        <Choice title={{ ko: "차원", en: "dimensions" }} of={sort} options={SORTS} />
        {data.rotary && (
          <Toggle title={{ ko: "회전 쌍 (i, i + K/2)", en: "rotary pairs (i, i + K/2)" }} of={pairs} />
        )}
      </div>
      <KeyList drawing={drawing} queryColumn={queryColumn} selection={selection} />
      <Pair drawing={drawing} width={width < 620 ? width - 14 : queryColumn.width + columns.total} selection={selection} />
      <p>{verdict(data, queryRow)}</p>
    </div>
  );
}

/** How many weights agree with the trace, and remarks on this head. */
function verdict({ block, parts, rotary, tolerance }: HeadData, { row, recorded }: ReturnType<typeof select>["queryRow"]) {
  const differences = row.weights.map((weight, at) => Math.abs(weight - recorded[at]));
  const agreeing = differences.filter((one) => one <= tolerance).length;
  const worst = formatDifference(Math.max(...differences));
  const all = agreeing === differences.length;
  const shared = block.heads / block.key_heads;
  return (
    <>
      <b class={all ? "neuron-right" : "neuron-wrong"}>
        {all ? "✓ " : "✗ "}
        {t({
          ko: `다시 계산한 가중치 ${differences.length}개 가운데 ${agreeing}개가 트레이스와 일치 (최대 |Δ| ${worst})`,
          en: `${agreeing} of ${differences.length} recomputed weights agree with the trace (largest |Δ| ${worst})`,
        })}
      </b>
      <small>
        {t({ ko: " 보라 − · 주황 +", en: " purple − · orange +" })}
        {parts.muted && t({ ko: " · 꺼진 헤드", en: " · muted head" })}
        {shared > 1 && t({ ko: ` · 헤드 ${shared}개가 k를 공유`, en: ` · ${shared} heads share one k` })}
        {rotary && t({ ko: " · q와 k는 위치 회전 후의 값", en: " · q and k after the rotation" })}
        {unit.value !== "piece" && t({ ko: " · 병합하지 않은 서브워드 단위", en: " · by piece, not merged" })}
      </small>
    </>
  );
}
