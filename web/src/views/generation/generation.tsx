/** Generation: the decoding replayed step by step. */

import { type Signal, signal } from "@preact/signals";
import { generation as about } from "../viewInfo";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Bar, bars, type Drawing } from "../../draw/bars";
import { ink } from "../../draw/colours";
import { formatNumber } from "../../draw/numbers";
import { shade } from "../../draw/palette";
import { type DrawingColours, element, label, markup, PAGE_COLOURS, PRINT_COLOURS, svgDocument } from "../../draw/svg";
import { displayText, readablePieces } from "../../draw/text";
import { useAsync } from "../../state/useAsync";
import { selectHead } from "../../state/actions";
import { checkAsked, setting } from "../../state/settings";
import { block, head, layer, sequence, step } from "../../state/state";
import type { Decoding, HeadLocation } from "../../trace/format";
import { sliceRows } from "../../trace/rowSlice";
import { displayWeights } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { headName } from "../../i18n/blocks";
import { type Message, t } from "../../i18n/i18n";
import { Choice, selected } from "../choice";
import type { StageProps, ViewRenderer } from "../view";
import { layoutTree } from "./beams";
import "./generation.css";
import { beamTree, cacheStrip, COLUMN } from "./drawings";
import { readableDecoding, rowOfStep } from "../../trace/decoding";
import { cacheSteps, candidateRows, normFormula, rankingScore } from "./playback";

export const generation: ViewRenderer = {
  Stage,
  svg,
  table,
};

const METHOD: Readonly<Record<Decoding["method"], Message>> = {
  greedy: { ko: "그리디", en: "greedy" },
  beam: { ko: "빔 서치", en: "beam search" },
  sampling: { ko: "샘플링", en: "sampling" },
  given: { ko: "주어진 텍스트 (teacher forcing)", en: "given text (teacher forcing)" },
};
const ROW = {
  cross: { ko: "입력 (교차 어텐션)", en: "input (cross-attention)" },
  decoder: { ko: "앞의 토큰 (셀프 어텐션)", en: "previous tokens (self-attention)" },
} as const satisfies Record<string, Message>;
const SPEED = {
  "1": { ko: "×1", en: "×1" },
  "0.5": { ko: "×½", en: "×½" },
  "2": { ko: "×2", en: "×2" },
  "4": { ko: "×4", en: "×4" },
} as const satisfies Record<string, Message>;

/** The block of the attention row: the one in focus, so that all panels show the same. */
function rowBlock(trace: Trace): keyof typeof ROW {
  const names = trace.info.blocks.map(({ name }) => name);
  return block.value === "decoder" || !names.includes("cross") ? "decoder" : "cross";
}

const speed = setting<keyof typeof SPEED>("generation", "speed", "1");
const playing = signal(false);

const MAX_BARS = 20; // the keys with the largest weights
const MAX_PREFIX = 80; // tokens of the text before the step

interface AttentionRow {
  readonly bars: readonly Bar[];
  readonly block: keyof typeof ROW;
  readonly head: string;
  readonly fraction: number; // of the row's weight that is drawn
  readonly all: number;
}

/** The attention of the token read at the step; null after the end of the answer, or if its row has left the window. */
async function attentionOfStep(trace: Trace, decoding: Decoding, at: number): Promise<AttentionRow | null> {
  const name = rowBlock(trace);
  const { layers, heads } = trace.block(name);
  const location: HeadLocation = {
    sequence: sequence.value,
    block: name,
    layer: Math.min(layer.value, layers - 1),
    head: Math.min(head.value, heads - 1),
  };
  const read = rowOfStep(decoding, at);
  if (read < 0 || read >= trace.queries(location).pieces.length) return null;
  const { matrix, keys, allowed } = await displayWeights(sliceRows(trace, read, read + 1), location);
  const visible = keys.map((key, i) => ({ key, i, weight: matrix.data[i] })).filter(({ key, i }) => key.real && allowed[i]);
  const largest = [...visible].sort((a, b) => b.weight - a.weight).slice(0, MAX_BARS).sort((a, b) => a.i - b.i);
  const mass = (of: typeof visible) => of.reduce((sum, { weight }) => sum + weight, 0);
  return {
    bars: largest.map(({ key, weight }) => ({ name: key.text, values: [weight] })),
    block: name,
    head: headName(location),
    fraction: mass(largest) / (mass(visible) || 1),
    all: visible.length,
  };
}

