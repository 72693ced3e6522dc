/** All heads: the map at full size, the effect of each head on the answer, and a table to sort and search by pattern. */

import { css, diverging, ink, type Ramp } from "../../draw/colours";
import { formatChange, formatNumber } from "../../draw/numbers";
import { paintBytes, rampStep, signedTone, toCanvas } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { type Child, type DrawingColours, element, label, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { displayText, readablePieces } from "../../draw/text";
import { selectHead } from "../../state/actions";
import { liveModel } from "../../state/session";
import { setting } from "../../state/settings";
import { focusedHead, head, query, sequence } from "../../state/state";
import { useAsync } from "../../state/useAsync";
import type { BlockName, Side } from "../../trace/format";
import { clampIndex } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import { BLOCKS, headName } from "../../i18n/blocks";
import { type Message, t } from "../../i18n/i18n";
import { HeadMap, ORDERS } from "../../shell/headMap";
import { useWidth } from "../width";
import type { StageProps, ViewRenderer } from "../view";
import { changeOf, type Effects, effectsError, effectsOf, headEffectsOf, measureEffects, measuring, otherText } from "./effects";
import { type Column, type HeadRow, loadRows, selectRows, withEffects } from "./headTable";
import "./map.css";

export const mapView: ViewRenderer = { Stage, svg, table };

const COLUMNS: Readonly<Record<Column, Message>> = {
  head: { ko: "헤드", en: "head" },
  effect: { ko: "답의 변화", en: "change of the answer" },
  ...ORDERS,
};
const by = setting<Column>("heads", "column", "head");
const least = setting("heads", "least", 0);

const MAX_ROWS = 200;
const MAX_MAP_CELL = 140;

function Stage({ trace }: StageProps) {
  const [box, width] = useWidth(800);
  const blocks = trace.info.blocks.length;
  const across = width >= 620 * blocks ? blocks : 1;
  return (
    <div class="map-view" ref={box}>
      <div class="map-full">
        <HeadMap trace={trace} width={Math.floor(width / across) - 40} largest={MAX_MAP_CELL} />
      </div>
      <EffectMap trace={trace} width={width} />
      <HeadTable trace={trace} />
    </div>
  );
}

function EffectMap({ trace, width }: { readonly trace: Trace; readonly width: number }) {
  const effects = effectsOf(trace);
  const live = liveModel.value?.traces;
  const inPage = liveModel.value?.in_page;
  const other = otherText();
  if (!live && !effects) return null;
  const { drawing, size } = effects ? effectDrawing(trace, effects, Math.max(width - 16, 200), PAGE_COLOURS, diverging(shade.value)) : { drawing: null, size: [0, 0] as const };
  return (
    <section>
      <h2>{t({ ko: "헤드와 은닉 상태가 답에 주는 효과", en: "The effect of heads and hidden states on the answer" })}</h2>
      {live && <p class="choices">
        <button type="button" data-role="sweep" disabled={measuring.value} onClick={() => void measureEffects()}>
          {measuring.value ? t({ ko: "계산 중…", en: "computing…" }) : t({ ko: "헤드를 하나씩 끄기", en: "mute each head in turn" })}
        </button>
        {!inPage && <>
        <button type="button" data-role="patch" disabled={measuring.value || other === null} title={other ?? t(NO_OTHER)} onClick={() => void measureEffects(other)}>
          {t({ ko: "헤드를 하나씩 A의 출력으로 (활성화 패칭)", en: "give each head its output for A (activation patching)" })}
        </button>
        <button type="button" data-role="patch-hidden" disabled={measuring.value || other === null} title={other ?? t(NO_OTHER)} onClick={() => void measureEffects(other, true)}>
          {t({ ko: "은닉 상태를 하나씩 A의 것으로 (레이어 × 위치)", en: "give each hidden state its value for A (layer × position)" })}
        </button>
        </>}
      </p>}
      {inPage && <p class="hint">{t(ONLY_SERVER)}</p>}
      {effectsError.value && <p role="alert">{effectsError.value}</p>}
      {effects && (
        <>
          <p data-role="effects-summary">{summary(effects)}</p>
          <div class="effects">
            <svg
              role="img"
              aria-label={summary(effects)}
              width={size[0]}
              height={size[1]}
              viewBox={`0 0 ${size[0]} ${size[1]}`}
              onClick={(event) => {
                const [name, layer, column] = ((event.target as Element).getAttribute("data-head") ?? "").split(".");
                const found = gridsOf(trace, effects).find((grid) => grid.name === name);
                if (!found) return;
                const focused = clampIndex(head.value, trace.block(found.block).heads);
                selectHead({ block: found.block, layer: Number(layer), head: found.labels ? focused : Number(column) });
                if (found.labels) query.value = Number(column);
              }}
            >
              {drawing}
            </svg>
          </div>
        </>
      )}
    </section>
  );
}

const ONLY_SERVER: Message = {
  ko: "활성화 패칭은 서버가 계산합니다: jumok view로 모델을 여십시오.",
  en: "Activation patching is computed by a server: open the model with jumok view.",
};
const NO_OTHER: Message = { ko: "먼저 다른 텍스트를 실행하세요: 앞의 실행이 A입니다.", en: "Run another text first: the run before is A." };

const MEASURES: Readonly<Record<Effects["measure"], Message>> = {
  probability: { ko: "확률", en: "probability" },
  log_probability: { ko: "로그 확률", en: "log-probability" },
  score: { ko: "점수", en: "score" },
};

function summary({ answer, measure, value, other_value, intervention }: Effects): string {
  const name = displayText(answer);
  const other = other_value === null ? "" : t({ ko: `, A를 읽으면 ${formatNumber(other_value)}`, en: `; reading A ${formatNumber(other_value)}` });
  return `‘${name}’ ${t(MEASURES[measure])} ${formatNumber(value)}${other} · ${t(CHANGES[intervention])}`;
}

const CHANGES: Readonly<Record<Effects["intervention"], Message>> = {
  mute: { ko: "헤드 하나를 껐을 때의 변화", en: "change with one head muted" },
  patch_heads: { ko: "헤드 하나를 A의 출력으로 바꿨을 때의 변화", en: "change with one head of A" },
  patch_hidden: { ko: "레이어에 들어가는 은닉 상태 하나를 A의 것으로 바꿨을 때의 변화", en: "change with one input of a layer from A" },
};

/** The changes of one block, (layers, heads), or of one side, (layers, tokens). */
interface Grid {
  readonly name: BlockName | Side;
  readonly title: string;
  readonly block: BlockName; // selected by a click
  readonly layers: number;
  readonly columns: number;
  readonly labels: readonly string[] | null; // tokens; null: numbers of heads
}

function gridsOf(trace: Trace, effects: Effects): readonly Grid[] {
  const { blocks, sides } = trace.info;
  if (effects.intervention !== "patch_hidden")
    return blocks.map(({ name, layers, heads }) => ({ name, title: t(BLOCKS[name]), block: name, layers, columns: heads, labels: null }));
  return blocks.flatMap(({ name, queries: side, layers }) => {
    const tokens = name === "cross" ? undefined : sides[side]?.[0];
    if (!tokens) return [];
    const labels = readablePieces(tokens).map((piece) => displayText(piece));
    return [{ name: side, title: t(BLOCKS[name]), block: name, layers, columns: labels.length, labels }];
  });
}

const [LEFT, TOP, GAP] = [30, 38, 34];

/** The changes as squares, layers down and heads or tokens across, side by side or below each other; with a legend. */
function effectDrawing(trace: Trace, effects: Effects, width: number, colours: DrawingColours, ramp: Ramp) {
  const grids = gridsOf(trace, effects);
  const top = TOP + Math.max(0, ...grids.flatMap(({ labels }) => (labels ?? []).map((text) => textWidth(text, 11) - 12)));
  const total = grids.reduce((sum, { columns }) => sum + columns, 0);
  const inOneRow = (width - grids.length * (LEFT + GAP)) / total >= 18;
  const most = inOneRow ? total : Math.max(...grids.map(({ columns }) => columns));
  const cell = Math.max(9, Math.min(40, (width - (inOneRow ? grids.length : 1) * (LEFT + GAP)) / most));
  const changes = grids.flatMap((grid) => cells(grid.layers, grid.columns).map(([layer, column]) => Math.abs(changeOf(effects, grid.name, layer, column))));
  const max = Math.max(...changes) || 1;
  let [x, y, right, bottom] = [0, 0, 0, 0];
  const parts = grids.map(({ name, title, layers, columns, labels }) => {
    const [at, from] = [x, y];
    const [wide, high] = [LEFT + columns * cell + GAP, top + layers * cell + 12];
    right = Math.max(right, at + wide);
    bottom = Math.max(bottom, from + high);
    if (inOneRow) x += wide;
    else y += high;
    const every = Math.ceil(16 / cell);
    return (
      <g key={name} transform={`translate(${at} ${from})`} font-size={11} fill={colours.faint}>
        <text x={LEFT} y={14} font-size={12} fill={colours.ink}>{title}</text>
        {Array.from({ length: layers }, (_, i) => (i % every ? null : <text key={i} x={LEFT - 6} y={top + (i + 0.5) * cell + 4} text-anchor="end">{i}</text>))}
        {Array.from({ length: columns }, (_, i) => {
          const middle = LEFT + (i + 0.5) * cell;
          if (i % every) return null;
          return labels ? (
            <text key={i} transform={`translate(${middle + 4} ${top - 6}) rotate(-90)`}>{labels[i]}</text>
          ) : (
            <text key={i} x={middle} y={top - 6} text-anchor="middle">{i}</text>
          );
        })}
        {cells(layers, columns).map(([layer, column]) => {
          const change = changeOf(effects, name, layer, column);
          return (
            <rect
              key={`${layer}.${column}`}
              data-head={`${name}.${layer}.${column}`}
              x={LEFT + column * cell}
              y={top + layer * cell}
              width={cell - 1}
              height={cell - 1}
              fill={css(ramp, rampStep(signedTone(max)(change)))}
              stroke={colours.line}
              stroke-width={0.5}
            >
              <title>{`${title} ${labels ? `L${layer} ${labels[column]}` : headName({ layer, head: column })}: ${formatChange(change)}`}</title>
            </rect>
          );
        })}
      </g>
    );
  });
  const legend = Array.from({ length: 21 }, (_, i) => (
    <rect key={i} x={LEFT + 74 + i * 7} y={bottom} width={7} height={10} fill={css(ramp, rampStep(i / 20))} />
  ));
  const drawing = (
    <g>
      {parts}
      <text x={LEFT + 68} y={bottom + 10} font-size={11} text-anchor="end" fill={colours.faint}>{formatChange(-max)}</text>
      {legend}
      <text x={LEFT + 74 + 21 * 7 + 6} y={bottom + 10} font-size={11} fill={colours.faint}>{formatChange(max)}</text>
    </g>
  );
  return { drawing, size: [Math.max(right, LEFT + 300), bottom + 16] as const };
}

function cells(layers: number, columns: number): readonly (readonly [number, number])[] {
  return Array.from({ length: layers * columns }, (_, i) => [Math.floor(i / columns), i % columns] as const);
}

function HeadTable({ trace }: { readonly trace: Trace }) {
  const { value, error } = useAsync(() => loadRows(trace, sequence.value), [trace]);
  if (error) return <p role="alert">{error}</p>;
  if (!value) return <p role="status">…</p>;
  const effects = headEffectsOf(trace);
  const rows = withEffects(value, effects);
  const columns = (Object.keys(COLUMNS) as Column[]).filter((each) => each !== "effect" || effects);
  const column = columns.includes(by.value) ? by.value : "head";
  const found = selectRows(rows, column, least.value);
  const largest = (of: Column) => Math.max(1e-9, ...rows.map((row) => (of === "head" ? 0 : Math.abs(row.scores[of] ?? 0))));
  const focus = focusedHead.value;
  const range = column === "effect" || column === "entropy" ? largest(column) : 1;
  return (
    <section>
      <h2>{t({ ko: "패턴으로 헤드 찾기", en: "Find heads by pattern" })}</h2>
      <p class="choices">
        <label class="choice">
          {t({ ko: "정렬 기준", en: "sort by" })}
          <select value={column} data-role="sort-heads" onChange={(event) => (by.value = event.currentTarget.value as Column)}>
            {columns.map((each) => <option key={each} value={each}>{t(COLUMNS[each])}</option>)}
          </select>
        </label>
        {column !== "head" && (
          <label class="choice live-slider">
            {column === "entropy" ? t({ ko: "최대", en: "at most" }) : t({ ko: "최소", en: "at least" })}
            <input type="range" min={0} max={range} step={range / 100} value={least.value} data-role="least" onInput={(event) => (least.value = event.currentTarget.valueAsNumber)} />
            <output>{least.value.toFixed(2)}</output>
          </label>
        )}
        <small>{t({ ko: `헤드 ${rows.length}개 중 ${found.length}개`, en: `${found.length} of ${rows.length} heads` })}</small>
      </p>
      <div class="head-table-box" tabIndex={0} role="group" aria-label={t({ ko: "헤드의 점수", en: "scores of the heads" })}>
        <table class="head-table" data-role="head-table">
          <thead>
            <tr>
              {columns.map((each) => (
                <th key={each} scope="col" aria-sort={each === column ? (each === "head" || each === "entropy" ? "ascending" : "descending") : undefined}>
                  <button type="button" onClick={() => (by.value = each)}>{t(COLUMNS[each])}</button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {found.slice(0, MAX_ROWS).map((row) => (
              <tr key={`${row.block}.${row.layer}.${row.head}`} data-focused={row.block === focus.block && row.layer === focus.layer && row.head === focus.head}>
                <th scope="row">
                  <button type="button" onClick={() => selectHead(row)}>{`${t(BLOCKS[row.block])} ${headName(row)}`}</button>
                </th>
                {columns.slice(1).map((each) => {
                  const score = row.scores[each as Exclude<Column, "head">];
                  return (
                    <td key={each} style={{ "--share": `${Math.round((100 * Math.abs(score ?? 0)) / (each === "entropy" || each === "effect" ? largest(each) : 1))}%` }}>
                      {score === null ? "–" : each === "effect" ? formatChange(score) : formatNumber(score, 2)}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length > MAX_ROWS && <p><small>{t({ ko: `처음 ${MAX_ROWS}개만 표시합니다.`, en: `Only the first ${MAX_ROWS} are shown.` })}</small></p>}
    </section>
  );
}

/** The effects if they were measured, else the thumbnails of all heads. */
async function svg(trace: Trace): Promise<string> {
  const effects = effectsOf(trace);
  if (effects) {
    const { drawing, size } = effectDrawing(trace, effects, 900, PRINT_COLOURS, diverging("light"));
    const title = summary(effects);
    return svgDocument(Math.max(size[0] + 24, 1.1 * textWidth(title) + 24), size[1] + 44, title, label(12, 20, title), element("g", { transform: "translate(12 32)" }, markup(drawing)));
  }
  const cell = Math.max(24, Math.min(MAX_MAP_CELL, Math.floor(700 / Math.max(...trace.info.blocks.map(({ heads }) => heads)))));
  const parts: Child[] = [];
  const focus = focusedHead.value;
  let [y, right] = [12, 0];
  for (const block of trace.info.blocks) {
    const { shape, data } = await trace.thumbnails(block.name, sequence.value);
    const [, heads, rows, columns] = shape;
    parts.push(label(12, y + 12, t(BLOCKS[block.name]), { bold: true }));
    y += 34;
    for (let head = 0; head < heads; head++) parts.push(label(40 + (head + 0.5) * cell, y - 5, String(head), { size: 11, anchor: "middle", fill: PRINT_COLOURS.faint }));
    for (const [layer, head] of cells(block.layers, block.heads)) {
      const from = (layer * heads + head) * rows * columns;
      const href = toCanvas(paintBytes(data.subarray(from, from + rows * columns), rows, columns, ink("light"))).toDataURL();
      const [x, top] = [40 + head * cell, y + layer * cell];
      if (head === 0) parts.push(label(34, top + cell / 2 + 4, String(layer), { size: 11, anchor: "end", fill: PRINT_COLOURS.faint }));
      parts.push(element("image", { href, x, y: top, width: cell - 3, height: cell - 3, preserveAspectRatio: "none", "image-rendering": "pixelated" }));
      parts.push(element("rect", { x: x - 0.5, y: top - 0.5, width: cell - 2, height: cell - 2, fill: "none", ...(focus.block === block.name && focus.layer === layer && focus.head === head ? { stroke: PRINT_COLOURS.focus, "stroke-width": 2.5 } : { stroke: PRINT_COLOURS.line }) }));
    }
    right = Math.max(right, 40 + heads * cell + 12);
    y += block.layers * cell + 12;
  }
  return svgDocument(right, y, trace.info.title, parts);
}

/** One row per head: all scores, and the effect if it was measured; or one row per hidden state. */
async function table(trace: Trace): Promise<(string | number)[][]> {
  const measured = effectsOf(trace);
  if (measured?.intervention === "patch_hidden")
    return [
      ["side", "layer", "token", "piece", "change"],
      ...gridsOf(trace, measured).flatMap(({ name, layers, columns, labels }) => cells(layers, columns).map(([layer, token]) => [name, layer, token, labels?.[token] ?? "", changeOf(measured, name, layer, token)])),
    ];
  const effects = headEffectsOf(trace);
  const rows: readonly HeadRow[] = withEffects(await loadRows(trace, sequence.value), effects);
  const names = (Object.keys(COLUMNS) as Column[]).filter((each) => each !== "head" && (each !== "effect" || effects)) as Exclude<Column, "head">[];
  return [
    ["block", "layer", "head", ...names],
    ...rows.map(({ block, layer, head, scores }) => [block, layer, head, ...names.map((name) => scores[name] ?? "")]),
  ];
}
