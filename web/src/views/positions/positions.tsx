/** Positions: encodings from indices to sines and cosines, then the encoding of the model. */

import { redBlue } from "../../draw/colours";
import { signedTone } from "../../draw/paint";
import { setting } from "../../state/settings";
import { focusedHead } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { t } from "../../i18n/i18n";
import { matrixSvg, matrixTable } from "../calculation/picture";
import type { StageProps, ViewRenderer } from "../view";
import { hasPositions, ModelPositions, modelPositionTable, type NamedTable, numbered } from "./modelPositions";
import "./positions.css";
import { d, delta, ENCODINGS, n, p } from "./encodings";

export const positions: ViewRenderer = {
  Stage,
  svg: async (trace) => {
    const found = await displayedTable(trace);
    const max = Array.from(found.numbers.data).reduce((max, value) => Math.max(max, Math.abs(value)), 0);
    const scale = { ramp: redBlue("light"), tone: signedTone(max), zero: 0.5 }; // as on the screen
    return matrixSvg(found.title, found, { scale });
  },
  table: async (trace) => matrixTable(await displayedTable(trace)),
};

/** The displayed matrix: of an encoding, or of the model. Throws if the model has none. */
async function displayedTable(trace: Trace): Promise<NamedTable> {
  const chosen = ENCODINGS[chosenEncoding(trace)];
  if (!chosen) return modelPositionTable(trace, focusedHead.value);
  const numbers = chosen.numbers();
  return { title: t(chosen.title), numbers, rows: numbered(numbers.rows) };
}

const OWN = -1; // the encoding of the model
const encodingSetting = () => setting<number>("positions", "encoding", OWN);

/** The number of the encoding; sines and cosines have a page of their own, and are shown for a trace without positions. */
function chosenEncoding(trace: Trace): number {
  const { value } = encodingSetting();
  if (value >= 0) return Math.min(value, ENCODINGS.length);
  return trace.info.model.positions === "sinusoidal" || !hasPositions(trace, focusedHead.value) ? 4 : ENCODINGS.length;
}

function Stage({ trace }: StageProps) {
  const at = chosenEncoding(trace);
  const chosen = ENCODINGS[at];
  return (
    <div class="positions">
      <ol class="positions-ladder" aria-label={t({ ko: "위치 인코딩", en: "positional encodings" })}>
        {[...ENCODINGS.map(({ title }) => title), { ko: "이 모델", en: "this model" }].map((title, i) => (
          <li key={title.en}>
            <button type="button" data-role="encoding" aria-current={i === at ? "step" : undefined} onClick={() => (encodingSetting().value = i)}>
              {i + 1} · {t(title)}
            </button>
          </li>
        ))}
      </ol>
      <div class="positions-main" tabIndex={0}>
        {chosen ? (
          <>
            <h2>{t(chosen.title)}</h2>
            {chosen.formula()}
            <p>{t(chosen.description())}</p>
            <p class="positions-sliders">
              <Slider label="n" of={n()} from={2} to={256} />
              {chosen.uses.includes("d") && <Slider label="d" of={d()} from={2} to={256} by={2} />}
              {chosen.uses.includes("base") && <Slider label="log₁₀ base" of={setting<number>("positions", "base", 4)} from={1} to={6} by={0.5} />}
              <Slider label="p" of={p()} from={0} to={n().value - 1} />
              {chosen.uses.includes("delta") && <Slider label="Δ" of={delta()} from={0} to={64} />}
            </p>
            <chosen.Picture />
          </>
        ) : (
          <ModelPositions trace={trace} />
        )}
      </div>
    </div>
  );
}

interface SliderProps {
  readonly label: string;
  readonly of: { value: number };
  readonly from: number;
  readonly to: number;
  readonly by?: number;
}

function Slider({ label, of, from, to, by = 1 }: SliderProps) {
  return (
    <label>
      {label}{" "}
      <input type="range" min={from} max={to} step={by} value={of.value} data-role={`slider-${label}`} onInput={(event) => (of.value = Number(event.currentTarget.value))} />{" "}
      <output>{of.value}</output>
    </label>
  );
}
