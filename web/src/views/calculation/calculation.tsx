/** The calculation of a layer step by step; the page recomputes every number. */

import { computed, type ReadonlySignal, type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useAsync } from "../../state/useAsync";
import { checkAsked, setting } from "../../state/settings";
import { focusedHead, step as stepNumber } from "../../state/state";
import { t } from "../../i18n/i18n";
import type { StageProps, ViewRenderer } from "../view";
import { type Numbers, valueAt } from "./arithmetic";
import "./calculation.css";
import { availableBugs } from "./bugs";
import { NumberGrid } from "./numberGrid";
import { LayerData } from "./layerData";
import { BugLab } from "./bugLab";
import { LESSON_OF, STEP_TEXTS, titleOf } from "./lesson";
import lessons from "./lessons.json";
import { Heatmap } from "./heatmap";
import { goBeyond, Path } from "./path";
import { svg, table } from "./picture";
import { sourceOf } from "./source";
import { type Cell, cellSetting, type CellSignal, focusedCell, hoveredCell, lockedCell } from "./cellFocus";
import { type Operand, type Step, type StepMatrix, steps } from "./steps";
import { formatNumber } from "../../draw/numbers";
import { formatDifference } from "./formatSum";

export const calculation: ViewRenderer = {
  Stage: Calculation,
  svg,
  table,
};

/** The result of a step: all numbers agree, some differ, nothing to compare. */
type Mark = "✓" | "✗" | "·";

function Calculation({ trace }: StageProps) {
  const at = focusedHead.value;
  const all = useMemo(() => steps(trace, at), [trace, at]);
  const data = useMemo(() => new LayerData(trace, at), [trace, at]);
  const bugSetting = setting<string>("calculation", "bug", "");
  const marks = useMarks(all);
  const index = Math.min(stepNumber.value, all.length - 1);
  const go = (to: number) => {
    bugSetting.value = "";
    if (to < 0) goBeyond(trace, -1);
    else if (to >= all.length) goBeyond(trace, 1);
    else stepNumber.value = to;
  };
  const before = useRef({ all, number: -1 }); // at the last rendering
  const last = useRef(index);
  useEffect(() => {
    if (last.current !== index) bugSetting.value = ""; // another step closes the bug lab
    last.current = index;
    const isLast = before.current.all === all && before.current.number === all.length - 1;
    if (isLast && stepNumber.value === all.length) return goBeyond(trace, 1); // Space at the last step
    stepNumber.value = Math.min(stepNumber.value, all.length - 1); // another layer may have fewer steps
    checkAsked({ t: stepNumber.value });
    before.current = { all, number: stepNumber.value };
  });
  const bugs = useMemo(() => availableBugs(trace, at), [trace, at]);
  const selectedBug = bugs.find(({ id }) => id === bugSetting.value);
  const list = useRef<HTMLOListElement>(null);
  useEffect(() => showCurrent(list.current), [index, selectedBug]);
  return (
    <div class="calculation" data-layer={`${at.block}.${at.layer}`}>
      <ol class="calculation-steps" ref={list} aria-label={t({ ko: "단계", en: "steps" })}>
        {all.map(({ id }, i) => (
          <li key={id}>
            <button type="button" data-role="step" aria-current={!selectedBug && i === index ? "step" : undefined} onClick={() => go(i)}>
              <span class={`calculation-mark calculation-${MARK_CLASSES[marks[i] ?? "·"]}`}>{marks[i] ?? "…"}</span> {t(titleOf(id, data))}
            </button>
          </li>
        ))}
      </ol>
      <div class="calculation-main" tabIndex={0}>
        <Path trace={trace} />
        {selectedBug ? <BugLab key={selectedBug.id} trace={trace} bug={selectedBug} /> : <StepView step={all[index]} data={data} progress={`${index + 1} / ${all.length}`} go={(by) => go(index + by)} />}
        <p class="calculation-bugs">
          <b>{t({ ko: "버그 실험실", en: "Bug lab" })}</b>
          {bugs.map(({ id, title }) => (
            <button key={id} type="button" data-role="bug" aria-pressed={bugSetting.value === id} onClick={() => (bugSetting.value = bugSetting.value === id ? "" : id)}>
              {t(title)}
            </button>
          ))}
        </p>
      </div>
    </div>
  );
}

/** Scrolls the list, not the page, to the current step. */
function showCurrent(list: HTMLElement | null): void {
  const box = list?.getBoundingClientRect();
  const step = list?.querySelector("[aria-current]")?.getBoundingClientRect();
  if (!list || !box || !step) return;
  list.scrollLeft += Math.min(0, step.left - box.left) + Math.max(0, step.right - box.right);
  list.scrollTop += Math.min(0, step.top - box.top) + Math.max(0, step.bottom - box.bottom);
}

const MARK_CLASSES = { "✓": "good", "✗": "bad", "·": "unchecked" } as const;

