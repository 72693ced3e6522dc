/** The positional encodings: each with its formula, its picture and its properties. */

import { useSignal } from "@preact/signals";
import type { FunctionComponent, JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import { Canvas, type Draw } from "../../draw/canvas";
import { redBlue } from "../../draw/colours";
import { signedTone } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { setting } from "../../state/settings";
import type { Message } from "../../i18n/i18n";
import { matmul, type Numbers, sinusoids, table, transpose, valueAt } from "../calculation/arithmetic";
import { Heatmap } from "../calculation/heatmap";
import { frac, math, sub, sup } from "../calculation/mathml";
import { type Cell, focusedCell } from "../calculation/cellFocus";
import { formatNumber } from "../../draw/numbers";
import { formatDifference } from "../calculation/formatSum";
import { useRoom } from "../width";
import { binaryDigits, digitCount, frequency, normalisedPosition, shiftError, shiftMatrix, sineDials } from "./encodingMath";

export const n = () => setting<number>("positions", "n", 64);
export const d = () => setting<number>("positions", "d", 128);
export const base = () => 10 ** setting<number>("positions", "base", 4).value;
export const p = () => setting<number>("positions", "p", 3);
export const delta = () => setting<number>("positions", "delta", 7);

/** The selected position, clamped to the text. */
const chosenPosition = () => Math.min(p().value, n().value - 1);

export interface PositionEncoding {
  readonly title: Message;
  readonly uses: readonly ("d" | "base" | "delta")[];
  readonly formula: () => JSX.Element;
  readonly description: () => Message;
  /** The displayed matrix, for the current slider values. */
  readonly numbers: () => Numbers;
  readonly Picture: FunctionComponent;
}

const index = () => table(n().value, 1, (at) => at);
const normalised = () => table(n().value, 1, (at) => normalisedPosition(at, n().value));
const digits = () => binaryDigits(n().value);
const waves = () => sinusoids(n().value, d().value, base());
const products = () => matmul(waves(), transpose(waves()));
const shiftTable = () => shiftMatrix(delta().value, d().value, base());

const WAVE = frac("p", sup("base", frac("2 i", "d")));

export const ENCODINGS: readonly PositionEncoding[] = [
  {
    title: { ko: "정수 인덱스", en: "index" },
    uses: [],
    formula: () => math("PE ( p ) = p"),
    description: () => ({
      ko: `텍스트가 길수록 값이 커져 (최대 ${n().value - 1}) 임베딩보다 훨씬 커지고 학습이 불안정해집니다.`,
      en: `Values grow with the text (up to ${n().value - 1}), dominate the embeddings and destabilize the training.`,
    }),
    numbers: index,
    Picture: () => <Table numbers={useTable(index)} name={() => "PE"} decimals={0} />,
  },
  {
    title: { ko: "정규화된 인덱스", en: "normalized index" },
    uses: [],
    formula: () => math("PE ( p ) =", frac("p", "n − 1")),
    description: () => ({
      ko: `같은 위치의 값이 텍스트 길이에 따라 다릅니다: 위치 3은 길이 11에서 0.3, 길이 22에서 3/21 = ${formatNumber(normalisedPosition(3, 22))}입니다.`,
      en: `A value depends on the length of the text: position 3 is 0.3 for length 11 and 3/21 = ${formatNumber(normalisedPosition(3, 22))} for length 22.`,
    }),
    numbers: normalised,
    Picture: LengthsPicture,
  },
  {
    title: { ko: "이진수", en: "binary" },
    uses: [],
    formula: () => math(sub("PE", "p , j"), "= ⌊ p /", sup("2", "j"), "⌋ mod 2"),
    description: () => ({
      ko: `${chosenPosition()} = ${bits(chosenPosition())}₂: 유일하지만 불연속입니다. ${chosenPosition()} → ${chosenPosition() + 1}에서 자릿수 ${changedDigits()}개가 동시에 바뀝니다.`,
      en: `${chosenPosition()} = ${bits(chosenPosition())}₂: unique but not continuous: from ${chosenPosition()} to ${chosenPosition() + 1}, ${changedDigits()} digit(s) change at once.`,
    }),
    numbers: digits,
    Picture: () => <Table numbers={useTable(digits)} name={(at, j) => `⌊${at} / 2^${j}⌋ mod 2`} decimals={0} />,
  },
  {
    title: { ko: "사인파", en: "sine waves" },
    uses: [],
    formula: () => math(sub("PE", "p , j"), "= sin", frac("π p", sup("2", "j"))),
    description: () => ({
      ko: `연속이지만 사인파 세 개는 위치 16마다 반복되는 닫힌 곡선입니다: |PE(${chosenPosition()}) − PE(${chosenPosition() + 16})| = ${formatDifference(dialError())}.`,
      en: `Continuous, but three sine waves form a closed curve with period 16: |PE(${chosenPosition()}) − PE(${chosenPosition() + 16})| = ${formatDifference(dialError())}.`,
    }),
    numbers: () => sineDials(n().value, 3),
    Picture: DialCurve,
  },
  {
    title: { ko: "사인·코사인", en: "sine and cosine" },
    uses: ["d", "base"],
    formula: () => math(sub("PE", "p , 2 i"), "= sin", WAVE, ",", sub("PE", "p , 2 i + 1"), "= cos", WAVE),
    description: () => {
      const period = formatNumber((2 * Math.PI) / frequency(d().value / 2 - 1, d().value, base()), 0);
      return {
        ko: `차원 쌍마다 시곗바늘 하나: 주기는 6.28에서 ${period}까지입니다. 표의 색은 빨강 −1, 파랑 +1입니다.`,
        en: `A clock hand for each pair of dimensions, with periods from 6.28 to ${period} positions. Colors of the table: red −1, blue +1.`,
      };
    },
    numbers: waves,
    Picture: () => (
      <>
        <Clocks angles={Array.from({ length: Math.min(d().value / 2, 12) }, (_, i) => chosenPosition() * frequency(i, d().value, base()))} />
        <Table numbers={useTable(waves)} name={(at, i) => `${i % 2 ? "cos" : "sin"}(${at} / ${formatNumber(base(), 0)}^(${i - (i % 2)}/${d().value}))`} />
      </>
    ),
  },
  {
    title: { ko: "PE·PEᵀ", en: "PE·PEᵀ" },
    uses: ["d", "base"],
    formula: () => math("PE ( p ) · PE ( q ) =", sub("Σ", "i"), "cos (", sub("ω", "i"), "( p − q ) )"),
    description: () => ({
      ko: `거리에만 의존합니다: 대각선은 d/2 = ${d().value / 2}입니다.`,
      en: `It depends only on the distance: d/2 = ${d().value / 2} on the diagonal.`,
    }),
    numbers: products,
    Picture: () => <Table numbers={useTable(products)} name={(at, q) => `PE(${at}) · PE(${q})`} square />,
  },
  {
    title: { ko: "이동 행렬 T(Δ)", en: "shift T(Δ)" },
    uses: ["d", "base", "delta"],
    formula: () => math("PE ( p + Δ ) = PE ( p ) · T ( Δ )"),
    description: () => {
      const left = `max |PE(p+Δ) − PE(p)·T(Δ)| = ${formatDifference(shiftError(n().value, d().value, base(), delta().value))}`;
      return {
        ko: `한 행렬이 모든 위치를 Δ만큼 이동합니다. 쌍마다 회전 [cos ωΔ, −sin ωΔ; sin ωΔ, cos ωΔ]: ${left}.`,
        en: `One matrix shifts every position by Δ, each pair by the rotation [cos ωΔ, −sin ωΔ; sin ωΔ, cos ωΔ]: ${left}.`,
      };
    },
    numbers: shiftTable,
    Picture: () => <Table numbers={useTable(shiftTable)} name={(i, j) => `T[${i}, ${j}]`} square />,
  },
];

function bits(at: number): string {
  return at.toString(2).padStart(digitCount(n().value), "0");
}

/** The number of digits that change from the selected position to the next. */
function changedDigits(): number {
  return (chosenPosition() ^ (chosenPosition() + 1)).toString(2).length;
}

/** The difference of three dials between two positions 16 apart. */
function dialError(): number {
  const found = sineDials(chosenPosition() + 17, 3);
  return Math.max(...[0, 1, 2].map((j) => Math.abs(valueAt(found, chosenPosition(), j) - valueAt(found, chosenPosition() + 16, j))));
}

/** A matrix that is recomputed when a slider changes. */
function useTable(make: () => Numbers): Numbers {
  return useMemo(make, [n().value, d().value, base(), delta().value]);
}

interface TableProps {
  readonly numbers: Numbers;
  readonly name: (row: number, column: number) => string;
  readonly decimals?: number;
  readonly square?: boolean;
}

const AROUND = 330; // pixels of the stage above and below a table

/** A matrix of positions in red and blue; the number under the pointer is written above. */
export function Table({ numbers, name, decimals, square }: TableProps) {
  const hover = useSignal<Cell | null>(null);
  const lock = useSignal<Cell | null>(null);
  const [r, c] = focusedCell(hover, lock, numbers.rows, numbers.columns) ?? [Math.min(p().value, numbers.rows - 1), 0];
  const ramp = redBlue(shade.value);
  const max = useMemo(() => Array.from(numbers.data).reduce((max, value) => Math.max(max, Math.abs(value)), 0), [numbers]);
  const colours = useMemo(() => ({ ramp, tone: signedTone(max), zero: 0.5 }), [ramp, max]);
  const labels = useMemo(() => Array.from({ length: Math.max(numbers.rows, numbers.columns) }, (_, i) => String(i)), [numbers]);
  const [box, available, height] = useRoom(560);
  const tall = Math.max(square ? 400 : 300, height - AROUND);
  return (
    <div class="positions-table" ref={box}>
      <output class="positions-value" data-role="cell">{`${name(r, c)} = ${formatNumber(valueAt(numbers, r, c), decimals ?? 6)}`}</output>
      <Heatmap label={name(r, c)} numbers={numbers} rows={labels} columns={square ? labels : undefined} width={available} height={tall} focus={hover} locked={lock} scale={colours} />
    </div>
  );
}

/** A drawing without a pointer, enlarged as far as there is room. */
function Drawing({ width, height, draw, label }: { readonly width: number; readonly height: number; readonly draw: Draw; readonly label: string }) {
  const [box, available, tall] = useRoom(width);
  const scale = Math.min(2, available / width, Math.max(1, (tall - AROUND) / height));
  const scaled = useCallback<Draw>(
    (g, colours) => {
      g.scale(scale, scale);
      draw(g, colours);
    },
    [draw, scale],
  );
  return (
    <div class="positions-table" ref={box}>
      <Canvas width={scale * width} height={scale * height} draw={scaled} label={label} />
    </div>
  );
}

/** One line from 0 to 1 for each length, with position 3 and the selected position marked. */
function LengthsPicture() {
  const [count, chosen] = [n().value, chosenPosition()];
  const draw = useCallback<Draw>(
    (g, colours) => {
      const lines = [[11, 3], [21, 3], [22, 3], [count, chosen]] as const;
      g.font = `13px ${colours.font}`;
      lines.forEach(([length, location], line) => {
        const y = 24 + 42 * line;
        g.fillStyle = colours.ink;
        g.fillText(`n = ${length}`, 0, y + 4);
        for (let at = 0; at < length; at++) {
          const isChosen = at === location;
          g.fillStyle = isChosen ? colours.focus : colours.soft;
          g.beginPath();
          g.arc(70 + 470 * normalisedPosition(at, length), y, isChosen ? 5 : 2, 0, 7);
          g.fill();
        }
        g.fillStyle = colours.focus;
        g.fillText(`${location}/${length - 1} = ${formatNumber(normalisedPosition(location, length))}`, Math.min(440, 60 + 470 * normalisedPosition(location, length)), y + 20);
      });
    },
    [count, chosen],
  );
  return <Drawing width={560} height={190} draw={draw} label={`3/10 = 0.3, 3/20 = 0.15, 3/21 = ${formatNumber(normalisedPosition(3, 22))}`} />;
}

/** Three dials as a curve in space, in perspective. */
function DialCurve() {
  const chosen = chosenPosition();
  const draw = useCallback<Draw>(
    (g, colours) => {
      const point = (at: number): [number, number] => {
        const [x, y, z] = [1, 2, 3].map((j) => Math.sin((Math.PI * at) / 2 ** j));
        return [200 + 120 * (x - y) * 0.8, 160 - 90 * z + 50 * (x + y) * 0.8];
      };
      g.strokeStyle = colours.soft;
      g.beginPath();
      for (let at = 0; at <= 16; at += 0.1) g.lineTo(...point(at));
      g.stroke();
      g.font = `12px ${colours.font}`;
      for (let at = 0; at < 16; at++) {
        const isChosen = at === chosen % 16;
        g.fillStyle = isChosen ? colours.focus : colours.accent;
        const [x, y] = point(at);
        g.beginPath();
        g.arc(x, y, isChosen ? 6 : 3, 0, 7);
        g.fill();
        if (at !== 8) g.fillText(isChosen && chosen > 15 ? `${at} = ${chosen}` : at ? String(at) : "0, 8", x + 7, y - 5);
      }
    },
    [chosen],
  );
  return <Drawing width={440} height={330} draw={draw} label="sin πp/2, sin πp/4, sin πp/8" />;
}

/** A clock hand for each angle, clockwise from twelve: sine to the right, cosine up. */
export function Clocks({ angles }: { readonly angles: readonly number[] }) {
  const key = angles.join();
  const draw = useCallback<Draw>(
    (g, colours) => {
      angles.forEach((angle, i) => {
        const x = 24 + 46 * i;
        g.strokeStyle = colours.soft;
        g.lineWidth = 1;
        g.beginPath();
        g.arc(x, 24, 19, 0, 7);
        g.stroke();
        g.strokeStyle = colours.focus;
        g.lineWidth = 2;
        g.beginPath();
        g.moveTo(x, 24);
        g.lineTo(x + 18 * Math.sin(angle), 24 - 18 * Math.cos(angle));
        g.stroke();
        g.fillStyle = colours.soft;
        g.font = `11px ${colours.font}`;
        g.textAlign = "center";
        g.fillText(String(i), x, 57);
      });
    },
    [key],
  );
  return <Canvas width={46 * angles.length + 4} height={60} draw={draw} label={angles.map((angle) => formatNumber(angle % (2 * Math.PI), 2)).join(", ")} />;
}
