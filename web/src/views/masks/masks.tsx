/** Masks: who is hidden from whom, and what that does to scores and weights. */

import { useMemo } from "preact/hooks";
import { shade } from "../../draw/palette";
import { useAsync } from "../../state/useAsync";
import { setting } from "../../state/settings";
import { focusedHead, sequence } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { t, type Message } from "../../i18n/i18n";
import { cell, type Numbers } from "../calculation/arithmetic";
import { Heat } from "../calculation/heatmap";
import { colouring } from "../calculation/paint";
import { drawn, rowsOf } from "../calculation/picture";
import { focusOf, hovered, locked } from "../calculation/cellFocus";
import { names } from "../calculation/steps";
import { number } from "../calculation/formatSum";
import type { StageProps, Drawn } from "../view";
import "./masks.css";
import { type Masks, masksOf, printed } from "./maskData";

export const masks: Drawn = {
  Stage,
  svg: async (trace) => {
    const { combined } = await masksOf(trace, focusedHead.value);
    return drawn(t({ ko: "합친 가림 (1 = 볼 수 있음)", en: "combined mask (1 = may attend)" }), { numbers: combined, ...labelled(trace) });
  },
  table: async (trace) => rowsOf({ numbers: (await masksOf(trace, focusedHead.value)).combined, ...labelled(trace) }),
};

function labelled(trace: Trace): { rows: readonly string[]; columns: readonly string[] } {
  return { rows: names(trace.queries(focusedHead.value)), columns: names(trace.keys(focusedHead.value)) };
}

const visible = () => setting<boolean>("masks", "visible", true);

function Stage({ trace }: StageProps) {
  const { value, error } = useAsync(() => masksOf(trace, focusedHead.value), [trace]);
  if (error) return <p role="alert">{error}</p>;
  if (!value) return null;
  return <Six trace={trace} of={value} />;
}

interface Tile {
  readonly title: Message;
  readonly numbers: Numbers | null;
  readonly mask?: Numbers; // what is hatched
}

function Six({ trace, of }: { readonly trace: Trace; readonly of: Masks }) {
  const block = trace.block(focusedHead.value.block);
  const { rows, columns } = useMemo(() => labelled(trace), [trace, focusedHead.value]);
  const tiles: readonly Tile[] = [
    { title: { ko: "① 패딩 가림", en: "① padding mask" }, numbers: of.padding, mask: of.padding },
    { title: { ko: "② 뒤 가림 (causal)", en: "② causal mask" }, numbers: of.causal, mask: of.causal },
    { title: { ko: "③ 합침: ① ∧ ②", en: "③ combined: ① ∧ ②" }, numbers: of.combined, mask: of.combined },
    { title: { ko: "④ 가리기 전 점수", en: "④ scores before" }, numbers: of.scores },
    { title: { ko: "⑤ 가린 뒤: −∞", en: "⑤ scores after: −∞" }, numbers: of.masked, mask: of.combined },
    { title: { ko: "⑥ 가중치 (softmax)", en: "⑥ weights (softmax)" }, numbers: of.weights, mask: of.combined },
  ];
  const sequences = trace.info.sides[block.queries]?.length ?? 1;
  const shape = (numbers: readonly number[]) => `torch.Size([${numbers.join(", ")}])`;
  const size = [of.combined.rows, of.combined.columns];
  return (
    <div class="masks" tabIndex={0}>
      <p class="masks-row">
        {sequences > 1 &&
          Array.from({ length: sequences }, (_, i) => (
            <button key={i} type="button" data-role="sequence" aria-pressed={sequence.value === i} onClick={() => (sequence.value = i)}>
              {trace.info.sides[block.queries]?.[i].text || i}
            </button>
          ))}
        <code>
          {shape([sequences, ...size])} → {shape([sequences, block.heads, ...size])}
        </code>
        <label>
          <input type="checkbox" data-role="visible" checked={visible().value} onChange={() => (visible().value = !visible().value)} />
          {t({ ko: " True = 보아도 됨 (노트는 가림)", en: " True = may attend (the notes: hidden)" })}
        </label>
      </p>
      <Said of={of} rows={rows} columns={columns} />
      <div class="masks-tiles">
        {tiles.map(({ title, numbers, mask }) => (
          <section key={title.en}>
            <h2>{t(title)}</h2>
            {numbers ? (
              <Picture label={t(title)} numbers={numbers} mask={mask} rows={rows} columns={columns} />
            ) : (
              <p class="masks-none">{t({ ko: "질의와 키가 기록에 없음", en: "no queries and keys in this trace" })}</p>
            )}
          </section>
        ))}
      </div>
      <Zeros of={of} rows={rows} />
    </div>
  );
}

interface PictureProps {
  readonly label: string;
  readonly numbers: Numbers;
  readonly mask: Numbers | undefined;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
}

function Picture({ label, numbers, mask, rows, columns }: PictureProps) {
  const at = shade.value;
  const hidden = useMemo(() => mask && ((i: number) => mask.data[i] === 0), [mask]);
  const colours = useMemo(() => {
    const found = colouring(numbers, at);
    return numbers === mask ? { ...found, tone: (value: number) => 0.35 * value } : found; // what may be seen is even
  }, [numbers, mask, at]);
  return <Heat label={label} numbers={numbers} rows={rows} columns={columns} width={224} height={186} focus={hovered} locked={locked} hidden={hidden} colours={colours} />;
}

/** The cell in focus in all six, in words. */
function Said({ of, rows, columns }: { readonly of: Masks; readonly rows: readonly string[]; readonly columns: readonly string[] }) {
  const [r, c] = focusOf(hovered, locked, of.combined.rows, of.combined.columns) ?? [0, 0];
  const open = cell(of.combined, r, c) === 1;
  const why = open
    ? t({ ko: "보아도 됨", en: "may attend" })
    : [!cell(of.padding, r, c) && t({ ko: "패딩", en: "padding" }), !cell(of.causal, r, c) && t({ ko: "뒤에 옴", en: "comes later" })]
        .filter((word) => word)
        .join(" + ");
  const score = (numbers: Numbers | null) => (numbers ? number(cell(numbers, r, c)) : "–");
  return (
    <output class="masks-said" data-role="said">
      {`${rows[r]} → ${columns[c]}: ${why} · ${score(of.scores)} → ${score(of.masked)} → ${number(cell(of.weights, r, c))}`}
      {`\nmask[${r}] = ${printed(of.combined, r, visible().value)}`}
      {!of.agrees && `\n${t({ ko: "✗ 기록은 ① ∧ ②와 다름", en: "✗ recorded otherwise than ① ∧ ②" })}`}
    </output>
  );
}

/** What note 001's mask does, in the numbers of this head. */
function Zeros({ of: { lost }, rows }: { readonly of: Masks; readonly rows: readonly string[] }) {
  if (!lost) return null;
  const share = (value: number) => `${number(100 * value, 1)} %`;
  return (
    <p class="masks-zeros">
      {t({
        ko: `노트 001처럼 0을 넣으면 (e⁰ = 1) 가려진 키가 가중치의 평균 ${share(lost.mean)}, 많게는 ${share(lost.most)}(${rows[lost.row]})를 가져갑니다.`,
        en: `Filled with 0 as in note 001 (e⁰ = 1), hidden keys take ${share(lost.mean)} of the weight on average, up to ${share(lost.most)} (${rows[lost.row]}).`,
      })}
    </p>
  );
}