/** The focused layer and head, clamped to those of a block. */
function inBlock(trace: Trace, name: keyof typeof ROW): Omit<HeadLocation, "sequence"> {
  const { layers, heads } = trace.block(name);
  return { block: name, layer: Math.min(layer.value, layers - 1), head: Math.min(head.value, heads - 1) };
}

function Stage({ trace }: StageProps) {
  const decoding = useMemo(() => readableDecoding(trace, sequence.value), [trace, sequence.value]);
  const count = decoding?.steps.length ?? 0;
  const at = Math.min(step.value, count - 1);
  const { value: keys, error } = useAsync(async () => {
    const current = Math.min(step.value, count - 1);
    return decoding && count ? attentionOfStep(trace, decoding, current) : null;
  }, [trace, decoding]);
  const stepsPerSecond = Number(selected(speed, SPEED));
  useEffect(() => {
    if (!playing.value) return;
    const timer = setInterval(() => moveStep(count, 1), 1000 / stepsPerSecond);
    return () => clearInterval(timer);
  }, [playing.value, stepsPerSecond, count]);
  useEffect(() => () => void (playing.value = false), [trace]);
  useEffect(() => {
    const name = rowBlock(trace);
    if (block.value !== name) selectHead(inBlock(trace, name));
  });
  useEffect(() => {
    step.value = Math.max(0, Math.min(step.value, count - 1)); // another view may have more steps
    if (count) checkAsked({ t: step.value });
  });
  if (!decoding || count === 0) return <p>{t(about.missing)}</p>;
  return (
    <div
      class="generation"
      tabIndex={0}
      role="group"
      aria-label={t(about.title)}
      aria-keyshortcuts="Space ArrowLeft ArrowRight"
      onKeyDown={(event) => {
        if (event.target !== event.currentTarget || !handleKey(event.key, count)) return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <Controls at={at} count={count} decoding={decoding} />
      <Prefix trace={trace} decoding={decoding} at={at} />
      <div class="generation-panels">
        <Panel title={{ ko: "어텐션", en: "Attention" }}>
          {trace.info.blocks.some(({ name }) => name === "cross") ? <Choice title={{ ko: "행", en: "row" }} of={block as Signal<keyof typeof ROW>} options={ROW} /> : null}
          {keys ? <Svg of={attentionBars(keys, PAGE_COLOURS)} label={attentionNote(keys)} /> : null}
          {error ? <p role="alert">{error}</p> : <p class="hint">{keys ? attentionNote(keys) : missingReason(decoding, at)}</p>}
        </Panel>
        <Panel title={{ ko: "후보", en: "Candidates" }}>
          <Svg of={candidateBars(decoding, at, PAGE_COLOURS)} label={candidateNote(decoding, at)} />
          <p class="hint">{candidateNote(decoding, at)}</p>
        </Panel>
      </div>
      <Tree decoding={decoding} at={at} />
      <Cache trace={trace} decoding={decoding} at={at} />
      <Settings settings={decoding.settings} />
    </div>
  );
}

const ANSWER_ENDED: Message = {
  ko: "답은 이미 끝났고, 다른 빔의 탐색이 계속되고 있습니다.",
  en: "The answer has ended; the search continues with other beams.",
};

const OUTSIDE_WINDOW: Message = {
  ko: "이 단계는 컨텍스트 윈도 밖에 있습니다. 모델이 이후 더 생성했고, 트레이스에는 마지막 토큰만 있습니다.",
  en: "This step is outside the window: generation continued, and the trace contains only the latest tokens.",
};

/** Why there is no attention for the step; it may still be loading. */
function missingReason(decoding: Decoding, at: number): string {
  if (rowOfStep(decoding, at) < 0) return t(OUTSIDE_WINDOW);
  return decoding.steps[at].chosen ? "…" : t(ANSWER_ENDED);
}

function moveStep(count: number, by: number): void {
  const next = Math.max(0, Math.min(count - 1, Math.min(step.value, count - 1) + by));
  step.value = next;
  if (next === count - 1) playing.value = false;
}

function togglePlaying(count: number): void {
  if (!playing.value && step.value >= count - 1) step.value = 0;
  playing.value = !playing.value;
}

/** Handles a key on the focused stage; false: not handled. */
function handleKey(name: string, count: number): boolean {
  if (name === " ") togglePlaying(count);
  else if (name === "ArrowRight") moveStep(count, 1);
  else if (name === "ArrowLeft") moveStep(count, -1);
  else return false;
  return true;
}

function Controls({ at, count, decoding }: { readonly at: number; readonly count: number; readonly decoding: Decoding }) {
  const button = (sign: string, name: Message, act: () => void) => (
    <button type="button" aria-label={t(name)} title={t(name)} onClick={act}>
      {sign}
    </button>
  );
  return (
    <div class="choices">
      {button("|◀", { ko: "처음으로", en: "to the start" }, () => (step.value = 0))}
      {button("◀", { ko: "이전 단계", en: "previous step" }, () => moveStep(count, -1))}
      <button type="button" class="generation-play" onClick={() => togglePlaying(count)}>
        {t(playing.value ? { ko: "일시 정지", en: "pause" } : { ko: "재생", en: "play" })}
      </button>
      {button("▶", { ko: "다음 단계", en: "next step" }, () => moveStep(count, 1))}
      <label class="choice generation-slider">
        {t({ ko: "단계", en: "step" })}
        <input type="range" min={1} max={count} value={at + 1} onInput={(event) => (step.value = event.currentTarget.valueAsNumber - 1)} />
        <output>
          {at + 1}/{count}
        </output>
      </label>
      <Choice title={{ ko: "속도", en: "speed" }} of={speed} options={SPEED} />
      <span>{methodText(decoding)}</span>
    </div>
  );
}

/** The method; of a sample with its seed. */
function methodText({ method, settings }: Decoding): string {
  return method === "sampling" ? `${t(METHOD.sampling)} · seed ${String(settings.seed)}` : t(METHOD[method]);
}

/** The readable pieces before a step. */
function piecesBefore(trace: Trace, decoding: Decoding, at: number): readonly string[] {
  return readablePieces(trace.sequence("target", sequence.value)).slice(0, Math.max(rowOfStep(decoding, at) + 1, 0));
}

/** The text before the step, and the chosen token. */
function Prefix({ trace, decoding, at }: { readonly trace: Trace; readonly decoding: Decoding; readonly at: number }) {
  const pieces = piecesBefore(trace, decoding, at);
  const { chosen: token } = decoding.steps[at];
  return (
    <p class="generation-prefix" aria-live={playing.value ? "off" : "polite"}>
      {pieces.length > MAX_PREFIX ? "… " : null}
      {pieces.slice(-MAX_PREFIX).map((piece, i) => (
        <bdi key={i}>{displayText(piece)}</bdi>
      ))}
      {token ? (
        <strong>
          <bdi>{displayText(token.piece)}</bdi>
        </strong>
      ) : (
        <em>{t({ ko: "(종료)", en: "(ended)" })}</em>
      )}
    </p>
  );
}

function Panel({ title, children }: { readonly title: Message; readonly children: ComponentChildren }) {
  return (
    <section>
      <h2>{t(title)}</h2>
      {children}
    </section>
  );
}

function Svg({ of: { content, width, height }, label }: { readonly of: Drawing; readonly label: string }) {
  return (
    <svg role="img" aria-label={label} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
      {content}
    </svg>
  );
}

function attentionBars(keys: AttentionRow, colours: DrawingColours): Drawing {
  return bars(keys.bars, colours, 240, Math.max(...keys.bars.flatMap(({ values }) => values.map(Number))));
}

function attentionNote({ block, head, fraction, bars: { length }, all }: AttentionRow): string {
  const headText = `${t(ROW[block])} · ${head}`;
  return length < all ? `${headText} · ${length}/${all}, ${Math.round(100 * fraction)} %` : headText;
}

function candidateBars(decoding: Decoding, at: number, colours: DrawingColours): Drawing {
  const listed = candidateRows(decoding.steps[at]);
  const both = isFiltered(decoding, at);
  return bars(
    listed.map(({ piece, before, after, forbidden, chosen }) => ({
      name: piece,
      values: both ? [before, after] : [before],
      strong: chosen,
      note: forbidden ? t({ ko: "금지", en: "banned" }) : chosen ? t(decoding.method === "given" ? GIVEN : CHOSEN) : undefined,
    })),
    colours,
    both ? 160 : 240,
    Math.max(0.05, ...listed.flatMap(({ before, after }) => [before ?? 0, after ?? 0])),
  );
}

/** Whether filters or penalties have changed the candidates of a step. */
function isFiltered({ steps }: Decoding, at: number): boolean {
  return steps[at].after.length > 0 && candidateRows(steps[at]).some(({ before, after }) => before === null || after === null || Math.abs(before - after) > 1e-6);
}

const GIVEN: Message = { ko: "주어짐", en: "given" };
const CHOSEN: Message = { ko: "선택", en: "chosen" };

function candidateNote(decoding: Decoding, at: number): string {
  const { chosen: token, before } = decoding.steps[at];
  if (!token) return t(ANSWER_ENDED);
  const rank = before.findIndex(({ id }) => id === token.id) + 1 || `> ${before.length}`;
  const log = Number.isFinite(token.log_probability) ? `, log p ${formatNumber(token.log_probability, 3)}` : "";
  const filters = isFiltered(decoding, at) ? t({ ko: " 회색: 필터 전, 색: 필터 후.", en: " Gray: before the filters; color: after." }) : "";
  return `${displayText(token.piece)}: ${t({ ko: "순위", en: "rank" })} ${rank}${log}.${filters}`;
}

function Tree({ decoding, at }: { readonly decoding: Decoding; readonly at: number }) {
  const { steps } = decoding;
  const tree = useMemo(() => layoutTree(steps, at), [steps, at]);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (box.current) box.current.scrollLeft = (at - tree.first + 1) * COLUMN - box.current.clientWidth / 2;
  }, [at]);
  if (tree.nodes.length === 0) return null;
  const { content, width, height } = beamTree(tree, at, PAGE_COLOURS, (beam, step) => rankingScore(decoding, beam, step));
  return (
    <Panel title={TREE}>
      <div ref={box} class="generation-tree" tabIndex={0} role="region" aria-label={t(TREE)}>
        <svg
          role="img"
          aria-label={treeNote(decoding, tree.first, tree.last)}
          width={width}
          height={height}
          onClick={(event) => {
            const { left } = event.currentTarget.getBoundingClientRect();
            const column = Math.floor((event.clientX - left) / COLUMN - 0.26);
            step.value = Math.max(tree.first, Math.min(tree.last, tree.first + column));
          }}
        >
          {content}
        </svg>
      </div>
      <p class="hint">{treeNote(decoding, tree.first, tree.last)}</p>
    </Panel>
  );
}