function markOf(matrices: readonly StepMatrix[]): Mark {
  const checks = matrices.flatMap(({ check }) => (check ? [check.agrees] : []));
  if (checks.length === 0) return "·";
  return checks.every((agrees) => agrees) ? "✓" : "✗";
}

/** The marks of all steps, computed one by one without blocking the page. */
function useMarks(all: readonly Step[]): readonly (Mark | undefined)[] {
  const marks = useSignal<{ of: readonly Step[]; found: readonly Mark[] }>({ of: all, found: [] });
  useEffect(() => {
    let active = true;
    marks.value = { of: all, found: [] };
    const run = async () => {
      for (const { load } of all) {
        const mark = await load().then(markOf, () => "·" as const);
        if (!active) return;
        marks.value = { of: all, found: [...marks.value.found, mark] };
        await new Promise((done) => setTimeout(done));
      }
    };
    void run();
    return () => {
      active = false;
    };
  }, [all]);
  return marks.value.of === all ? marks.value.found : []; // those of the layer before are not shown
}

interface StepViewProps {
  readonly step: Step;
  readonly data: LayerData;
  readonly progress: string;
  readonly go: (by: number) => void;
}

function StepView({ step, data, progress, go }: StepViewProps) {
  const { value, error } = useAsync(async () => ({ step, matrices: await step.load() }), [step]);
  const part = setting<number>("calculation", "part", 0);
  const texts = STEP_TEXTS[step.id];
  const matrices = value?.step === step ? value.matrices : [];
  const matrix = matrices[Math.min(part.value, matrices.length - 1)];
  return (
    <>
      <div class="calculation-head">
        <button type="button" data-role="back" onClick={() => go(-1)} aria-label={t({ ko: "이전 단계", en: "previous step" })} title="⇧Space">◀</button>
        <button type="button" data-role="next" onClick={() => go(1)} aria-label={t({ ko: "다음 단계", en: "next step" })} title="Space">▶</button>
        <h2>
          <small>{progress}</small> {t(titleOf(step.id, data))}
        </h2>
        <p>{t(typeof texts.description === "function" ? texts.description(data) : texts.description)}</p>
        <label class="choice">
          <input type="checkbox" data-role="ask" checked={asksFirst.value === true} onChange={(event) => (asksFirst.value = event.currentTarget.checked)} />
          {t({ ko: "결과를 보기 전에 예측", en: "predict before the result" })}
        </label>
      </div>
      <div class="calculation-texts">
        {texts.formula?.(data)}
        <code data-role="shape">{step.shapes(matrix?.numbers.rows, matrix?.name).map((shape) => `torch.Size([${shape.join(", ")}])`).join(" → ")}</code>
        <Source step={step} data={data} matrix={matrix} />
        {texts.remark && <p class="calculation-remark">{t(texts.remark)}</p>}
        <p class="calculation-remark" data-role="course">
          {t({ ko: "강의", en: "course" })} <code>jumok lesson {LESSON_OF[step.id]}</code>: {t(lessons[LESSON_OF[step.id]])}
        </p>
      </div>
      {error && <p role="alert">{error}</p>}
      {matrices.length > 1 && (
        <p class="calculation-parts">
          {matrices.map(({ name }, i) => (
            <button key={name} type="button" aria-pressed={matrices[i] === matrix} onClick={() => (part.value = i)}>
              {name}
            </button>
          ))}
        </p>
      )}
      {matrix ? <MatrixView key={`${step.id} ${matrix.name}`} matrix={matrix} /> : value?.step === step && <NotRecorded />}
    </>
  );
}

function NotRecorded() {
  return (
    <p class="calculation-unchecked">
      {t({
        ko: "이 트레이스에 없습니다 (jumok 모델의 작은 트레이스에만 기록되고, 작게 저장한 페이지에는 없을 수 있습니다).",
        en: "Not in this trace (recorded only in small traces of jumok models; a small saved page may leave it out).",
      })}
    </p>
  );
}

/** The lines of jumok that computed this step; nothing if other code did. */
function Source({ step, data, matrix }: { readonly step: Step; readonly data: LayerData; readonly matrix: StepMatrix | undefined }) {
  const source = sourceOf(step.id, data, matrix?.name);
  if (!source) return null;
  return (
    <figure class="calculation-source" data-role="source">
      <figcaption>
        {source.file}:{source.line}
      </figcaption>
      <pre tabIndex={0}>{source.code}</pre>
    </figure>
  );
}

/** Whether a step asks for a number before it shows the result. */
const asksFirst = setting<boolean>("calculation", "ask", false);

/** Asks for the number of one cell; the result is shown after it. */
function Question({ text, guess }: { readonly text: string; readonly guess: Signal<number | null> }) {
  return (
    <form
      class="calculation-question"
      data-role="predict"
      onSubmit={(event) => {
        event.preventDefault();
        guess.value = (event.currentTarget.elements.namedItem("guess") as HTMLInputElement).valueAsNumber; // NaN if it is empty
      }}
    >
      <p>{t({ ko: "먼저 예측해 보세요. 결과는 그 뒤에 표시됩니다.", en: "Predict first; the result is shown afterwards." })}</p>
      <output class="calculation-sum">{text}</output>
      <label>
        {t({ ko: "예측", en: "prediction" })} <input name="guess" type="number" step="any" size={8} />
      </label>{" "}
      <button type="submit">{t({ ko: "결과 보기", en: "show the result" })}</button>
    </form>
  );
}

