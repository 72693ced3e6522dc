/** Masks, and their effect on scores and weights. */

import { useMemo } from "preact/hooks";
import type { Shade } from "../../draw/colours";
import { shade } from "../../draw/palette";
import { selectHead } from "../../state/actions";
import { useAsync } from "../../state/useAsync";
import { setting } from "../../state/settings";
import { focusedHead, sequence } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import { type Numbers, valueAt } from "../calculation/arithmetic";
import { Heatmap } from "../calculation/heatmap";
import { type ColourScale, colourScale, finiteRange } from "../calculation/paint";
import { matricesSvg, matrixTable } from "../calculation/picture";
import { focusedCell, hoveredCell, lockedCell } from "../calculation/cellFocus";
import { pieceNames } from "../calculation/steps";
import { formatNumber } from "../../draw/numbers";
import { masks as about } from "../viewInfo";
import type { StageProps, ViewRenderer } from "../view";
import { useRoom } from "../width";
import "./masks.css";
import { loadMasks, type MaskData, printMaskRow } from "./maskData";

export const masks: ViewRenderer = {
  Stage,
  svg: async (trace) => {
    const names = axisNames(trace);
    const tiles = tilesOf(await loadMasks(trace, focusedHead.value)).flatMap(({ title, numbers, mask }) =>
      numbers ? [{ name: t(title), numbers, scale: scaleOf(numbers, mask, "light"), ...(mask ? { hidden: (i: number) => mask.data[i] === 0 } : {}), ...names }] : [],
    );
    return matricesSvg(t(about.title), tiles);
  },
  table: async (trace) => matrixTable({ numbers: (await loadMasks(trace, focusedHead.value)).combined, ...axisNames(trace) }),
};

function axisNames(trace: Trace): { rows: readonly string[]; columns: readonly string[] } {
  return { rows: pieceNames(trace.queries(focusedHead.value)), columns: pieceNames(trace.keys(focusedHead.value)) };
}

const trueMeansVisible = () => setting<boolean>("masks", "visible", true);

function Stage({ trace }: StageProps) {
  const { value, error } = useAsync(() => loadMasks(trace, focusedHead.value), [trace]);
  if (error) return <p role="alert">{error}</p>;
  if (!value) return null;
  return <MaskPanels trace={trace} masks={value} />;
}

interface Tile {
  readonly title: Message;
  readonly numbers: Numbers | null;
  readonly mask?: Numbers; // 0 where hatched
}

function tilesOf(masks: MaskData): readonly Tile[] {
  return [
    { title: { ko: "① 패딩 마스크", en: "① padding mask" }, numbers: masks.padding, mask: masks.padding },
    { title: causalTitle(masks), numbers: masks.causal, mask: masks.causal },
    { title: { ko: "③ 결합: ① ∧ ②", en: "③ combined: ① ∧ ②" }, numbers: masks.combined, mask: masks.combined },
    { title: { ko: `④ 마스크 전 점수${range(masks.scores)}`, en: `④ scores before the mask${range(masks.scores)}` }, numbers: masks.scores },
    { title: { ko: `⑤ 마스크 후 점수: −∞${range(masks.masked)}`, en: `⑤ scores after the mask: −∞${range(masks.masked)}` }, numbers: masks.masked, mask: masks.combined },
    { title: { ko: `⑥ 가중치 (softmax)${range(masks.weights)}`, en: `⑥ weights (softmax)${range(masks.weights)}` }, numbers: masks.weights, mask: masks.combined },
  ];
}

function causalTitle({ isCausal, window }: MaskData): Message {
  const [ko, en] = window !== null ? [`, 윈도 ${window}`, `, window ${window}`] : isCausal ? ["", ""] : [": 없음", ": none"];
  return isCausal || window === null ? { ko: `② 인과(causal) 마스크${ko}`, en: `② causal mask${en}` } : { ko: `② 양방향 마스크${ko}`, en: `② bidirectional mask${en}` };
}

/** The numbers of the darkest colours: "±4.70" around 0, else "0–0.92". */
function range(numbers: Numbers | null): string {
  if (!numbers) return "";
  const { min, max } = finiteRange(numbers);
  return min < 0 ? ` ±${formatNumber(Math.max(max, -min), 2)}` : ` 0–${formatNumber(max, 2)}`;
}

/** The colours of a tile; a mask has a uniform colour where it is open. */
function scaleOf(numbers: Numbers, mask: Numbers | undefined, at: Shade): ColourScale {
  const found = colourScale(numbers, at);
  return numbers === mask ? { ...found, tone: (value: number) => 0.35 * value } : found;
}

/** Why all cells are open, and where some are not. */
function NothingHidden({ trace }: { readonly trace: Trace }) {
  const decoder = trace.info.blocks.find(({ name }) => name === "decoder");
  return (
    <p class="hint">
      {t({ ko: "이 블록에는 가린 셀이 없습니다. ", en: "No cell of this block is masked. " })}
      {decoder && (
        <button type="button" data-role="show-decoder" onClick={() => selectHead({ block: "decoder", layer: Math.min(focusedHead.value.layer, decoder.layers - 1), head: 0 })}>
          {t({ ko: "디코더의 마스크 보기", en: "show the mask of the decoder" })}
        </button>
      )}{" "}
      {t({
        ko: "패딩을 가린 열은 길이가 다른 두 문장을 함께 트레이스하면 보입니다: jumok view note --lesson",
        en: "Columns of padding are in a trace of two texts of unequal length: jumok view note --lesson",
      })}
    </p>
  );
}

const AROUND = 200; // pixels of the stage without two rows of pictures

