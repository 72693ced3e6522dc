/** A | B | B − A: one head in two runs, in two texts of a batch, or two heads; with the answers of both. */

import { css, diverging, ink, type Ramp } from "../../draw/colours";
import { formatChange, formatNumber } from "../../draw/numbers";
import { rampStep, signedTone, tone } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { cellPaths, type DrawingColours, element, label, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument, textWidth } from "../../draw/svg";
import { displayText } from "../../draw/text";
import { hoverOver, toggleLock, toggleMute } from "../../state/actions";
import { baselineIsKept, busy, checkpoint, currentTrace, keepBaseline, liveModel } from "../../state/session";
import { focusedHead, focusKey, focusQuery, scale, sequence } from "../../state/state";
import { useAsync } from "../../state/useAsync";
import type { Label } from "../../trace/display";
import type { Matrix } from "../../trace/matrix";
import type { Trace } from "../../trace/trace";
import { headName } from "../../i18n/blocks";
import { type Message, t } from "../../i18n/i18n";
import { Examples } from "../../shell/answerBar";
import { submitRequest } from "../../shell/runForm";
import { useWidth } from "../width";
import type { StageProps, ViewRenderer } from "../view";
import { answerChanges, type Compared, compare, type Comparison, describe, chooseSource, chosenSource, nameOfText, otherText, sideA, sideB, SOURCES, type Source, texts } from "./compareData";
import "./compare.css";

export const compareView: ViewRenderer = { Stage, svg, table };

const [MAX_CELL, MIN_CELL] = [40, 2];
const PANEL = 200; // the least width of a panel

function Stage({ trace }: StageProps) {
  const [box, width] = useWidth(800);
  const [a, b] = [sideA(trace), sideB(trace)];
  const { value, error } = useAsync(async () => {
    const [before, after] = [sideA(trace), sideB(trace)];
    return before ? { of: compared(before, after), found: await compare(before, after) } : null;
  }, [trace]);
  return (
    <div class="compare" ref={box}>
      <Controls />
      {error && <p role="alert">{error}</p>}
      {a ? (
        <>
          <p class="compare-side" data-role="side-a"><strong>A</strong> {describe(a)}</p>
          <p class="compare-side" data-role="side-b"><strong>B</strong> {describe(b)}</p>
          <Answers a={a} b={b} />
          {value && value.of === compared(a, b) ? <Panels found={value.found} width={width} /> : null}
        </>
      ) : (
        <div class="invitation">
          <p>{t(NOTHING[chosenSource()])}</p>
          {chosenSource() === "run" && <Examples />}
        </div>
      )}
    </div>
  );
}

/** What a comparison belongs to; weights of another one are not drawn. */
function compared(a: Compared, b: Compared): string {
  return JSON.stringify([traceNumber(a.trace), a.location, traceNumber(b.trace), b.location]);
}

const numbers = new WeakMap<Trace, number>();
let count = 0;
function traceNumber(trace: Trace): number {
  if (!numbers.has(trace)) numbers.set(trace, count++);
  return numbers.get(trace) as number;
}

const NOTHING: Readonly<Record<Source, Message>> = {
  run: {
    ko: "비교할 실행이 아직 없습니다. 예문을 누르거나, 텍스트를 고치거나 헤드를 끄거나 다른 체크포인트로 다시 실행하면 앞의 실행이 A가 됩니다.",
    en: "There is no run to compare with yet: click an example, edit the text, mute a head or choose another checkpoint, and the run before becomes A.",
  },
  text: { ko: "이 트레이스에는 텍스트가 하나뿐입니다.", en: "This trace has one text only." },
  head: { ko: "고정한 헤드가 없습니다. 헤드 맵에서 Shift를 누르고 클릭하면 고정됩니다.", en: "No head is pinned: Shift-click one in the head map." },
};