function MatrixView({ matrix }: { readonly matrix: StepMatrix }) {
  const { numbers, rows, columns, operands, formula } = matrix;
  const paired = columns !== undefined; // rows are queries and columns are keys: linked to the focus of the page
  const localFocus = useSignal<Cell | null>(null);
  const focus: CellSignal = paired ? hoveredCell : localFocus;
  const savedLock = useMemo(() => cellSetting(setting<string>("calculation", "cell", "")), []);
  const lock = paired ? lockedCell : savedLock;
  const text = matrix.text ?? ((r: number, c: number) => formatNumber(valueAt(numbers, r, c)));
  const selectedBug = useMemo(() => computed<Cell>(() => focusedCell(focus, lock, numbers.rows, numbers.columns) ?? [0, 0]), [matrix]);
  const guess = useSignal<number | null>(null); // NaN: shown without a guess
  const [r, c] = selectedBug.value;
  if (asksFirst.value === true && !matrix.text && guess.value === null)
    return (
      <>
        <Question text={`${matrix.name}${columns ? ` ${rows[r]} → ${columns[c]}` : `[${rows[r]}, ${c}]`} = ${formula(r, c)} = ?`} guess={guess} />
        {operands.length > 0 && <Operands of={operands} focus={selectedBug} />}
      </>
    );
  return (
    <>
      {guess.value !== null && Number.isFinite(guess.value) && (
        <p class="calculation-remark" data-role="guess" aria-live="polite">
          {t({ ko: `예측 ${formatNumber(guess.value)}, 실제 ${formatNumber(valueAt(numbers, r, c))}`, en: `predicted ${formatNumber(guess.value)}, actual ${formatNumber(valueAt(numbers, r, c))}` })}
        </p>
      )}
      <Verdict matrix={matrix} />
      <Sum of={(r, c) => `${matrix.name}${columns ? ` ${rows[r]} → ${columns[c]}:` : `[${rows[r]}, ${c}] =`} ${formula(r, c)}${matrix.text ? "" : ` = ${text(r, c)}`}`} at={selectedBug} />
      <div class="calculation-work">
        {operands.length > 0 && <Operands of={operands} focus={selectedBug} />}
        <NumberGrid
          label={matrix.name}
          numbers={numbers}
          rows={rows}
          columns={columns}
          text={matrix.text}
          reveal={columnToShow(numbers)}
          focus={focus}
          locked={lock}
          plain={matrix.text !== undefined}
          hidden={(r, c) => valueAt(numbers, r, c) === -Infinity}
        />
      </div>
    </>
  );
}

/** The last masked column; undefined: none. */
function columnToShow({ rows, columns, data }: Numbers): number | undefined {
  const masked = (column: number) => Array.from({ length: rows }, (_, row) => data[row * columns + column]).some((value) => value === -Infinity);
  const found = Array.from({ length: columns }, (_, column) => column).findLast(masked);
  return found;
}

function Sum({ of, at }: { readonly of: (row: number, column: number) => string; readonly at: ReadonlySignal<Cell> }) {
  return (
    <output class="calculation-sum" data-role="sum">
      {of(...at.value)}
    </output>
  );
}

function Verdict({ matrix: { check, note } }: { readonly matrix: StepMatrix }) {
  return (
    <p class="calculation-verdict" data-role="verdict">
      {check && (
        <span class={check.agrees ? "calculation-good" : "calculation-bad"}>
          {check.agrees
            ? `✓ ${t({ ko: "페이지가 다시 계산한 값과 일치", en: "agrees with the values recomputed by the page" })}`
            : `✗ ${t({ ko: "페이지가 다시 계산한 값과 다름", en: "differs from the values recomputed by the page" })}`}{" "}
          (|Δ| ≤ {formatDifference(check.worst)})
        </span>
      )}{" "}
      {note && <span class="calculation-unchecked">{t(note)}</span>}
    </p>
  );
}

/** Small heatmaps of the operands of a matrix; the row and column of the focused cell are marked. */
function Operands({ of, focus }: { readonly of: readonly Operand[]; readonly focus: CellSignal }) {
  return (
    <div class="calculation-operands">
      {of.map(({ name, numbers, highlight }) => (
        <figure key={name}>
          <Heatmap label={name} numbers={numbers} rows={[]} width={130} height={96} focus={focus} locked={focus} highlight={highlight} />
          <figcaption>
            {name}{" "}
            <small>
              ({numbers.rows}, {numbers.columns})
            </small>
          </figcaption>
        </figure>
      ))}
    </div>
  );
}
