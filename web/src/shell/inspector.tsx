/** The inspector: exact numbers of the query and key in focus, and what they say in words. */

import type { ComponentChildren } from "preact";
import { display } from "../draw/text";
import { drawnShare } from "../state/drawn";
import { useLoaded } from "../state/loaded";
import { byKeyboard } from "../state/moves";
import { focusKey, focusQuery, key, language, place, query, sequence } from "../state/state";
import { showing } from "../trace/shown";
import type { Trace } from "../trace/trace";
import { BLOCKS, headName } from "../words/blocks";
import { particle } from "../words/particles";
import { say } from "../words/words";
import { type Look, look } from "./looking";

export function Inspector({ trace }: { readonly trace: Trace }) {
  const { value, error } = useLoaded(async () => {
    const [now, asked, looked, how] = [place.value, focusQuery.value, focusKey.value, showing()];
    return asked === null ? null : look(trace, now, asked, looked, how);
  }, [trace]);
  const { block } = place.value;
  return (
    <>
      <h2>{say({ ko: "자세히", en: "In numbers" })}</h2>
      <p class="inspector-place">
        {say(BLOCKS[block])} {headName(place.value)}
      </p>
      {error && <p role="alert">{error}</p>}
      {!value && !error && (
        <p class="hint">
          {say({
            ko: "토큰이나 칸을 가리키면 정확한 수가 여기 나옵니다. 누르면 고정되고, Esc로 풉니다.",
            en: "Point at a token or a cell and its exact numbers stand here. A click locks them, Esc frees them.",
          })}
        </p>
      )}
      {value && <Told value={value} trace={trace} />}
      <Caution trace={trace} />
    </>
  );
}

