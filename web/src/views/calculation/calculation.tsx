/** The calculation step by step, as the notes go through it; the page computes each number again. */

import { computed, type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useAsync } from "../../state/useAsync";
import { setting } from "../../state/settings";
import { focusedHead, step as stepNumber } from "../../state/state";
import { t } from "../../i18n/i18n";
import type { StageProps, Drawn } from "../view";
import { cell } from "./arithmetic";
import "./calculation.css";
import { possible } from "./bugs";
import { Grid } from "./numberGrid";
import { Held } from "./layerData";
import { Lab } from "./bugLab";
import { LESSON } from "./lesson";
import { Heat } from "./heatmap";
import { svg, table } from "./picture";
import sources from "./sources.json";
import { type Cell, focusOf, hovered, locked, type Spot, written } from "./cellFocus";
import { type Operand, type Sheet, type Step, steps } from "./steps";
import { number, small } from "./formatSum";

export const calculation: Drawn = {
  Stage: Calculation,
  svg,
  table,
};

/** How a step came out: every number the same, some not, nothing to compare. */
type Mark = "✓" | "✗" | "·";

function Calculation({ trace }: StageProps) {
  const at = focusedHead.value;
  const all = useMemo(() => steps(trace, at), [trace, at]);
  const fault = setting<string>("calculation", "fault", "");
  const marks = useMarks(all);
  const index = Math.min(stepNumber.value, all.length - 1);
  const go = (to: number) => {
    fault.value = "";
    stepNumber.value = Math.max(0, Math.min(all.length - 1, to));
  };
  const last = useRef(index);
  useEffect(() => {
    if (last.current !== index) fault.value = ""; // stepping on leaves the lab
    last.current = index;
    stepNumber.value = Math.min(stepNumber.value, all.length - 1); // perhaps another one by now
  });
  const slips = possible(trace, at);
  const chosen = slips.find(({ id }) => id === fault.value);
  return (
    <div class="calculation">
      <ol class="calculation-steps" aria-label={t({ ko: "걸음", en: "steps" })}>
        {all.map(({ id }, i) => (
          <li key={id}>
            <button type="button" data-role="step" aria-current={!chosen && i === index ? "step" : undefined} onClick={() => go(i)}>
              <span class={`calculation-mark calculation-${KINDS[marks[i] ?? "·"]}`}>{marks[i] ?? "…"}</span> {t(LESSON[id].title)}
            </button>
          </li>
        ))}
      </ol>
      <div class="calculation-main" tabIndex={0}>
        {chosen ? <Lab key={chosen.id} trace={trace} fault={chosen} /> : <Shown step={all[index]} held={new Held(trace, at)} number={`${index + 1} / ${all.length}`} go={(by) => go(index + by)} />}
        <p class="calculation-slips">
          <b>{t({ ko: "실수 실험실", en: "Fault lab" })}</b>
          {slips.map(({ id, title }) => (
            <button key={id} type="button" data-role="fault" aria-pressed={fault.value === id} onClick={() => (fault.value = fault.value === id ? "" : id)}>
              {t(title)}
            </button>
          ))}
        </p>
      </div>
    </div>
  );
}

const KINDS = { "✓": "good", "✗": "bad", "·": "open" } as const;

function markOf(sheets: readonly Sheet[]): Mark {
  const checks = sheets.flatMap(({ check }) => (check ? [check.agrees] : []));
  if (checks.length === 0) return "·";
  return checks.every((agrees) => agrees) ? "✓" : "✗";
}

/** The marks of all steps, one after the other as they are computed, so that the page stays awake. */
function useMarks(all: readonly Step[]): readonly (Mark | undefined)[] {
  const marks = useSignal<readonly (Mark | undefined)[]>([]);
  useEffect(() => {
    let wanted = true;
    marks.value = [];
    const run = async () => {
      for (const { load } of all) {
        const mark = await load().then(markOf, () => "·" as const);
        if (!wanted) return;
        marks.value = [...marks.value, mark];
        await new Promise((done) => setTimeout(done));
      }
    };
    void run();
    return () => {
      wanted = false;
    };
  }, [all]);
  return marks.value;
}

interface ShownProps {
  readonly step: Step;
  readonly held: Held;
  readonly number: string;
  readonly go: (by: number) => void;
}