function MaskPanels({ trace, masks }: { readonly trace: Trace; readonly masks: MaskData }) {
  const block = trace.block(focusedHead.value.block);
  const { rows, columns } = useMemo(() => axisNames(trace), [trace, focusedHead.value]);
  const tiles = tilesOf(masks);
  const sequences = trace.info.sides[block.queries]?.length ?? 1;
  const shape = (numbers: readonly number[]) => `torch.Size([${numbers.join(", ")}])`;
  const matrix = [masks.combined.rows, masks.combined.columns];
  const [box, width, height] = useRoom(734);
  const isPhone = width < 456;
  const across = isPhone ? (Math.max(rows.length, columns.length) > 10 ? 1 : 2) : Math.min(3, Math.floor((width + 8) / 232));
  const size = Math.min(Math.max(across === 1 ? 300 : 224, (height - AROUND) / (6 / across)), Math.floor((width + 8) / across) - 16);
  return (
    <div class="masks" tabIndex={0} ref={box}>
      <p class="masks-row">
        {sequences > 1 &&
          Array.from({ length: sequences }, (_, i) => (
            <button key={i} type="button" data-role="sequence" aria-pressed={sequence.value === i} onClick={() => (sequence.value = i)}>
              {trace.info.sides[block.queries]?.[i].text || i}
            </button>
          ))}
        <code>
          {shape([sequences, ...matrix])} → {shape([sequences, block.heads, ...matrix])}
        </code>
        <label>
          <input type="checkbox" data-role="visible" checked={trueMeansVisible().value} onChange={() => (trueMeansVisible().value = !trueMeansVisible().value)} />
          {t({ ko: " True = 어텐션 허용 (해제: True = 마스크)", en: " True = may attend (unchecked: True = masked)" })}
        </label>
      </p>
      <FocusedCellDetails masks={masks} rows={rows} columns={columns} />
      {Array.from(masks.combined.data).every((one) => one === 1) ? <NothingHidden trace={trace} /> : null}
      <div class="masks-tiles" style={isPhone ? { gridTemplateColumns: `repeat(${across}, 1fr)` } : undefined}>
        {tiles.map(({ title, numbers, mask }) => (
          <section key={title.en}>
            <h2>{t(title)}</h2>
            {numbers ? (
              <Picture label={t(title)} numbers={numbers} mask={mask} rows={rows} columns={columns} size={size} />
            ) : (
              <p class="masks-none">{t({ ko: "트레이스에 쿼리와 키가 없음", en: "no queries and keys in this trace" })}</p>
            )}
          </section>
        ))}
      </div>
      <ZeroFillNote masks={masks} rows={rows} />
    </div>
  );
}

interface PictureProps {
  readonly label: string;
  readonly numbers: Numbers;
  readonly mask: Numbers | undefined;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly size: number; // pixels, at most
}

function Picture({ label, numbers, mask, rows, columns, size }: PictureProps) {
  const at = shade.value;
  const hidden = useMemo(() => mask && ((i: number) => mask.data[i] === 0), [mask]);
  const scale = useMemo(() => scaleOf(numbers, mask, at), [numbers, mask, at]);
  return <Heatmap label={label} numbers={numbers} rows={rows} columns={columns} width={size} height={size} largest={44} focus={hoveredCell} locked={lockedCell} hidden={hidden} scale={scale} />;
}

/** The focused cell in all six panels, as text. */
function FocusedCellDetails({ masks, rows, columns }: { readonly masks: MaskData; readonly rows: readonly string[]; readonly columns: readonly string[] }) {
  const [r, c] = focusedCell(hoveredCell, lockedCell, masks.combined.rows, masks.combined.columns) ?? [0, 0];
  const open = valueAt(masks.combined, r, c) === 1;
  const reason = open
    ? t({ ko: "어텐션 허용", en: "may attend" })
    : [!valueAt(masks.padding, r, c) && t({ ko: "패딩", en: "padding" }), !valueAt(masks.causal, r, c) && t(masks.isCausal && c > r ? { ko: "뒤의 토큰", en: "later token" } : { ko: "윈도 밖", en: "outside the window" })]
        .filter((word) => word)
        .join(" + ");
  const score = (numbers: Numbers | null) => (numbers ? formatNumber(valueAt(numbers, r, c)) : "–");
  return (
    <output class="masks-details" data-role="cell-details">
      {`${rows[r]} → ${columns[c]}: ${reason} · ${score(masks.scores)} → ${score(masks.masked)} → ${formatNumber(valueAt(masks.weights, r, c))}`}
      {`\nmask[${r}] = ${printMaskRow(masks.combined, r, trueMeansVisible().value)}`}
      {!masks.agrees && `\n${t({ ko: "✗ 기록된 마스크가 ① ∧ ②와 다름", en: "✗ the recorded mask differs from ① ∧ ②" })}`}
    </output>
  );
}

/** The effect of filling masked scores with 0, in the numbers of this head. */
function ZeroFillNote({ masks: { leaked }, rows }: { readonly masks: MaskData; readonly rows: readonly string[] }) {
  if (!leaked) return null;
  const fraction = (value: number) => `${formatNumber(100 * value, 1)} %`;
  return (
    <p class="masks-zeros">
      {t({
        ko: `−∞ 대신 0을 넣으면 (e⁰ = 1) 마스크된 키가 가중치의 평균 ${fraction(leaked.mean)}, 최대 ${fraction(leaked.max)}(${rows[leaked.row]})를 가져갑니다.`,
        en: `Filled with 0 instead of −∞ (e⁰ = 1), masked keys receive ${fraction(leaked.mean)} of the weight on average, up to ${fraction(leaked.max)} (${rows[leaked.row]}).`,
      })}
    </p>
  );
}