const TREE: Message = { ko: "빔 트리", en: "Beam tree" };

function treeNote(decoding: Decoding, first: number, last: number): string {
  const count = decoding.steps.length;
  const part = last - first + 1 < count ? ` (${first + 1}–${last + 1}/${count})` : "";
  const notes: Message[] = [{ ko: "굵은 선: 답. 사각형: 끝난 가설. 숫자: 로그 확률의 합.", en: "Thick: the answer. Squares: finished hypotheses. Numbers: sums of log-probabilities." }];
  const norm = normFormula(decoding);
  if (norm) notes.push({ ko: `=: 순위를 정한 점수 (합 ÷ ${norm}, t는 토큰 수).`, en: `=: the score that decided the rank (sum ÷ ${norm}, t tokens).` });
  if (decoding.settings.coverage) notes.push({ ko: "여기에 기록되지 않은 커버리지 점수가 더해집니다.", en: "The coverage score, which is not recorded, is added to it." });
  return notes.map(t).join(" ") + part;
}

function Cache({ trace, decoding: { steps }, at }: { readonly trace: Trace; readonly decoding: Decoding; readonly at: number }) {
  const written = cacheSteps(steps, at);
  const cached = steps[at].cache;
  const added = written.filter((each) => each === at).length;
  const { layers, key_heads, d_head } = trace.block("decoder");
  const numbers = `2 × ${layers} × ${key_heads} × ${d_head} × ${cached + added} = ${(2 * layers * key_heads * d_head * (cached + added)).toLocaleString("en")}`;
  const note = t({
    ko: `캐시된 위치 ${cached}개, 이 단계가 추가하는 위치 ${added}개 (색과 숫자: 추가한 단계). 키와 값 × 레이어 × 헤드 × 차원 × 위치: 수 ${numbers}개.`,
    en: `Cached: ${cached} positions; added by this step: ${added} (color and number: the step). Keys and values × layers × heads × dimensions × positions: ${numbers} numbers.`,
  });
  return (
    <Panel title={{ ko: "KV 캐시", en: "KV cache" }}>
      <Svg of={cacheStrip(written, steps.length, ink(shade.value), PAGE_COLOURS)} label={note} />
      <p class="hint">{note}</p>
    </Panel>
  );
}