function Shown({ step, held, number: place, go }: ShownProps) {
  const { value, error } = useAsync(async () => ({ step, sheets: await step.load() }), [step]);
  const part = setting<number>("calculation", "part", 0);
  const told = LESSON[step.id];
  const sheets = value?.step === step ? value.sheets : [];
  const sheet = sheets[Math.min(part.value, sheets.length - 1)];
  return (
    <>
      <div class="calculation-head">
        <button type="button" data-role="back" onClick={() => go(-1)} aria-label={t({ ko: "앞 걸음", en: "step before" })} title="⇧Space">◀</button>
        <button type="button" data-role="next" onClick={() => go(1)} aria-label={t({ ko: "다음 걸음", en: "next step" })} title="Space">▶</button>
        <h2>
          <small>{place}</small> {t(told.title)}
        </h2>
        <p>{t(typeof told.said === "function" ? told.said(held) : told.said)}</p>
      </div>
      <div class="calculation-told">
        {told.formula?.(held)}
        <code data-role="shape">{step.shapes(sheet?.numbers.rows).map((shape) => `torch.Size([${shape.join(", ")}])`).join(" → ")}</code>
        <Source id={sourceOf(step, held, sheet)} />
        {told.aside && <p class="calculation-aside">{t(told.aside)}</p>}
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
      {sheet ? <Numbers key={`${step.id} ${sheet.name}`} sheet={sheet} /> : value?.step === step && <Absent />}
    </>
  );
}

function Absent() {
  return (
    <p class="calculation-open">
      {t({
        ko: "이 기록에 없습니다 (우리 모델의 작은 기록에만).",
        en: "Not in this trace (small traces of jumok's models hold it).",
      })}
    </p>
  );
}

function sourceOf(step: Step, held: Held, sheet: Sheet | undefined): keyof typeof sources {
  if (step.id === "project" && sheet?.name === "Q") return "project_query";
  if (step.id === "widen" && held.model.gated) return "widen_gated";
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

function Numbers({ sheet }: { readonly sheet: Sheet }) {
  const { numbers, rows, columns, operands, sum } = sheet;
  const paired = columns !== undefined; // of queries and keys: the whole page follows
  const own = useSignal<Cell | null>(null);
  const focus: Spot = paired ? hovered : own;
  const kept = useMemo(() => written(setting<string>("calculation", "cell", "")), []);
  const lock = paired ? locked : kept;
  const text = sheet.text ?? ((r: number, c: number) => number(cell(numbers, r, c)));
  const chosen = useMemo(() => computed<Cell>(() => focusOf(focus, lock, numbers.rows, numbers.columns) ?? [0, 0]), [sheet]);
  return (
    <>
      <Verdict sheet={sheet} />
      <Sum of={(r, c) => `${sheet.name}${columns ? ` ${rows[r]} → ${columns[c]}:` : `[${rows[r]}, ${c}] =`} ${sum(r, c)}${sheet.text ? "" : ` = ${text(r, c)}`}`} at={chosen} />
      <div class="calculation-work">
        {operands.length > 0 && <Operands of={operands} focus={chosen} />}
        <Grid
          label={sheet.name}
          numbers={numbers}
          rows={rows}
          columns={columns}
          text={text}
          focus={focus}
          locked={lock}
          plain={sheet.text !== undefined}
          hidden={(r, c) => cell(numbers, r, c) === -Infinity}
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

function Verdict({ sheet: { check, note } }: { readonly sheet: Sheet }) {
  return (
    <p class="calculation-verdict" data-role="verdict">
      {check && (
        <span class={check.agrees ? "calculation-good" : "calculation-bad"}>
          {check.agrees
            ? `✓ ${t({ ko: "페이지가 다시 계산해 확인함", en: "computed again by the page" })}`
            : `✗ ${t({ ko: "페이지의 계산과 다름", en: "the page computes otherwise" })}`}{" "}
          (|Δ| ≤ {small(check.worst)})
        </span>
      )}{" "}
      {note && <span class="calculation-open">{t(note)}</span>}
    </p>
  );
}

/** Small heatmaps of the matrices that a matrix was computed from; the row and column behind the focused cell are marked. */
function Operands({ of, focus }: { readonly of: readonly Operand[]; readonly focus: Spot }) {
  return (
    <div class="calculation-operands">
      {of.map(({ name, numbers, light }) => (
        <figure key={name}>
          <Heat label={name} numbers={numbers} rows={[]} width={130} height={96} focus={focus} locked={focus} light={light} />
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