function Told({ value, trace }: { readonly value: Look; readonly trace: Trace }) {
  const { score } = value;
  const { block, layer, head } = place.value;
  const half = trace.exact(place.value) && trace.dtype(`${block}.${layer}.weights`) === "F16";
  const hidden = value.sight !== "seen";
  const muted = trace.info.muted.some((each) => each.join() === [block, layer, head].join());
  const silenced = muted && say({ ko: " × 0 (꺼진 머리)", en: " × 0 (muted head)" });
  const locked = query.value !== null && focusQuery.value === query.value && focusKey.value === key.value;
  return (
    <div class={locked ? "told locked" : "told"}>
      <p class="sentence" aria-live={byKeyboard.value ? "polite" : "off"}>
        <Sentence value={value} />
      </p>
      <dl>
        {value.key && (
          <>
            <Row name="weight" of={value.weight} title={say({ ko: "가중치", en: "weight" })} strong>
              {six(value.weight)}
              {!value.exact && ` ±${trace.within}`}
            </Row>
            <Row name="rank" of={value.rank} title={say({ ko: "순위", en: "rank" })}>
              {value.rank} / {value.of}
            </Row>
            {value.pictured !== null && (
              <Row name="pictured" of={value.pictured} title={say({ ko: "그림에서는", en: "as drawn" })}>
                {six(value.pictured)}
              </Row>
            )}
            {score && (
              <>
                <Row name="product" of={score.product} title="q·k">
                  {six(score.product)}
                </Row>
                <Row name="scale" of={score.scale} title={say({ ko: "배율", en: "scale" })}>
                  × {six(score.scale)}
                  {root(score.scale)}
                </Row>
                {score.bias !== null && (
                  <Row name="bias" of={score.bias} title={say({ ko: "위치 편향", en: "position bias" })}>
                    {six(score.bias)}
                  </Row>
                )}
                <Row name="score" of={score.score} title={say({ ko: "점수 (가림 전)", en: "score (unmasked)" })}>
                  {six(score.score)}
                </Row>
              </>
            )}
            <Row name="mask" of={value.sight} title={say({ ko: "가림", en: "mask" })}>
              {say(SIGHT[value.sight])}
            </Row>
            {value.norm !== null && (
              <>
                <Row name="value-norm" of={value.norm} title="‖v W_O‖">
                  {six(value.norm)}
                </Row>
                <Row
                  name="arrives"
                  of={value.norm * value.weight}
                  title={say({ ko: "가중치 × ‖v W_O‖", en: "weight × ‖v W_O‖" })}
                >
                  {six(value.norm * value.weight)}
                </Row>
              </>
            )}
          </>
        )}
        <Row name="entropy" of={value.entropy} title={say({ ko: "행의 엔트로피", en: "row entropy" })}>
          {value.entropy.toFixed(3)} bit <small>≤ {Math.log2(Math.max(value.of, 1)).toFixed(2)}</small>
        </Row>
        {drawnShare.value !== null && (
          <Row name="drawn" of={drawnShare.value} title={say({ ko: "그려진 몫", en: "share drawn" })}>
            {percent(drawnShare.value)}
          </Row>
        )}
      </dl>
      {score && (
        <p class="formula">
          softmax<sub>k</sub>( {score.softcap && `${short(score.softcap)}·tanh( `}q·k × {short(score.scale)}
          {score.softcap && ` / ${short(score.softcap)} )`}
          {score.bias === null ? "" : " + b"}
          {hidden && " + −∞"} ){silenced} = softmax<sub>k</sub>( {hidden ? "−∞" : short(score.score)} ){silenced} = {six(value.weight)}
        </p>
      )}
      <h3>{say({ ko: "이 질의가 가장 많이 보는 것", en: "What this query attends to most" })}</h3>
      <ol class="likeliest">
        {value.likeliest.map(({ label, weight }) => (
          <li key={label.pieces[0]}>
            <bdi>{display(label.text)}</bdi>
            <span class="bar" style={{ width: `${Math.max(1, Math.round(weight * 80))}px` }} />
            <span class="number">{weight.toFixed(4)}</span>
          </li>
        ))}
      </ol>
      {half && (
        <p class="hint">
          {say({
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

const SIGHT = {
  seen: { ko: "보임", en: "seen" },
  padding: { ko: "가려짐: 패딩", en: "hidden: padding" },
  later: { ko: "가려짐: 뒤에 옴", en: "hidden: comes later" },
  hidden: { ko: "가려짐", en: "hidden" },
};

function Sentence({ value }: { readonly value: Look }) {
  const asking = display(value.query.text);
  const looked = value.key && display(value.key.text);
  const share = percent(value.weight);
  return language.value === "ko" ? (
    <>
      질의 <bdi>{asking}</bdi>
      {looked ? (
        <>
          {particle(asking, "이", "가")} 키 <bdi>{looked}</bdi>
          {particle(looked, "을", "를")} {value.sight === "seen" ? `${share} 봅니다.` : "볼 수 없습니다."}
        </>
      ) : (
        `: 키를 고르면 가중치가 나옵니다.`
      )}
    </>
  ) : (
    <>
      Query <bdi>{asking}</bdi>
      {looked ? (
        <>
          {value.sight === "seen" ? ` gives ${share} of its attention to key ` : " may not see key "}
          <bdi>{looked}</bdi>.
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
      <h3>{say({ ko: "주목은 이유가 아닙니다", en: "Attention is not a reason" })}</h3>
      <p>
        {say({
          ko: "가중치는 어디를 읽었는지일 뿐, 왜 그렇게 답했는지가 아닙니다.",
          en: "Weights tell where a head read, not why the model answered as it did.",
        })}{" "}
        {agreement !== null && (
          <>
            {say({
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
export function six(number: number): string {
  if (number !== 0 && Math.abs(number) < 5e-7) return number.toExponential(3).replace("-", "−");
  return number.toFixed(6).replace("-", "−");
}

function short(number: number): string {
  return number
    .toFixed(4)
    .replace(/\.?0+$/, "")
    .replace("-", "−");
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.1 ? 2 : 1)}\u00a0%`;
}

/** " = 1/√64", where it is a root. */
function root(scale: number): string {
  const under = 1 / scale ** 2;
  return Math.abs(under - Math.round(under)) < 1e-4 && under > 1.5 ? ` = 1/√${Math.round(under)}` : "";
}