function Settings({ settings }: Pick<Decoding, "settings">) {
  return (
    <details>
      <summary>{t({ ko: "설정", en: "Settings" })}</summary>
      <p>
        {Object.entries(settings)
          .map(([name, value]) => `${name} = ${String(value ?? "") || "–"}`)
          .join(" · ") || "–"}
      </p>
    </details>
  );
}

async function svg(trace: Trace): Promise<string> {
  const decoding = readableDecoding(trace, sequence.value);
  if (!decoding) return svgDocument(300, 40, "", label(10, 24, t(about.missing)));
  const at = Math.min(step.value, decoding.steps.length - 1);
  const keys = await attentionOfStep(trace, decoding, at);
  const candidates = candidateBars(decoding, at, PRINT_COLOURS);
  const attention = keys && attentionBars(keys, PRINT_COLOURS);
  const tree = decoding.steps.some(({ beams }) => beams.length) ? beamTree(layoutTree(decoding.steps, at), at, PRINT_COLOURS, (beam, step) => rankingScore(decoding, beam, step)) : null;
  const before = piecesBefore(trace, decoding, at).slice(-MAX_PREFIX).map(displayText).join(" ");
  const candidatesX = (attention?.width ?? 0) + 24;
  const treeY = 92 + Math.max(candidates.height, attention?.height ?? 0);
  const moved = (x: number, y: number, { content }: Drawing) => element("g", { transform: `translate(${x} ${y})` }, markup(content));
  return svgDocument(
    Math.max(candidatesX + candidates.width, tree?.width ?? 0) + 24,
    treeY + (tree ? tree.height : 0),
    `${t(about.title)} ${at + 1}/${decoding.steps.length}`,
    label(12, 22, `${at + 1}/${decoding.steps.length} · ${methodText(decoding)}`, { size: 11, fill: PRINT_COLOURS.faint }),
    label(12, 44, before, { bold: true }),
    keys && label(12, 68, attentionNote(keys), { size: 11, fill: PRINT_COLOURS.faint }),
    label(12 + candidatesX, 68, t({ ko: "후보: 필터 전 → 후", en: "candidates: before → after the filters" }), { size: 11, fill: PRINT_COLOURS.faint }),
    attention && moved(12, 78, attention),
    moved(12 + candidatesX, 78, candidates),
    tree && moved(0, treeY, tree),
  );
}

async function table(trace: Trace): Promise<(string | number)[][]> {
  const decoding = readableDecoding(trace, sequence.value);
  return [
    ["step", "id", "piece", "before", "after", "chosen"],
    ...(decoding?.steps ?? []).flatMap((each, i) =>
      candidateRows(each).map(({ id, piece, before, after, chosen }) => [i + 1, id, piece, before ?? "", after ?? "", chosen ? 1 : 0]),
    ),
  ];
}
