/** Alignment: which source token each target token attends to. */

import { useEffect, useMemo } from "preact/hooks";
import { ink } from "../../draw/colours";
import { shade } from "../../draw/palette";
import { element, label, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { useAsync } from "../../state/useAsync";
import { hoverOver, selectHead, toggleLock } from "../../state/actions";
import { block, focusKey, focusQuery, hoverKey, hoverQuery, key, query, scale, specials } from "../../state/state";
import { valueAt } from "../../trace/matrix";
import { alignment as about } from "../viewInfo";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import { Choice, Toggle } from "../choice";
import type { StageProps, ViewRenderer } from "../view";
import { useWidth } from "../width";
import { type AlignmentData, crossHead, loadAlignment as aligned, MARKS, marks, pooling, POOLINGS, ROWS, rows, scope, SCOPES, showMeanPath } from "./alignmentData";
import { alignmentDrawing, type AlignmentLayout, layoutOf, maxWeight } from "./drawing";
import "./alignment.css";

const WIDTH = 690; // the stage of a page 1280 pixels wide
const [AROUND, AROUND_NARROW, HEIGHT] = [84, 150, 320]; // pixels above and below the picture in its box; its height before it is shown
let shownSize: readonly [width: number, height: number] = [WIDTH, HEIGHT]; // exported pictures have the size of the screen

export const alignment: ViewRenderer = {
  Stage,
  svg,
  table,
};

const ROW_HINTS: Readonly<Record<"read" | "predicted", Message>> = {
  read: {
    ko: "행 = 읽은 토큰: 모델은 이 토큰을 읽으면서 입력에 어텐션하고 다음 토큰을 예측합니다.",
    en: "Row = token read: at this token the model attends to the source and predicts the next token.",
  },
  predicted: {
    ko: "행 = 예측한 토큰: 바로 앞 토큰에서의 어텐션을 한 칸 이동했습니다. 마지막 행은 예측 결과가 트레이스에 없어 제외했습니다.",
    en: "Row = token predicted: the attention at the previous token, shifted by one. The last row is omitted because its prediction is not in the trace.",
  },
};

function Stage({ trace }: StageProps) {
  const { value, error } = useAsync(() => aligned(trace), [trace]);
  const [box, availableWidth] = useWidth(WIDTH);
  const shownBlock = block.value;
  useEffect(() => {
    if (shownBlock !== "cross") selectHead(crossHead(trace)); // all panels show the block of the picture
  }, [trace, shownBlock]);
  return (
    <div class="alignment" ref={box}>
      <div class="choices">
        <Choice title={{ ko: "헤드", en: "heads" }} of={scope} options={SCOPES} />
        {scope.value === "head" ? null : <Choice title={{ ko: "합치는 방법", en: "pooling" }} of={pooling} options={POOLINGS} />}
        <Choice title={{ ko: "행 =", en: "row =" }} of={rows} options={ROWS} />
        <Choice title={{ ko: "표시", en: "marks" }} of={marks} options={MARKS} />
        <Toggle title={{ ko: "평균 위치", en: "mean positions" }} of={showMeanPath} />
      </div>
      {error ? <p role="alert">{error}</p> : null}
      {value ? <Picture trace={trace} data={value} availableWidth={availableWidth} availableHeight={(box.current?.closest(".stage")?.clientHeight || innerHeight / 2) - (availableWidth < 760 ? AROUND_NARROW : AROUND)} /> : null}
    </div>
  );
}

function Picture({ trace, data, availableWidth, availableHeight }: { readonly trace: Trace; readonly data: AlignmentData; readonly availableWidth: number; readonly availableHeight: number }) {
  const box = useMemo(() => layoutOf(data, ...(shownSize = [availableWidth, availableHeight])), [data, availableWidth]);
  const [tones, dimmed, ramp] = [scale.value, specials.value, ink(shade.value)];
  const content = useMemo(() => alignmentDrawing(data, PAGE_COLOURS, ramp, box), [data, tones, dimmed, ramp, box]);
  const focused = block.value === "cross";
  /** The target and source piece under the pointer. */
  const under = (event: MouseEvent): readonly [number | null, number | null] => {
    const corner = (event.currentTarget as Element).getBoundingClientRect();
    const source = data.keys[Math.floor((event.clientX - corner.left - box.left) / box.cell)];
    const target = data.queries[Math.floor((event.clientY - corner.top - box.top) / box.cell)];
    return source && target ? [target.pieces[0], source.pieces[0]] : [null, null];
  };
  return (
    <>
      <div class="alignment-scroll" tabIndex={0} role="region" aria-label={t(about.title)}>
        <div
          class="alignment-picture"
          style={{ width: `${box.width}px` }}
          onPointerMove={(event) => focused && hoverOver(...under(event))}
          onPointerLeave={() => hoverOver(null, null)}
          onClick={(event) => {
            const [target, source] = under(event);
            if (source === null) return;
            selectHead(crossHead(trace)); // the lock belongs to the displayed head
            toggleLock(target, source);
          }}
        >
          <svg role="img" aria-label={caption(data)} width={box.width} height={box.height}>
            {content}
          </svg>
          {focused ? <FocusLines data={data} box={box} /> : null}
        </div>
      </div>
      {focused ? <Readout data={data} /> : null}
      <p class="hint">
        {caption(data)} {t(ROW_HINTS[data.predicted ? "predicted" : "read"])}
      </p>
    </>
  );
}

/** Frames around the hovered (thin) and locked (thick) row and column. */
function FocusLines({ data, box: { cell, left, top, width, height } }: { readonly data: AlignmentData; readonly box: AlignmentLayout }) {
  return (
    <svg class="alignment-cross" aria-hidden="true" width={width} height={height}>
      <g transform={`translate(${left} ${top})`} fill="none" stroke={PAGE_COLOURS.focus}>
        {frames(data, cell, query.value, key.value, 2.5)}
        {frames(data, cell, hoverQuery.value, hoverKey.value, 1)}
      </g>
    </svg>
  );
}

/** Frames around the row of a target piece and the column of a source piece. */
function frames(data: AlignmentData, cell: number, target: number | null, source: number | null, thick: number) {
  const { rows: tall, columns } = data.matrix;
  const row = target === null ? tall : data.rowOf(target);
  const column = source === null ? columns : data.columnOf(source);
  return (
    <g stroke-width={thick}>
      {row < tall ? <rect y={row * cell} width={columns * cell} height={cell} /> : null}
      {column < columns ? <rect x={column * cell} width={cell} height={tall * cell} /> : null}
    </g>
  );
}

/** The displayed number under the pointer (pooled or shifted), and the sum of its column. */
function Readout({ data }: { readonly data: AlignmentData }) {
  const row = data.rowOf(focusQuery.value ?? -1);
  const column = data.columnOf(focusKey.value ?? -1);
  const [target, source] = [data.queries[row], data.keys[column]];
  if (!target || !source) return null;
  return (
    <p>
      <bdi>{displayText(target.text)}</bdi> → <bdi>{displayText(source.text)}</bdi>: <b>{valueAt(data.matrix, row, column).toFixed(6)}</b>
      {" · Σ "}
      {data.coverage[column].toFixed(3)}
    </p>
  );
}

function caption({ title, monotone, exact, ...data }: AlignmentData): string {
  const back = monotone === null ? "–" : `${Math.round(100 * monotone)} %`;
  const darkest = maxWeight(data).toFixed(2);
  return t({
    ko: `교차 어텐션 ${title.ko}. 평균 위치가 감소하지 않은 비율: ${back}. 가장 진한 색: ${darkest}.${exact ? "" : " 썸네일에서 읽은 값."}`,
    en: `Cross-attention, ${title.en}. Steps in which the mean position does not decrease: ${back}. Darkest color: ${darkest}.${exact ? "" : " Read from thumbnails."}`,
  });
}

async function svg(trace: Trace): Promise<string> {
  const data = await aligned(trace);
  const box = layoutOf(data, ...shownSize);
  return svgDocument(
    Math.max(box.width, 420),
    box.height + 24,
    caption(data),
    markup(alignmentDrawing(data, PRINT_COLOURS, ink("light"), box)),
    block.value === "cross" && element("g", { transform: `translate(${box.left} ${box.top})`, fill: "none", stroke: PRINT_COLOURS.focus }, markup(frames(data, box.cell, query.value, key.value, 2.5))),
    label(8, box.height + 12, `${t(data.title)} · ${t({ ko: "행", en: "row" })} = ${t(ROWS[data.predicted ? "predicted" : "read"])}`, {
      size: 11,
      fill: PRINT_COLOURS.faint,
    }),
  );
}

async function table(trace: Trace): Promise<(string | number)[][]> {
  const { matrix, queries, keys, coverage, predicted } = await aligned(trace);
  return [
    [t(ROWS[predicted ? "predicted" : "read"]), ...keys.map(({ text }) => text)],
    ...queries.map(({ text }, row) => [text, ...matrix.data.subarray(row * matrix.columns, (row + 1) * matrix.columns)]),
    [t({ ko: "합", en: "coverage" }), ...coverage],
  ];
}