function Controls() {
  const live = liveModel.value?.traces ? liveModel.value : null;
  const possible = (Object.keys(SOURCES) as Source[]).filter((each) => each !== "run" || live).filter((each) => each !== "text" || texts() > 1);
  const location = focusedHead.value;
  const rerun = (change: () => void) => {
    change();
    void submitRequest();
  };
  return (
    <p class="choices">
      <label class="choice">
        {t({ ko: "A:", en: "A:" })}
        <select value={chosenSource()} data-role="compare-with" onChange={(event) => chooseSource(event.currentTarget.value as Source)}>
          {possible.map((each) => (
            <option key={each} value={each}>{t(SOURCES[each])}</option>
          ))}
        </select>
      </label>
      {chosenSource() === "text" && texts() > 2 && (
        <select value={otherText.value} aria-label={t({ ko: "A의 텍스트", en: "text of A" })} onChange={(event) => (otherText.value = Number(event.currentTarget.value))}>
          {Array.from({ length: texts() }, (_, i) => (i === sequence.value ? null : <option key={i} value={i}>{nameOfText(i)}</option>))}
        </select>
      )}
      {live && chosenSource() === "run" && (
        <>
          <button type="button" data-role="keep" aria-pressed={baselineIsKept.value} disabled={!currentTrace.value} onClick={keepBaseline}>
            {baselineIsKept.value ? t({ ko: "A 고정 해제", en: "release A" }) : t({ ko: "지금 실행을 A로 고정", en: "keep this run as A" })}
          </button>
          <button type="button" data-role="mute-focused" disabled={busy.value} onClick={() => rerun(() => toggleMute(location))}>
            {t({ ko: `${headName(location)} 끄기·켜기`, en: `mute or unmute ${headName(location)}` })}
          </button>
          {(live.checkpoints ?? []).length > 0 && (
            <label class="choice">
              {t({ ko: "체크포인트", en: "checkpoint" })}
              <select
                data-role="checkpoint"
                value={checkpoint.value ?? ""}
                disabled={busy.value}
                onChange={(event) => {
                  const name = event.currentTarget.value || null;
                  rerun(() => (checkpoint.value = name));
                }}
              >
                <option value="">{t({ ko: "최종 가중치", en: "final weights" })}</option>
                {live.checkpoints?.map((name) => <option key={name} value={name}>{name}</option>)}
              </select>
            </label>
          )}
        </>
      )}
    </p>
  );
}

