/** The calculation step by step, as the notes go through it; the page computes each number again. */

import { computed, type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useAsync } from "../../state/useAsync";
import { setting } from "../../state/settings";
import { focusedHead, step as stepNumber } from "../../state/state";
import { t } from "../../i18n/i18n";
import type { StageProps, ViewRenderer } from "../view";
import { valueAt } from "./arithmetic";
import "./calculation.css";
import { availableBugs } from "./bugs";
import { NumberGrid } from "./numberGrid";
import { LayerData } from "./layerData";
import { BugLab } from "./bugLab";
import { STEP_TEXTS } from "./lesson";
import { Heatmap } from "./heatmap";
import { svg, table } from "./picture";
import sources from "./sources.json";
import { type Cell, focusedCell, hoveredCell, lockedCell, type CellSignal, cellSetting } from "./cellFocus";
import { type Operand, type StepMatrix, type Step, steps } from "./steps";
import { formatNumber, formatDifference } from "./formatSum";

export const calculation: ViewRenderer = {
  Stage: Calculation,
  svg,
  table,
};

/** How a step came out: every number the same, some not, nothing to compare. */
type Mark = "✓" | "✗" | "·";

function Calculation({ trace }: StageProps) {
  const at = focusedHead.value;
  const all = useMemo(() => steps(trace, at), [trace, at]);
  const bugSetting = setting<string>("calculation", "fault", "");
  const marks = useMarks(all);
  const index = Math.min(stepNumber.value, all.length - 1);
  const go = (to: number) => {
    bugSetting.value = "";
    stepNumber.value = Math.max(0, Math.min(all.length - 1, to));
  };
  const last = useRef(index);
  useEffect(() => {
    if (last.current !== index) bugSetting.value = ""; // stepping on leaves the lab
    last.current = index;
    stepNumber.value = Math.min(stepNumber.value, all.length - 1); // perhaps another one by now
  });
  const bugs = availableBugs(trace, at);
  const selectedBug = bugs.find(({ id }) => id === bugSetting.value);
  return (
    <div class="calculation">
      <ol class="calculation-steps" aria-label={t({ ko: "걸음", en: "steps" })}>
        {all.map(({ id }, i) => (
          <li key={id}>
            <button type="button" data-role="step" aria-current={!selectedBug && i === index ? "step" : undefined} onClick={() => go(i)}>
              <span class={`calculation-mark calculation-${MARK_CLASSES[marks[i] ?? "·"]}`}>{marks[i] ?? "…"}</span> {t(STEP_TEXTS[id].title)}
            </button>
          </li>
        ))}
      </ol>
      <div class="calculation-main" tabIndex={0}>
        {selectedBug ? <BugLab key={selectedBug.id} trace={trace} bug={selectedBug} /> : <StepView step={all[index]} data={new LayerData(trace, at)} number={`${index + 1} / ${all.length}`} go={(by) => go(index + by)} />}
        <p class="calculation-slips">
          <b>{t({ ko: "실수 실험실", en: "Fault lab" })}</b>
          {bugs.map(({ id, title }) => (
            <button key={id} type="button" data-role="fault" aria-pressed={bugSetting.value === id} onClick={() => (bugSetting.value = bugSetting.value === id ? "" : id)}>
              {t(title)}
            </button>
          ))}
        </p>
      </div>
    </div>
  );
}

const MARK_CLASSES = { "✓": "good", "✗": "bad", "·": "open" } as const;

function markOf(sheets: readonly StepMatrix[]): Mark {
  const checks = sheets.flatMap(({ check }) => (check ? [check.agrees] : []));
  if (checks.length === 0) return "·";
  return checks.every((agrees) => agrees) ? "✓" : "✗";
}

/** The marks of all steps, one after the other as they are computed, so that the page stays awake. */
function useMarks(all: readonly Step[]): readonly (Mark | undefined)[] {
  const marks = useSignal<readonly (Mark | undefined)[]>([]);
  useEffect(() => {
    let active = true;
    marks.value = [];
    const run = async () => {
      for (const { load } of all) {
        const mark = await load().then(markOf, () => "·" as const);
        if (!active) return;
        marks.value = [...marks.value, mark];
        await new Promise((done) => setTimeout(done));
      }
    };
    void run();
    return () => {
      active = false;
    };
  }, [all]);
  return marks.value;
}

interface StepViewProps {
  readonly step: Step;
  readonly data: LayerData;
  readonly number: string;
  readonly go: (by: number) => void;
}

