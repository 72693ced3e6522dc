/** Flow: the whole model in one picture that is played, from the tokens to the answer. */

import { effect, type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { element, label, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument } from "../../draw/svg";
import { displayText, readablePieces } from "../../draw/text";
import { BLOCKS } from "../../i18n/blocks";
import { type Message, t } from "../../i18n/i18n";
import { selectHead } from "../../state/actions";
import { focusedHead, head, key, query, sequence, step, view } from "../../state/state";
import { useAsync } from "../../state/useAsync";
import { readableDecoding, rowOfStep } from "../../trace/decoding";
import type { HeadLocation } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import type { StageProps, ViewRenderer } from "../view";
import { flow as about } from "../viewInfo";
import { useWidth } from "../width";
import { LensTable } from "./lensTable";
import { bandDrawing, columnTitle, fitFlow, type FlowLayout, type Prediction, titles, xOf, yOf } from "./drawing";
import { type Column, type Flow, lensOf, loadFlow, momentsOf } from "./flowData";
import "./flow.css";

export const flow: ViewRenderer = { Stage, svg, table };

const COLUMNS_PER_SECOND = 1.6;
let shownSize: readonly [width: number, height: number] = [960, 520]; // exported pictures have the size of the screen

function Stage({ trace }: StageProps) {
  const { value, error } = useAsync(() => loadFlow(trace, sequence.value), [trace]);
  if (!value) return <p role={error ? "alert" : "status"}>{error ?? "…"}</p>;
  return <Player key={`${trace.info.title} ${sequence.value}`} trace={trace} flow={value} />;
}

function Player({ trace, flow: whole }: { readonly trace: Trace; readonly flow: Flow }) {
  const [box, width] = useWidth(900);
  const predictions = useMemo(() => predictionsOf(trace), [trace]);
  const { flow, layout } = useMemo(() => {
    shownSize = [width - 4, Math.max(260, innerHeight - (trace.info.lens ? 560 : 470))];
    return fitFlow(whole, predictions, ...shownSize);
  }, [whole, predictions, width]);
  const moments = useMemo(() => momentsOf(flow), [flow]);
  const time = useSignal(shownMoments(moments.length)); // columns, with a fraction
  const playing = useSignal(false);
  const hovered = useSignal<{ moment: number; row: number } | null>(null);
  const count = moments.length;
  useEffect(() => {
    step.value = Math.min(step.value, count); // another view may have more steps
    if (!playing.value) time.value = shownMoments(count);
  }, [step.value, count]);
  usePlayback(time, playing, count);
  const slider = useRef<HTMLInputElement>(null);
  useSignalEffect(() => {
    if (slider.current) slider.current.value = String(time.value);
  });
  const reached = useComputed(() => Math.min(count - 1, Math.max(0, Math.ceil(time.value) - 1)));
  const current = Math.min(count - 1, hovered.value?.moment ?? reached.value); // renders once per column, not per frame
  const { side, column } = moments[current];
  const at = flow.sides[side].columns[column];
  const under = (event: MouseEvent) => {
    const corner = (event.currentTarget as Element).getBoundingClientRect();
    return itemAt(flow, layout, event.clientX - corner.left, event.clientY - corner.top);
  };
  return (
    <div class="flow" ref={box}>
      <div class="choices">
        <button type="button" data-role="play" onClick={() => togglePlaying(time, playing, count)}>
          {t(playing.value ? { ko: "일시 정지", en: "pause" } : { ko: "재생", en: "play" })}
        </button>
        <label class="choice flow-time">
          {t({ ko: "시점", en: "moment" })}
          <input
            type="range"
            min={1}
            max={count}
            step={0.01}
            defaultValue={String(count)}
            ref={slider}
            onInput={(event) => {
              playing.value = false;
              time.value = event.currentTarget.valueAsNumber;
            }}
            onChange={() => (step.value = Math.round(time.value))}
          />
        </label>
        <output class="flow-title" data-role="moment" aria-live={playing.value ? "off" : "polite"}>
          <strong>{titleOf(at)}</strong> {t(DESCRIPTIONS[at.kind])}
        </output>
      </div>
      <div class="flow-scroll" tabIndex={0} role="region" aria-label={t(about.title)}>
        <svg
          role="img"
          aria-label={t(about.description)}
          width={layout.width}
          height={layout.height}
          onPointerMove={(event) => (hovered.value = under(event))}
          onPointerLeave={() => (hovered.value = null)}
          onClick={(event) => zoomTo(flow, moments, under(event))}
        >
          <Picture flow={flow} layout={layout} predictions={predictions} />
          <Past flow={flow} layout={layout} time={time} />
          {hovered.value ? <circle class="flow-hover" cx={xOf(layout, column)} cy={yOf(layout, side, hovered.value.row)} r={layout.bands[side].row / 2 + 2} /> : null}
        </svg>
      </div>
      <p class="hint flow-hint">{hovered.value ? detail(trace, flow, at, side, hovered.value.row) : t(HINT)}</p>
      <div class="flow-below">
        <Zoom trace={trace} />
        <LensTable trace={trace} />
      </div>
    </div>
  );
}

/** The moments drawn for the shared step: 0 means all of them. */
function shownMoments(count: number): number {
  return step.peek() > 0 ? Math.min(step.peek(), count) : count;
}

/** The static picture: the future is pale, the past is drawn over it through a clip that follows the time. */
function Picture({ flow, layout, predictions }: { readonly flow: Flow; readonly layout: FlowLayout; readonly predictions: readonly Prediction[] }) {
  return useMemo(
    () => (
      <>
        {flow.sides.map(({ side }, band) => (
          <g key={side}>
            <clipPath id={`flow-past-${band}`}>
              <rect x={0} y={0} width={layout.width} height={layout.height} />
            </clipPath>
            {titles(flow, band, layout, PAGE_COLOURS)}
            <defs>
              <g id={`flow-band-${band}`}>{bandDrawing(flow, band, layout, band === flow.sides.length - 1 ? predictions : [], PAGE_COLOURS)}</g>
            </defs>
            <use href={`#flow-band-${band}`} opacity={0.15} />
            <g clip-path={`url(#flow-past-${band})`}>
              <use href={`#flow-band-${band}`} />
            </g>
          </g>
        ))}
      </>
    ),
    [flow, layout, predictions],
  );
}

/** Moves the clips: the only work of a frame. */
function Past({ flow, layout, time }: { readonly flow: Flow; readonly layout: FlowLayout; readonly time: Signal<number> }) {
  const line = useRef<SVGLineElement>(null);
  useEffect(() => effect(() => {
    const now = time.value;
    let before = 0;
    flow.sides.forEach(({ columns }, band) => {
      const passed = Math.max(0, Math.min(columns.length, now - before));
      const x = passed >= columns.length ? layout.width : passed > 0 ? xOf(layout, passed - 1) + 8 : 0;
      document.querySelector(`#flow-past-${band} rect`)?.setAttribute("width", String(Math.max(0, x)));
      if (line.current && passed > 0 && passed < columns.length) {
        const { top, row, rows } = layout.bands[band];
        for (const [name, value] of Object.entries({ x1: x, x2: x, y1: top - 2, y2: top + row * rows + 2 })) line.current.setAttribute(name, String(value));
      }
      before += columns.length;
    });
    const total = before;
    line.current?.setAttribute("visibility", now < total ? "visible" : "hidden");
  }), [layout, flow]);
  return <line ref={line} class="flow-now" />;
}

/** Advances the time; with reduced motion column by column, without a transition. */
function usePlayback(time: Signal<number>, playing: Signal<boolean>, count: number): void {
  useEffect(() => {
    if (!playing.value) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let [frame, last] = [0, performance.now()];
    const advance = (now: number) => {
      const passed = Math.min(0.1, (now - last) / 1000) * COLUMNS_PER_SECOND;
      last = now;
      progress += passed;
      time.value = Math.min(count, still ? Math.floor(progress) : progress);
      if (progress < count) frame = requestAnimationFrame(advance);
      else [playing.value, step.value] = [false, 0];
    };
    let progress = time.value;
    frame = requestAnimationFrame(advance);
    return () => cancelAnimationFrame(frame);
  }, [playing.value, count]);
}

function togglePlaying(time: Signal<number>, playing: Signal<boolean>, count: number): void {
  if (!playing.value && time.value >= count) time.value = 0;
  else if (playing.value) step.value = Math.max(1, Math.round(time.value));
  playing.value = !playing.value;
}

/** The column and the row at a point. */
function itemAt(flow: Flow, layout: FlowLayout, x: number, y: number): { moment: number; row: number } | null {
  let before = 0;
  for (const [band, { top, row, rows, columns }] of layout.bands.entries()) {
    const [column, line] = [Math.floor((x - layout.left) / layout.column), Math.floor((y - top) / row)];
    if (line >= 0 && line < rows && y >= top) return column >= 0 && column < columns ? { moment: before + column, row: line } : null;
    before += flow.sides[band].columns.length;
  }
  return null;
}

/** Zooms from the model to a layer: its heads are listed, and from there a single weight is opened. */
function zoomTo(flow: Flow, moments: ReturnType<typeof momentsOf>, item: { moment: number; row: number } | null): void {
  if (!item) return;
  const { side, column } = moments[item.moment];
  const { tokens, columns } = flow.sides[side];
  step.value = item.moment + 1;
  const { kind, layer } = columns[column];
  const block = kind === "lens" ? columns[column - 1 - columns.slice(0, column).reverse().findIndex(({ kind }) => kind === "attention")].block : columns[column].block;
  if (!block) return;
  selectHead({ block, layer, head: head.value }) || selectHead({ block, layer, head: 0 });
  [query.value, key.value] = [tokens[item.row].pieces[0], null];
}

/** The heads of the chosen layer for the chosen token, each with its strongest key: the way to a single multiplication. */
function Zoom({ trace }: { readonly trace: Trace }) {
  const { value } = useAsync(async () => {
    const [row, at] = [query.value, focusedHead.value];
    if (row === null) return null;
    const { heads } = trace.block(at.block);
    const all = await Promise.all(Array.from({ length: heads }, (_, number) => trace.weights({ ...at, head: number })));
    return { row, at, strongest: all.map(({ data, columns }) => strongest(data.subarray(row * columns, (row + 1) * columns))) };
  }, [trace]);
  if (!value) return null;
  const { at, row, strongest: keys } = value;
  const [queries, sources] = [readablePieces(trace.queries(at)), readablePieces(trace.keys(at))];
  const open = (number: number, to: number, name: string) => {
    selectHead({ block: at.block, layer: at.layer, head: number });
    [query.value, key.value, view.value] = [row, to, name];
  };
  return (
    <section class="flow-zoom" data-role="zoom">
      <h2>
        {t(BLOCKS[at.block])} L{at.layer}: <bdi>{displayText(queries[row] ?? "")}</bdi>
      </h2>
      <p class="hint">{t({ ko: "헤드마다 가장 크게 읽은 토큰입니다. 클릭하면 그 가중치의 곱셈 하나하나를 볼 수 있고, 뒤로 가기로 돌아옵니다.", en: "The token each head reads most. A click opens the multiplications of that weight; Back returns here." })}</p>
      <p class="choices">
        {keys.map(({ index, weight }, number) => (
          <button key={number} type="button" data-role="zoom-head" onClick={() => open(number, index, trace.hasVectors(at.block) ? "neuron" : "matrix")}>
            H{number} → <bdi>{displayText(sources[index] ?? "")}</bdi> <span class="number">{weight.toFixed(3)}</span>
          </button>
        ))}
      </p>
    </section>
  );
}

function strongest(row: Float32Array): { index: number; weight: number } {
  let index = 0;
  for (let i = 1; i < row.length; i++) if (row[i] > row[index]) index = i;
  return { index, weight: row[index] ?? 0 };
}

const HINT: Message = {
  ko: "굵은 가로선: 잔차 흐름의 크기. 곡선: 헤드 평균 어텐션(토큰마다 최대 셋). 원과 사각형: 어텐션과 피드포워드가 더한 벡터의 크기. 클릭하면 그 레이어로 확대합니다.",
  en: "Horizontal lines: the norm of the residual stream. Curves: attention, mean over heads (at most three per token). Circles and squares: the norm of what attention and feed-forward add. Click to zoom into a layer.",
};

const DESCRIPTIONS: Readonly<Record<Column["kind"], Message>> = {
  tokens: { ko: "텍스트를 토큰으로 나눕니다.", en: "The text is split into tokens." },
  embedding: { ko: "토큰마다 벡터 하나로 바꾸고, 위치 정보가 있으면 더합니다.", en: "Each token becomes a vector, with its position if the model adds one." },
  attention: { ko: "볼 수 있는 토큰(자신 포함)의 값을 가중합해 잔차 흐름에 더합니다.", en: "A weighted sum of the values of the tokens it may attend to, itself included, is added to the residual stream." },
  cross: { ko: "입력 토큰의 값을 가중합해 잔차 흐름에 더합니다.", en: "A weighted sum of the values of the input tokens is added to the residual stream." },
  feed_forward: { ko: "토큰마다 따로 계산한 벡터를 잔차 흐름에 더합니다.", en: "A vector computed for each token alone is added to the residual stream." },
  lens: { ko: "이 레이어에서 모델이 끝난다면 예측할 토큰입니다(로짓 렌즈).", en: "What the model would predict if it ended after this layer (logit lens)." },
  output: { ko: "마지막 벡터에서 확률을 계산합니다.", en: "Probabilities are computed from the last vectors." },
};

function titleOf({ kind, layer }: Column): string {
  return layer < 0 ? columnTitle(kind) : `L${layer} ${columnTitle(kind)}`;
}

/** The numbers of one token in a column. */
function detail(trace: Trace, flow: Flow, column: Column, band: number, row: number): string {
  const { tokens } = flow.sides[band];
  const parts = [`${titleOf(column)}: ${displayText(tokens[row]?.text ?? "")}`];
  const links = column.links.filter(({ query }) => query === row);
  const names = column.block ? flow.sides.find(({ side }) => side === trace.block(column.block as HeadLocation["block"]).keys)?.tokens : undefined;
  if (links.length) parts.push(`← ${links.map(({ key, weight }) => `${displayText(names?.[key]?.text ?? "")} ${weight.toFixed(3)}`).join(", ")}`);
  if (column.lens) parts.push(`→ ${(column.lens[row] ?? []).map(({ piece, probability }) => `${displayText(piece)} ${probability.toFixed(3)}`).join(", ")}`);
  if (column.added) parts.push(t({ ko: `더한 크기 = 흐름의 ${column.added[row].toFixed(3)}배`, en: `adds ${column.added[row].toFixed(3)} × the norm of the stream` }));
  if (column.norm) parts.push(`‖x‖ = ${column.norm[row].toFixed(3)}`);
  return parts.join(" · ");
}

/** The answer at the output: labels of the text, or the predicted token of each row. */
function predictionsOf(trace: Trace): readonly Prediction[] {
  const { classification } = trace.info;
  const classified = classification?.sequences[sequence.value];
  if (classification && classified)
    return classification.labels
      .map((text, i) => ({ row: -1, text, probability: classified.probabilities[i] }))
      .sort((a, b) => b.probability - a.probability)
      .slice(0, 5);
  const decoding = readableDecoding(trace, sequence.value);
  const masked = lensOf(trace, "source", sequence.value)?.at(-1);
  if (masked) return masked.flatMap(([best], row) => (best ? [{ row, text: best.piece, probability: best.probability }] : []));
  if (!decoding) return [];
  const rows = trace.info.sides.target?.[sequence.value]?.pieces.length ?? 0;
  return decoding.steps.flatMap(({ chosen, before }, i) => {
    const row = rowOfStep(decoding, i);
    const probability = before.find(({ id }) => id === chosen?.id)?.probability ?? Math.exp(chosen?.log_probability ?? Number.NaN);
    return chosen && row >= 0 && row < rows && Number.isFinite(probability) ? [{ row, text: chosen.piece, probability }] : [];
  });
}

async function svg(trace: Trace): Promise<string> {
  const predictions = predictionsOf(trace);
  const { flow, layout } = fitFlow(await loadFlow(trace, sequence.value), predictions, ...shownSize);
  return svgDocument(
    layout.width,
    layout.height + 24,
    t(about.title),
    flow.sides.map((_, band) => element("g", {}, markup(titles(flow, band, layout, PRINT_COLOURS)), markup(bandDrawing(flow, band, layout, band === flow.sides.length - 1 ? predictions : [], PRINT_COLOURS)))),
    label(8, layout.height + 12, t({ ko: "곡선: 헤드 평균 어텐션, 토큰마다 최대 셋", en: "curves: attention, mean over heads, at most three per token" }), { size: 11, fill: PRINT_COLOURS.faint }),
  );
}

async function table(trace: Trace): Promise<(string | number)[][]> {
  const flow = await loadFlow(trace, sequence.value);
  return [
    ["side", "layer", "sublayer", "token", "piece", "norm", "added", "attends", "lens"],
    ...flow.sides.flatMap(({ side, tokens, columns }) =>
      columns
        .filter(({ kind }) => kind !== "tokens" && kind !== "output")
        .flatMap(({ kind, layer, norm, added, links, lens }) =>
          tokens.map(({ text }, row) => [side, layer < 0 ? "" : layer, kind, row, text, norm?.[row] ?? "", added?.[row] ?? "", links.filter(({ query }) => query === row).map(({ key, weight }) => `${key}:${weight.toFixed(6)}`).join(" "), (lens?.[row] ?? []).map(({ id, probability }) => `${id}:${probability}`).join(" ")]),
        ),
    ),
  ];
}