function Answers({ a, b }: { readonly a: Compared; readonly b: Compared }) {
  const changes = answerChanges(a, b);
  if (changes.length === 0 || (a.trace === b.trace && a.location.sequence === b.location.sequence)) return null;
  const fixed = (value: number | null) => (value === null ? "–" : formatNumber(value));
  return (
    <table class="compare-answers" data-role="answers">
      <thead>
        <tr>
          <th>{b.trace.info.decoding ? t({ ko: "출력 (로그 확률)", en: "output (log-probability)" }) : t({ ko: "답", en: "answer" })}</th>
          <th>A</th>
          <th>B</th>
          <th>B − A</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(({ name, a: before, b: after }) => (
          <tr key={name}>
            <th scope="row"><bdi>{displayText(name) || "–"}</bdi></th>
            <td>{fixed(before)}</td>
            <td>{fixed(after)}</td>
            <td><strong>{before === null || after === null ? "–" : formatChange(after - before)}</strong></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface Picture {
  readonly title: string;
  readonly matrix: Matrix;
  readonly queries: readonly Label[];
  readonly keys: readonly Label[];
  readonly colour: (value: number) => string;
}

/** A, B and the change as pictures with one colour scale for A and B. */
function pictures({ a, b, change }: Comparison, of: "light" | "dark"): readonly Picture[] {
  const max = (data: Float32Array) => data.reduce((m, x) => (Math.abs(x) > m ? Math.abs(x) : m), 0);
  const largest = Math.max(max(a.matrix.data), max(b.matrix.data));
  const toned = tone(scale.value, largest > 1 ? largest : 1);
  const limit = Math.max(0.05, max(change.data));
  const [weights, signs]: readonly Ramp[] = [ink(of), diverging(of)];
  const plain = (value: number) => css(weights, rampStep(toned(value)));
  return [
    { title: "A", ...a, colour: plain },
    { title: "B", ...b, colour: plain },
    {
      title: `B − A  (−${limit.toFixed(2)} … +${limit.toFixed(2)})`,
      matrix: change,
      queries: b.queries,
      keys: b.keys,
      colour: (value) => (Number.isNaN(value) ? "none" : css(signs, rampStep(signedTone(limit)(value)))),
    },
  ];
}

interface Layout {
  readonly cell: number;
  readonly left: number;
  readonly top: number;
}

function longest(labels: readonly Label[]): number {
  return Math.min(110, Math.max(16, ...labels.map(({ text }) => textWidth(displayText(text), 11)))) + 8;
}

function layoutOf({ queries, keys }: Picture, width: number): Layout {
  const left = longest(queries);
  const cell = Math.max(MIN_CELL, Math.min(MAX_CELL, (width - left - 4) / Math.max(keys.length, 1)));
  return { cell, left, top: longest(keys) };
}

function drawing({ matrix, queries, keys, colour }: Picture, { cell, left, top }: Layout, colours: DrawingColours) {
  const every = Math.ceil(11 / cell);
  const name = (each: Label, more: Record<string, string | number>, i: number) =>
    i % every ? null : (
      <text key={i} font-size={11} fill={each.special ? colours.faint : colours.ink} {...more}>{shortenName(displayText(each.text))}</text>
    );
  return (
    <g>
      {queries.map((each, i) => name(each, { x: left - 5, y: top + (i + 0.5) * cell + 4, "text-anchor": "end" }, i))}
      {keys.map((each, i) => name(each, { transform: `translate(${left + (i + 0.5) * cell + 4} ${top - 5}) rotate(-90)` }, i))}
      <g transform={`translate(${left} ${top}) scale(${cell})`} shape-rendering="crispEdges">
        {cellPaths(matrix, colour).map(([fill, d]) => <path key={fill} fill={fill} d={d} />)}
      </g>
      <rect x={left} y={top} width={keys.length * cell} height={queries.length * cell} fill="none" stroke={colours.line} />
    </g>
  );
}

function shortenName(text: string): string {
  const letters = [...text];
  return letters.length > 12 ? `${letters.slice(0, 11).join("")}…` : text;
}

function Panels({ found, width }: { readonly found: Comparison; readonly width: number }) {
  const all = pictures(found, shade.value);
  const across = width >= 3 * PANEL + 60 ? 3 : width >= 2 * PANEL + 30 ? 2 : 1;
  const each = width / across - 24;
  return (
    <>
      <div class="compare-panels">
        {all.map((picture, i) => <Panel key={i} picture={picture} found={found} side={i === 0 ? "a" : "b"} width={each} />)}
      </div>
      <p class="compare-readout" data-role="readout">{readout(found)}</p>
    </>
  );
}

function Panel({ picture, found, side, width }: { readonly picture: Picture; readonly found: Comparison; readonly side: "a" | "b"; readonly width: number }) {
  const layout = layoutOf(picture, width);
  const { cell, left, top } = layout;
  const [across, down] = [left + picture.keys.length * cell + 2, top + picture.queries.length * cell + 2];
  const place = (event: MouseEvent) => {
    const column = Math.floor((event.offsetX - left) / cell);
    const row = Math.floor((event.offsetY - top) / cell);
    if (row < 0 || column < 0 || row >= picture.queries.length || column >= picture.keys.length) return null;
    const [query, key] = side === "a" ? [found.rows.indexOf(row), found.columns.indexOf(column)] : [row, column];
    return query < 0 || key < 0 ? null : [found.b.queries[query].pieces[0], found.b.keys[key].pieces[0]];
  };
  const focus = focusedCell(found);
  const [row, column] = focus === null ? [-1, -1] : side === "a" ? [found.rows[focus[0]], found.columns[focus[1]]] : focus;
  return (
    <section class="compare-panel">
      <h2>{picture.title}</h2>
      <svg
        role="img"
        aria-label={picture.title}
        width={across}
        height={down}
        viewBox={`0 0 ${across} ${down}`}
        onPointerMove={(event) => {
          const at = place(event);
          hoverOver(at?.[0] ?? null, at?.[1] ?? null);
        }}
        onPointerLeave={() => hoverOver(null, null)}
        onClick={(event) => {
          const at = place(event);
          if (at) toggleLock(at[0], at[1]);
        }}
      >
        {drawing(picture, layout, PAGE_COLOURS)}
        {row >= 0 && column >= 0 && (
          <rect x={left + column * cell} y={top + row * cell} width={cell} height={cell} fill="none" stroke="var(--focus)" stroke-width={2} />
        )}
      </svg>
    </section>
  );
}

/** The focused query and key as a row and a column of B. */
function focusedCell({ b }: Comparison): readonly [number, number] | null {
  const [query, key] = [focusQuery.value, focusKey.value];
  const row = query === null ? -1 : b.queries.findIndex(({ pieces }) => pieces.includes(query));
  const column = key === null ? -1 : b.keys.findIndex(({ pieces }) => pieces.includes(key));
  return row < 0 || column < 0 ? null : [row, column];
}

function readout(found: Comparison): string {
  const cell = focusedCell(found);
  if (!cell) return t({ ko: "셀에 포인터를 올리면 두 가중치와 차이가 표시됩니다.", en: "Point at a cell for both weights and their difference." });
  const { a, b, rows, columns, change } = found;
  const [row, column] = cell;
  const number = (matrix: Matrix, i: number, j: number) => matrix.data[i * matrix.columns + j];
  const names = `${displayText(b.queries[row].text)} → ${displayText(b.keys[column].text)}`;
  const after = number(b.matrix, row, column).toFixed(4);
  if (rows[row] < 0 || columns[column] < 0) return `${names} · B ${after} · ${t({ ko: "A에는 없는 토큰", en: "not in A" })}`;
  return `${names} · A ${number(a.matrix, rows[row], columns[column]).toFixed(4)} · B ${after} · B − A ${formatChange(number(change, row, column))}`;
}

async function svg(trace: Trace): Promise<string> {
  const [a, b] = [sideA(trace), sideB(trace)];
  if (!a) return svgDocument(560, 40, "", label(10, 24, t(NOTHING[chosenSource()])));
  const all = pictures(await compare(a, b), "light");
  const each = 300;
  const layouts = all.map((picture) => layoutOf(picture, each));
  const height = Math.max(...all.map(({ queries }, i) => layouts[i].top + queries.length * layouts[i].cell)) + 30;
  const sides = [`A  ${describe(a)}`, `B  ${describe(b)}`];
  const width = Math.max(3 * (each + 24), ...sides.map((text) => 1.1 * textWidth(text, 11) + 20));
  return svgDocument(
    width,
    height + 50,
    `${trace.info.title}: A, B, B − A`,
    all.map((picture, i) =>
      element("g", { transform: `translate(${12 + i * (each + 24)} 26)` }, label(0, -8, picture.title, { bold: true }), markup(drawing(picture, layouts[i], PRINT_COLOURS))),
    ),
    sides.map((text, i) => label(12, height + 16 + i * 18, text, { size: 11, fill: PRINT_COLOURS.faint })),
  );
}

/** One row per cell of B. */
async function table(trace: Trace): Promise<(string | number)[][]> {
  const [a, b] = [sideA(trace), sideB(trace)];
  const head = ["query", "key", "query piece", "key piece", "a", "b", "b - a"];
  if (!a) return [head];
  const { a: before, b: after, rows, columns, change } = await compare(a, b);
  return [
    head,
    ...after.queries.flatMap((query, i) =>
      after.keys.map((key, j) => {
        const at = i * after.matrix.columns + j;
        const known = rows[i] >= 0 && columns[j] >= 0;
        return [query.pieces[0], key.pieces[0], displayText(query.text), displayText(key.text), known ? before.matrix.data[rows[i] * before.matrix.columns + columns[j]] : "", after.matrix.data[at], known ? change.data[at] : ""];
      }),
    ),
  ];
}
