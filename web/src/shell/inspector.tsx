/** The inspector: exact numbers of the query and key in focus, and what they say in words. */

import type { ComponentChildren } from "preact";
import { displayText } from "../draw/text";
import { drawnFraction } from "../state/coverage";
import { useAsync } from "../state/useAsync";
import { hoveredByKeyboard } from "../state/actions";
import { focusKey, focusQuery, key, language, focusedHead, query, sequence } from "../state/state";
import { displayOptions } from "../trace/display";
import type { Trace } from "../trace/trace";
import { BLOCKS, headName } from "../i18n/blocks";
import { particle } from "../i18n/particles";
import { t } from "../i18n/i18n";
import { type FocusDetails, focusDetails } from "./focusDetails";

export function Inspector({ trace }: { readonly trace: Trace }) {
  const { value, error } = useAsync(async () => {
    const [location, queryPiece, keyText, options] = [focusedHead.value, focusQuery.value, focusKey.value, displayOptions()];
    return queryPiece === null ? null : focusDetails(trace, location, queryPiece, keyText, options);
  }, [trace]);
  const { block } = focusedHead.value;
  return (
    <>
      <h2>{t({ ko: "자세히", en: "In numbers" })}</h2>
      <p class="inspector-place">
        {t(BLOCKS[block])} {headName(focusedHead.value)}
      </p>
      {error && <p role="alert">{error}</p>}
      {!value && !error && (
        <p class="hint">
          {t({
            ko: "토큰이나 칸을 가리키면 정확한 수가 여기 나옵니다. 누르면 고정되고, Esc로 풉니다.",
            en: "Point at a token or a cell and its exact numbers stand here. A click locks them, Esc frees them.",
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
  const hidden = value.visibility !== "seen";
  const muted = trace.info.muted.some((each) => each.join() === [block, layer, head].join());
  const silenced = muted && t({ ko: " × 0 (꺼진 머리)", en: " × 0 (muted head)" });
  const locked = query.value !== null && focusQuery.value === query.value && focusKey.value === key.value;
  return (
    <div class={locked ? "told locked" : "told"}>
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
              <Row name="pictured" of={value.displayed} title={t({ ko: "그림에서는", en: "as drawn" })}>
                {sixDecimals(value.displayed)}
              </Row>
            )}
            {score && (
              <>
                <Row name="product" of={score.product} title="q·k">
                  {sixDecimals(score.product)}
                </Row>
                <Row name="scale" of={score.scale} title={t({ ko: "배율", en: "scale" })}>
                  × {sixDecimals(score.scale)}
                  {asRoot(score.scale)}
                </Row>
                {score.bias !== null && (
                  <Row name="bias" of={score.bias} title={t({ ko: "위치 편향", en: "position bias" })}>
                    {sixDecimals(score.bias)}
                  </Row>
                )}
                <Row name="score" of={score.score} title={t({ ko: "점수 (가림 전)", en: "score (unmasked)" })}>
                  {sixDecimals(score.score)}
                </Row>
              </>
            )}
            <Row name="mask" of={value.visibility} title={t({ ko: "가림", en: "mask" })}>
              {t(VISIBILITY[value.visibility])}
            </Row>
            {value.norm !== null && (
              <>
                <Row name="value-norm" of={value.norm} title="‖v W_O‖">
                  {sixDecimals(value.norm)}
                </Row>
                <Row
                  name="arrives"
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
          <Row name="drawn" of={drawnFraction.value} title={t({ ko: "그려진 몫", en: "share drawn" })}>
            {percent(drawnFraction.value)}
          </Row>
        )}
      </dl>
      {score && (
        <p class="formula">
          softmax<sub>k</sub>( {score.softcap && `${fourDecimals(score.softcap)}·tanh( `}q·k × {fourDecimals(score.scale)}
          {score.softcap && ` / ${fourDecimals(score.softcap)} )`}
          {score.bias === null ? "" : " + b"}
          {hidden && " + −∞"} ){silenced} = softmax<sub>k</sub>( {hidden ? "−∞" : fourDecimals(score.score)} ){silenced} = {sixDecimals(value.weight)}
        </p>
      )}
      <h3>{t({ ko: "이 질의가 가장 많이 보는 것", en: "What this query attends to most" })}</h3>
      <ol class="likeliest">
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
            ko: "이 기록은 float16: 4자리까지 믿을 수 있습니다.",
            en: "This trace is float16: four digits are sure.",
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
  seen: { ko: "보임", en: "seen" },
  padding: { ko: "가려짐: 패딩", en: "hidden: padding" },
  later: { ko: "가려짐: 뒤에 옴", en: "hidden: comes later" },
  hidden: { ko: "가려짐", en: "hidden" },
};

function Sentence({ value }: { readonly value: FocusDetails }) {
  const queryText = displayText(value.query.text);
  const keyText = value.key && displayText(value.key.text);
  const fraction = percent(value.weight);
  return language.value === "ko" ? (
    <>
      질의 <bdi>{queryText}</bdi>
      {keyText ? (
        <>
          {particle(queryText, "이", "가")} 키 <bdi>{keyText}</bdi>
          {particle(keyText, "을", "를")} {value.visibility === "seen" ? `${fraction} 봅니다.` : "볼 수 없습니다."}
        </>
      ) : (
        `: 키를 고르면 가중치가 나옵니다.`
      )}
    </>
  ) : (
    <>
      Query <bdi>{queryText}</bdi>
      {keyText ? (
        <>
          {value.visibility === "seen" ? ` gives ${fraction} of its attention to key ` : " may not see key "}
          <bdi>{keyText}</bdi>.
        </>
      ) : (
        ": choose a key for the weight."
      )}
    </>
  );
}

function Caution({ trace }: { readonly trace: Trace }) {
  const agreement = trace.info.classification?.sequences[sequence.value]?.agreement ?? null;
  return (
    <section class="caution" data-role="caution">
      <h3>{t({ ko: "주목은 이유가 아닙니다", en: "Attention is not a reason" })}</h3>
      <p>
        {t({
          ko: "가중치는 어디를 읽었는지일 뿐, 왜 그렇게 답했는지가 아닙니다.",
          en: "Weights tell where a head read, not why the model answered as it did.",
        })}{" "}
        {agreement !== null && (
          <>
            {t({
              ko: "여기서 낱말을 지웠을 때의 변화와 주목의 순위상관은 ",
              en: "Here the rank correlation of attention and the change by deleting a word is ",
            })}
            <b data-name="agreement" data-value={String(agreement)}>
              {agreement.toFixed(2).replace("-", "−")}
            </b>
            .
          </>
        )}
      </p>
    </section>
  );
}

/** Six digits behind the point; very small numbers by their power of ten. */
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

/** " = 1/√64", where it is a root. */
function asRoot(scale: number): string {
  const under = 1 / scale ** 2;
  return Math.abs(under - Math.round(under)) < 1e-4 && under > 1.5 ? ` = 1/√${Math.round(under)}` : "";
}
