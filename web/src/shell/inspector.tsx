/** The inspector: exact numbers of the focused query and key, and a sentence about them. */

import type { ComponentChildren } from "preact";
import { formatNumber } from "../draw/numbers";
import { displayText } from "../draw/text";
import { drawnFraction, focusedHead, focusKey, focusQuery, key, language, query, sequence } from "../state/state";
import { useAsync } from "../state/useAsync";
import { hoveredByKeyboard } from "../state/actions";
import { displayOptions } from "../trace/display";
import type { Trace } from "../trace/trace";
import { BLOCKS, headName } from "../i18n/blocks";
import { particle, t } from "../i18n/i18n";
import { type FocusDetails, focusDetails } from "./focusDetails";

export function Inspector({ trace }: { readonly trace: Trace }) {
  const { value, error } = useAsync(async () => {
    const [location, queryPiece, keyText, options] = [focusedHead.value, focusQuery.value, focusKey.value, displayOptions()];
    return queryPiece === null ? null : focusDetails(trace, location, queryPiece, keyText, options);
  }, [trace]);
  const { block } = focusedHead.value;
  return (
    <>
      <h2>{t({ ko: "상세 정보", en: "Inspector" })}</h2>
      <p class="inspector-place">
        {t(BLOCKS[block])} {headName(focusedHead.value)}
      </p>
      {error && <p role="alert">{error}</p>}
      {!value && !error && (
        <p class="hint">
          {t({
            ko: "토큰이나 셀에 마우스를 올리면 정확한 수치가 표시됩니다. 클릭하면 고정되고, Esc로 해제합니다.",
            en: "Hover over a token or a cell to see its exact numbers. Click to lock them, press Esc to unlock.",
          })}
        </p>
      )}
      {value && <Details value={value} trace={trace} />}
      <Caution trace={trace} />
    </>
  );
}

function Details({ value, trace }: { readonly value: FocusDetails; readonly trace: Trace }) {
  const { score } = value;
  const { block, layer, head } = focusedHead.value;
  const half = trace.hasExactWeights(focusedHead.value) && trace.dtype(`${block}.${layer}.weights`) === "F16";
  const hidden = value.visibility !== "unmasked";
  const muted = trace.info.muted.some((each) => each.join() === [block, layer, head].join());
  const mutedFactor = muted && t({ ko: " × 0 (꺼진 헤드)", en: " × 0 (muted head)" });
  const locked = query.value !== null && focusQuery.value === query.value && focusKey.value === key.value;
  return (
    <div class={locked ? "details locked" : "details"}>
      <p class="sentence" aria-live={hoveredByKeyboard.value ? "polite" : "off"}>
        <Sentence value={value} />
      </p>
      <dl>
        {value.key && (
          <>
            <Row name="weight" of={value.weight} title={t({ ko: "가중치", en: "weight" })} strong>
              {sixDecimals(value.weight)}
              {!value.exact && ` ±${trace.thumbnailError}`}
            </Row>
            <Row name="rank" of={value.rank} title={t({ ko: "순위", en: "rank" })}>
              {value.rank} / {value.visibleKeys}
            </Row>
            {value.displayed !== null && (
              <Row name="displayed" of={value.displayed} title={t({ ko: "표시된 값", en: "as displayed" })}>
                {sixDecimals(value.displayed)}
              </Row>
            )}
            {score && (
              <>
                <Row name="product" of={score.product} title="q·k">
                  {sixDecimals(score.product)}
                </Row>
                <Row name="scale" of={score.scale} title={t({ ko: "스케일", en: "scale" })}>
                  × {sixDecimals(score.scale)}
                  {asRoot(score.scale)}
                </Row>
                {score.bias !== null && (
                  <Row name="bias" of={score.bias} title={t({ ko: "위치 편향", en: "position bias" })}>
                    {sixDecimals(score.bias)}
                  </Row>
                )}
                <Row name="score" of={score.score} title={t({ ko: "점수 (마스크 전)", en: "score (before the mask)" })}>
                  {sixDecimals(score.score)}
                </Row>
              </>
            )}
            <Row name="mask" of={value.visibility} title={t({ ko: "마스크", en: "mask" })}>
              {t(VISIBILITY[value.visibility])}
            </Row>
            {value.norm !== null && (
              <>
                <Row name="value-norm" of={value.norm} title="‖v W_O‖">
                  {sixDecimals(value.norm)}
                </Row>
                <Row
                  name="weighted-norm"
                  of={value.norm * value.weight}
                  title={t({ ko: "가중치 × ‖v W_O‖", en: "weight × ‖v W_O‖" })}
                >
                  {sixDecimals(value.norm * value.weight)}
                </Row>
              </>
            )}
          </>
        )}
        <Row name="entropy" of={value.entropy} title={t({ ko: "행의 엔트로피", en: "row entropy" })}>
          {value.entropy.toFixed(3)} bit <small>≤ {Math.log2(Math.max(value.visibleKeys, 1)).toFixed(2)}</small>
        </Row>
        {drawnFraction.value !== null && (
          <Row name="drawn" of={drawnFraction.value} title={t({ ko: "표시된 비율", en: "fraction drawn" })}>
            {percent(drawnFraction.value)}
          </Row>
        )}
      </dl>
      {score && (
        <p class="formula">
          softmax<sub>k</sub>( {score.softcap && `${fourDecimals(score.softcap)}·tanh( `}q·k × {fourDecimals(score.scale)}
          {score.softcap && ` / ${fourDecimals(score.softcap)} )`}
          {score.bias === null ? "" : " + b"}
          {hidden && " + −∞"} ){mutedFactor} = softmax<sub>k</sub>( {hidden ? "−∞" : fourDecimals(score.score)} ){mutedFactor} = {sixDecimals(value.weight)}
        </p>
      )}
      <h3>{t({ ko: "이 쿼리의 가중치가 가장 큰 키", en: "Keys with the largest weights" })}</h3>
      <ol class="top-keys">
        {value.topKeys.map(({ label, weight }) => (
          <li key={label.pieces[0]}>
            <bdi>{displayText(label.text)}</bdi>
            <span class="bar" style={{ width: `${Math.max(1, Math.round(weight * 80))}px` }} />
            <span class="number">{weight.toFixed(4)}</span>
          </li>
        ))}
      </ol>
      {half && (
        <p class="hint">
          {t({
            ko: "이 트레이스는 float16이므로 유효 숫자는 4자리입니다.",
            en: "This trace is float16: four digits are significant.",
          })}
        </p>
      )}
    </div>
  );
}

