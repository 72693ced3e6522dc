/** Flow: figure 1 of the paper with the numbers of a trace, explained stage by stage and played. */

import { effect, type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { element, label, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument } from "../../draw/svg";
import { displayText, readablePieces } from "../../draw/text";
import { BLOCKS } from "../../i18n/blocks";
import { t } from "../../i18n/i18n";
import { selectHead } from "../../state/actions";
import { focusedHead, head, key, layer, query, sequence, step, view } from "../../state/state";
import { checkAsked } from "../../state/settings";
import { useAsync } from "../../state/useAsync";
import { readableDecoding, rowOfStep } from "../../trace/decoding";
import type { HeadLocation } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import type { StageProps, ViewRenderer } from "../view";
import { flow as about } from "../viewInfo";
import { useWidth } from "../width";
import { chosenDrawing, chosenRows, headBoxes, HEAD_SIZE, type ShownHead } from "./chosen";
import { columnTitle, stackDrawing, trunk } from "./drawing";
import { type Column, type Flow, lensOf, loadFlow, momentsOf } from "./flowData";
import { type FlowLayout, layoutFlow, type Prediction, type Stack } from "./layout";
import { LensTable } from "./lensTable";
import { overview, type Stage as TourStage, stageAt, stagesOf } from "./tour";
import "./flow.css";

export const flow: ViewRenderer = { Stage, svg, table };

const COLUMNS_PER_SECOND = 1.6;
const [BELOW, LEAST_HEIGHT, PHONE] = [34, 330, 600]; // pixels below the picture; its height at least; the width of a phone
let shownSize: readonly [width: number, height: number] = [1100, 560]; // exported pictures have the size of the screen

function Stage({ trace }: StageProps) {
  const { value, error } = useAsync(() => loadFlow(trace, sequence.value), [trace]);
  if (!value) return <p role={error ? "alert" : "status"}>{error ?? "…"}</p>;
  return <Player key={`${trace.info.title} ${sequence.value}`} trace={trace} flow={value} />;
}

function Player({ trace, flow }: { readonly trace: Trace; readonly flow: Flow }) {
  const [box, width] = useWidth(900);
  const predictions = useMemo(() => predictionsOf(trace), [trace, sequence.value]);
  const focus = layer.value;
  const layout = useMemo(() => {
    shownSize = [width - 2, heightOf(box.current, width)];
    return layoutFlow(flow, trace.info.model, predictions, ...shownSize, focus);
  }, [flow, predictions, width, focus]);
  const [moments, stages] = useMemo(() => [momentsOf(flow), stagesOf(flow, trace.info, layout)], [flow, layout]);
  const count = moments.length;
  const momentOf = (number: number) => (number > 0 ? stages[Math.min(number, stages.length) - 1].moment + 1 : count);
  const time = useSignal(momentOf(step.peek())); // moments, with a fraction
  const playing = useSignal(false);
  const hovered = useSignal<Item | null>(null);
  useEffect(() => {
    if (step.value > stages.length) step.value = 0; // after the last stage, the whole picture; another view may have more steps
    checkAsked({ t: step.value });
    if (!playing.value) time.value = momentOf(step.value);
  }, [step.value, count, stages]);
  usePlayback(time, playing, count);
  const slider = useRef<HTMLInputElement>(null);
  useSignalEffect(() => {
    if (slider.current) slider.current.value = String(time.value);
  });
  const reached = useComputed(() => Math.min(count - 1, Math.max(0, Math.ceil(time.value) - 1)));
  const isWhole = useComputed(() => time.value >= count && step.value === 0);
  const number = isWhole.value ? 0 : step.value > 0 && !playing.value && time.value === momentOf(step.value) ? step.value : 1 + stageAt(stages, flow, reached.value);
  const { side, column } = moments[hovered.value?.moment ?? reached.value];
  const at = flow.sides[side].columns[column];
  const under = (event: MouseEvent) => {
    const corner = (event.currentTarget as Element).getBoundingClientRect();
    return itemAt(flow, layout, event.clientX - corner.left, event.clientY - corner.top);
  };
  const show = (next: number) => {
    playing.value = false;
    step.value = (next + stages.length + 1) % (stages.length + 1);
    time.value = momentOf(step.value);
  };
  return (
    <div class="flow" ref={box}>
      <div class="flow-tour" data-role="tour">
        <div class="flow-buttons">
          <button type="button" data-role="previous" aria-keyshortcuts="Shift+Space" aria-label={t({ ko: "이전 단계", en: "previous stage" })} onClick={() => show(number - 1)}>
            ◀
          </button>
          <button type="button" class={number === 0 ? "primary" : undefined} data-role="next" aria-keyshortcuts="Space" onClick={() => show(number + 1)}>
            {number === 0 ? t({ ko: "둘러보기", en: "take the tour" }) : t({ ko: "다음", en: "next" })} ▶
          </button>
          <button type="button" data-role="play" onClick={() => togglePlaying(time, playing, count)}>
            {t(playing.value ? { ko: "일시 정지", en: "pause" } : { ko: "재생", en: "play" })}
          </button>
          <input
            type="range"
            aria-label={t({ ko: "시점", en: "moment" })}
            min={1}
            max={count}
            step={0.01}
            defaultValue={String(count)}
            ref={slider}
            onInput={(event) => {
              playing.value = false;
              step.value = 0;
              time.value = event.currentTarget.valueAsNumber;
            }}
          />
        </div>
        <Paragraph trace={trace} stages={stages} number={number} column={at} quiet={playing.value} />
      </div>
      <div class="flow-scroll" tabIndex={0} role="region" aria-label={t(about.title)}>
        <svg
          role="img"
          aria-label={t(about.description)}
          width={layout.width}
          height={layout.height}
          onPointerMove={(event) => (hovered.value = under(event))}
          onPointerLeave={() => (hovered.value = null)}
          onClick={(event) => zoomTo(flow, stages, under(event))}
        >
          <Picture trace={trace} flow={flow} layout={layout} predictions={predictions} />
          <Chosen trace={trace} flow={flow} layout={layout} predictions={predictions} hovered={hovered} />
          <Past flow={flow} layout={layout} time={time} />
        </svg>
      </div>
      <p class="hint flow-hint">{hovered.value ? detail(trace, flow, at, side, hovered.value.row ?? chosenRows(trace, flow, predictions)[side]) : null}</p>
      <div class="flow-below">
        <Zoom trace={trace} />
        <LensTable trace={trace} />
      </div>
    </div>
  );
}

/** The height that the window leaves for the picture. */
function heightOf(box: HTMLElement | null, width: number): number {
  const stage = box?.closest<HTMLElement>(".stage");
  const tour = box?.querySelector<HTMLElement>(".flow-tour")?.offsetHeight ?? 60;
  if (width < PHONE) return Math.max(LEAST_HEIGHT, innerHeight * 0.6);
  return Math.max(LEAST_HEIGHT, (stage?.clientHeight || innerHeight - 250) - tour - BELOW);
}

/** The paragraph of a stage: its number, what is computed, and in which layer the picture is. */
function Paragraph({ trace, stages, number, column, quiet }: { readonly trace: Trace; readonly stages: readonly TourStage[]; readonly number: number; readonly column: Column; readonly quiet: boolean }) {
  const { title, text } = number > 0 ? stages[number - 1] : overview(trace.info);
  return (
    <p class="flow-text" data-role="moment" aria-live={quiet ? "off" : "polite"}>
      {number > 0 ? <small>{`${number}/${stages.length} `}</small> : null}
      <strong>{t(title)}</strong> {number > 0 && column.layer >= 0 ? <small>L{column.layer}</small> : null} {t(text)}
    </p>
  );
}

/** The static picture: the future is pale, the past is drawn over it through a clip that follows the time. */
function Picture({ trace, flow, layout, predictions }: Drawn) {
  return useMemo(
    () => (
      <>
        {flow.sides.map(({ side }, band) => (
          <g key={side}>
            <clipPath id={`flow-past-${band}`}>
              <rect x={0} y={0} width={layout.width} height={layout.height} />
            </clipPath>
            <defs>
              <g id={`flow-band-${band}`}>{stackDrawing(flow, band, layout, trace.info, band === flow.sides.length - 1 ? predictions : [], PAGE_COLOURS)}</g>
            </defs>
            <use href={`#flow-band-${band}`} opacity={0.2} />
            <g clip-path={`url(#flow-past-${band})`}>
              <use href={`#flow-band-${band}`} />
            </g>
          </g>
        ))}
        <g class="flow-trunk">{trunk(flow, layout, PAGE_COLOURS)}</g>
      </>
    ),
    [flow, layout, predictions, trace],
  );
}

interface Drawn {
  readonly trace: Trace;
  readonly flow: Flow;
  readonly layout: FlowLayout;
  readonly predictions: readonly Prediction[];
}

/** The attention of the chosen tokens, or of those under the pointer. */
function Chosen({ trace, flow, layout, predictions, hovered }: Drawn & { readonly hovered: Signal<Item | null> }) {
  const rows = chosenRows(trace, flow, predictions);
  const item = hovered.value;
  const under = item && momentsOf(flow)[item.moment];
  const shown: ShownHead | null = under && item.head !== null ? { band: under.side, column: under.column, head: item.head } : null;
  return (
    <>
      {flow.sides.map(({ side }, band) => (
        <g key={side} clip-path={`url(#flow-past-${band})`} pointer-events="none">
          {chosenDrawing(flow, band, under?.side === band && item?.row != null ? item.row : rows[band], layout, band === flow.sides.length - 1 ? predictions : [], shown, PAGE_COLOURS)}
        </g>
      ))}
    </>
  );
}

/** Moves the clips: the only work of a frame. */
function Past({ flow, layout, time }: { readonly flow: Flow; readonly layout: FlowLayout; readonly time: Signal<number> }) {
  const line = useRef<SVGLineElement>(null);
  useEffect(
    () =>
      effect(() => {
        const now = time.value;
        let before = 0;
        flow.sides.forEach(({ columns }, band) => {
          const { parts, left, right } = layout.stacks[band];
          const passed = Math.max(0, Math.min(columns.length, now - before));
          const at = Math.min(columns.length - 1, Math.floor(passed));
          const y = passed >= columns.length ? 0 : passed > 0 ? parts[at].bottom - (passed - at) * (parts[at].bottom - parts[at].top) : layout.height;
          const clip = document.querySelector(`#flow-past-${band} rect`);
          clip?.setAttribute("y", String(y));
          clip?.setAttribute("height", String(Math.max(0, layout.height - y)));
          if (line.current && passed > 0 && passed < columns.length) for (const [name, value] of Object.entries({ x1: left - 12, x2: right + 12, y1: y, y2: y })) line.current.setAttribute(name, String(value));
          before += columns.length;
        });
        document.querySelector(".flow-trunk")?.setAttribute("opacity", now >= (flow.sides[0]?.columns.length ?? 0) ? "1" : "0.15");
        line.current?.setAttribute("visibility", now < before ? "visible" : "hidden");
      }),
    [layout, flow],
  );
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
  if (!playing.value) step.value = 0;
  playing.value = !playing.value;
}

/** What is under the pointer: a column and a token, or a head next to the column. */
interface Item {
  readonly moment: number;
  readonly row: number | null;
  readonly head: number | null;
}

function itemAt(flow: Flow, layout: FlowLayout, x: number, y: number): Item | null {
  let before = 0;
  for (const [band, stack] of layout.stacks.entries()) {
    const { columns, tokens } = flow.sides[band];
    const column = stack.parts.findIndex(({ top, bottom }) => y >= top && y < bottom);
    const row = Math.floor((x - stack.left) / stack.pitch);
    if (column >= 0 && row >= 0 && row < tokens.length) return { moment: before + column, row, head: null };
    const number = column < 0 ? null : headUnder(columns[column], stack, column, x, y);
    if (number !== null) return { moment: before + column, row: null, head: number };
    before += columns.length;
  }
  return null;
}

function headUnder({ heads, block }: Column, stack: Stack, column: number, x: number, y: number): number | null {
  const part = stack.parts[column];
  const at = block && part.expanded ? headBoxes(heads.length, part.block, stack) : null;
  if (!at || y < at.top - 2 || y > at.top + HEAD_SIZE + 2) return null;
  const number = Math.floor((x - at.left) / at.pitch);
  return number >= 0 && number < heads.length ? number : null;
}

/** Chooses a token, and the layer and head that were clicked: its heads are listed below the picture. */
function zoomTo(flow: Flow, stages: readonly TourStage[], item: Item | null): void {
  if (!item) return;
  const { side, column } = momentsOf(flow)[item.moment];
  const { tokens, columns } = flow.sides[side];
  const { layer: number } = columns[column];
  const block = columns[column].block ?? columns.findLast(({ block, kind }, i) => block && kind === "attention" && (i < column || number < 0))?.block ?? columns.find(({ block }) => block)?.block;
  if (!block) return;
  const at = { block, layer: number < 0 ? layer.value : number, head: item.head ?? head.value };
  selectHead(at) || selectHead({ ...at, head: 0 }) || selectHead({ ...at, layer: 0, head: 0 });
  if (item.row !== null) [query.value, key.value] = [tokens[item.row].pieces[0], null];
  if (step.value > stages.length) step.value = 0;
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
  const flow = await loadFlow(trace, sequence.value);
  const layout = layoutFlow(flow, trace.info.model, predictions, ...shownSize, layer.value);
  const rows = chosenRows(trace, flow, predictions);
  const answers = (band: number) => (band === flow.sides.length - 1 ? predictions : []);
  return svgDocument(
    layout.width,
    layout.height + 24,
    t(about.title),
    flow.sides.map((_, band) => element("g", {}, markup(stackDrawing(flow, band, layout, trace.info, answers(band), PRINT_COLOURS)))),
    markup(trunk(flow, layout, PRINT_COLOURS)),
    flow.sides.map((_, band) => markup(chosenDrawing(flow, band, rows[band], layout, answers(band), null, PRINT_COLOURS))),
    label(8, layout.height + 12, t({ ko: "곡선: 헤드 평균 어텐션", en: "curves: attention, mean over the heads" }), { size: 11, fill: PRINT_COLOURS.faint }),
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