function StepView({ step, data, number: place, go }: StepViewProps) {
  const { value, error } = useAsync(async () => ({ step, sheets: await step.load() }), [step]);
  const part = setting<number>("calculation", "part", 0);
  const texts = STEP_TEXTS[step.id];
  const sheets = value?.step === step ? value.sheets : [];
  const sheet = sheets[Math.min(part.value, sheets.length - 1)];
  return (
    <>
      <div class="calculation-head">
        <button type="button" data-role="back" onClick={() => go(-1)} aria-label={t({ ko: "앞 걸음", en: "step before" })} title="⇧Space">◀</button>
        <button type="button" data-role="next" onClick={() => go(1)} aria-label={t({ ko: "다음 걸음", en: "next step" })} title="Space">▶</button>
        <h2>
          <small>{place}</small> {t(texts.title)}
        </h2>
        <p>{t(typeof texts.description === "function" ? texts.description(data) : texts.description)}</p>
      </div>
      <div class="calculation-told">
        {texts.formula?.(data)}
        <code data-role="shape">{step.shapes(sheet?.numbers.rows).map((shape) => `torch.Size([${shape.join(", ")}])`).join(" → ")}</code>
        <Source id={sourceOf(step, data, sheet)} />
        {texts.aside && <p class="calculation-aside">{t(texts.aside)}</p>}
      </div>
      {error && <p role="alert">{error}</p>}
      {sheets.length > 1 && (
        <p class="calculation-parts">
          {sheets.map(({ name }, i) => (
            <button key={name} type="button" aria-pressed={sheets[i] === sheet} onClick={() => (part.value = i)}>
              {name}
            </button>
          ))}
        </p>
      )}
      {sheet ? <MatrixView key={`${step.id} ${sheet.name}`} sheet={sheet} /> : value?.step === step && <NotRecorded />}
    </>
  );
}

function NotRecorded() {
  return (
    <p class="calculation-open">
      {t({
        ko: "이 기록에 없습니다 (우리 모델의 작은 기록에만).",
        en: "Not in this trace (small traces of jumok's models hold it).",
      })}
    </p>
  );
}

function sourceOf(step: Step, data: LayerData, sheet: StepMatrix | undefined): keyof typeof sources {
  if (step.id === "project" && sheet?.name === "Q") return "project_query";
  if (step.id === "widen" && data.model.gated) return "widen_gated";
  return step.id;
}

function Source({ id }: { readonly id: keyof typeof sources }) {
  const { file, line, code } = sources[id];
  return (
    <figure class="calculation-source">
      <figcaption>
        {file}:{line}
      </figcaption>
      <pre tabIndex={0}>{code}</pre>
    </figure>
  );
}

function MatrixView({ sheet }: { readonly sheet: StepMatrix }) {
  const { numbers, rows, columns, operands, formula } = sheet;
  const paired = columns !== undefined; // of queries and keys: the whole page follows
  const localFocus = useSignal<Cell | null>(null);
  const focus: CellSignal = paired ? hoveredCell : localFocus;
  const savedLock = useMemo(() => cellSetting(setting<string>("calculation", "cell", "")), []);
  const lock = paired ? lockedCell : savedLock;
  const text = sheet.text ?? ((r: number, c: number) => formatNumber(valueAt(numbers, r, c)));
  const selectedBug = useMemo(() => computed<Cell>(() => focusedCell(focus, lock, numbers.rows, numbers.columns) ?? [0, 0]), [sheet]);
  return (
    <>
      <Verdict sheet={sheet} />
      <Sum of={(r, c) => `${sheet.name}${columns ? ` ${rows[r]} → ${columns[c]}:` : `[${rows[r]}, ${c}] =`} ${formula(r, c)}${sheet.text ? "" : ` = ${text(r, c)}`}`} at={selectedBug} />
      <div class="calculation-work">
        {operands.length > 0 && <Operands of={operands} focus={selectedBug} />}
        <NumberGrid
          label={sheet.name}
          numbers={numbers}
          rows={rows}
          columns={columns}
          text={text}
          focus={focus}
          locked={lock}
          plain={sheet.text !== undefined}
          hidden={(r, c) => valueAt(numbers, r, c) === -Infinity}
        />
      </div>
    </>
  );
}

function Sum({ of, at }: { readonly of: (row: number, column: number) => string; readonly at: ReadonlySignal<Cell> }) {
  return (
    <output class="calculation-sum" data-role="sum">
      {of(...at.value)}
    </output>
  );
}

function Verdict({ sheet: { check, note } }: { readonly sheet: StepMatrix }) {
  return (
    <p class="calculation-verdict" data-role="verdict">
      {check && (
        <span class={check.agrees ? "calculation-good" : "calculation-bad"}>
          {check.agrees
            ? `✓ ${t({ ko: "페이지가 다시 계산해 확인함", en: "computed again by the page" })}`
            : `✗ ${t({ ko: "페이지의 계산과 다름", en: "the page computes otherwise" })}`}{" "}
          (|Δ| ≤ {formatDifference(check.worst)})
        </span>
      )}{" "}
      {note && <span class="calculation-open">{t(note)}</span>}
    </p>
  );
}

/** Small heatmaps of the matrices that a matrix was computed from; the row and column behind the focused cell are marked. */
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