interface RowProps {
  readonly name: string;
  readonly of: number | string;
  readonly title: string;
  readonly strong?: boolean;
  readonly children: ComponentChildren;
}

function Row({ name, of, title, strong, children }: RowProps) {
  return (
    <div class={strong ? "number-row strong" : "number-row"}>
      <dt>{title}</dt>
      <dd data-name={name} data-value={String(of)}>
        {children}
      </dd>
    </div>
  );
}

const VISIBILITY = {
  unmasked: { ko: "마스크 안 됨", en: "not masked" },
  padding: { ko: "마스크됨: 패딩", en: "masked: padding" },
  later: { ko: "마스크됨: 뒤의 토큰", en: "masked: later token" },
  masked: { ko: "마스크됨", en: "masked" },
};

function Sentence({ value }: { readonly value: FocusDetails }) {
  const queryText = displayText(value.query.text);
  const keyText = value.key && displayText(value.key.text);
  const fraction = percent(value.weight);
  return language.value === "ko" ? (
    <>
      쿼리 <bdi>{queryText}</bdi>
      {keyText ? (
        <>
          {particle(queryText, "은", "는")} 키 <bdi>{keyText}</bdi>
          {value.visibility === "unmasked" ? `에 가중치 ${fraction}를 둡니다.` : "에 어텐션할 수 없습니다 (마스크)."}
        </>
      ) : (
        ": 키를 선택하면 가중치가 표시됩니다."
      )}
    </>
  ) : (
    <>
      Query <bdi>{queryText}</bdi>
      {keyText ? (
        <>
          {value.visibility === "unmasked" ? " attends to key " : " is masked from key "}
          <bdi>{keyText}</bdi>
          {value.visibility === "unmasked" ? ` with weight ${fraction}.` : "."}
        </>
      ) : (
        ": select a key for the weight."
      )}
    </>
  );
}

function Caution({ trace }: { readonly trace: Trace }) {
  const agreement = trace.info.classification?.sequences[sequence.value]?.agreement ?? null;
  return (
    <section class="caution" data-role="caution">
      <h3>{t({ ko: "어텐션은 설명이 아닙니다", en: "Attention is not explanation" })}</h3>
      <p>
        {t({
          ko: "가중치는 헤드가 어느 토큰을 읽었는지만 보여 주며, 모델이 그렇게 예측한 이유는 아닙니다.",
          en: "Weights show which tokens a head read, not why the model made its prediction.",
        })}{" "}
        {agreement !== null && (
          <>
            {t({
              ko: "이 텍스트에서 단어를 삭제했을 때의 변화와 어텐션의 순위 상관계수는 ",
              en: "For this text, the rank correlation between attention and the effect of deleting a word is ",
            })}
            <b data-name="agreement" data-value={String(agreement)}>
              {formatNumber(agreement, 2)}
            </b>
            .
          </>
        )}
      </p>
    </section>
  );
}

/** Six decimals; very small numbers in scientific notation. */
export function sixDecimals(number: number): string {
  if (number !== 0 && Math.abs(number) < 5e-7) return number.toExponential(3).replace("-", "−");
  return number.toFixed(6).replace("-", "−");
}

function fourDecimals(number: number): string {
  return number
    .toFixed(4)
    .replace(/\.?0+$/, "")
    .replace("-", "−");
}

function percent(fraction: number): string {
  return `${(100 * fraction).toFixed(fraction < 0.1 ? 2 : 1)}\u00a0%`;
}

/** " = 1/√64", if the scale is one over a square root. */
function asRoot(scale: number): string {
  const under = 1 / scale ** 2;
  return Math.abs(under - Math.round(under)) < 1e-4 && under > 1.5 ? ` = 1/√${Math.round(under)}` : "";
}
