/** The rungs of the ladder: each idea with its formula, its picture and what is wrong, or right, with it. */

import { useSignal } from "@preact/signals";
import type { FunctionComponent, JSX } from "preact";
import { useCallback, useMemo } from "preact/hooks";
import { Canvas, type Draw } from "../../draw/canvas";
import { redBlue } from "../../draw/colours";
import { signedTone } from "../../draw/paint";
import { shade } from "../../draw/palette";
import { setting } from "../../state/settings";
import type { Message } from "../../i18n/i18n";
import { valueAt, type Numbers, matmul, sinusoids, table, transpose } from "../calculation/arithmetic";
import { Heatmap } from "../calculation/heatmap";
import { frac, math, sub, sup } from "../calculation/mathml";
import { type Cell, focusedCell } from "../calculation/cellFocus";
import { formatNumber, formatDifference } from "../calculation/formatSum";
import { binaryDigits, sineDials, digitCount, frequency, shiftError, normalisedPosition, shiftMatrix } from "./encodingMath";

export const n = () => setting<number>("positions", "n", 64);
export const d = () => setting<number>("positions", "d", 128);
export const base = () => 10 ** setting<number>("positions", "base", 4).value;
export const p = () => setting<number>("positions", "p", 3);
export const delta = () => setting<number>("positions", "delta", 7);

/** The chosen position, within the text. */
const chosenPosition = () => Math.min(p().value, n().value - 1);

export interface PositionEncoding {
  readonly title: Message;
  readonly uses: readonly ("d" | "base" | "delta")[];
  readonly formula: () => JSX.Element;
  readonly description: () => Message;
  /** What is drawn, with the measures of the sliders. */
  readonly numbers: () => Numbers;
  readonly Picture: FunctionComponent;
}

const index = () => table(n().value, 1, (at) => at);
const normalised = () => table(n().value, 1, (at) => normalisedPosition(at, n().value));
const digits = () => binaryDigits(n().value);
const waves = () => sinusoids(n().value, d().value, base());
const products = () => matmul(waves(), transpose(waves()));
const turns = () => shiftMatrix(delta().value, d().value, base());

const WAVE = frac("p", sup("base", frac("2 i", "d")));

export const ENCODINGS: readonly PositionEncoding[] = [
  {
    title: { ko: "번호", en: "index" },
    uses: [],
    formula: () => math("PE ( p ) = p"),
    description: () => ({
      ko: `글이 길수록 커져서 (${n().value - 1}까지) 임베딩을 덮고 학습을 흔듭니다.`,
      en: `Numbers grow with the text (up to ${n().value - 1}), drown the embeddings and shake the training.`,
    }),
    numbers: index,
    Picture: () => <Table numbers={useTable(index)} name={() => "PE"} decimals={0} />,
  },
  {
    title: { ko: "나눈 번호", en: "normalised" },
    uses: [],
    formula: () => math("PE ( p ) =", frac("p", "n − 1")),
    description: () => ({
      ko: `같은 자리가 글마다 다릅니다. 길이 11의 3은 0.3; 길이 22의 3을 노트는 0.15라 적었지만 3/21 = ${formatNumber(normalisedPosition(3, 22))}입니다 (0.15는 길이 21).`,
      en: `One place differs from text to text. 3 of length 11 is 0.3; of length 22 the note says 0.15, but 3/21 = ${formatNumber(normalisedPosition(3, 22))} (0.15 is length 21).`,
    }),
    numbers: normalised,
    Picture: LengthsPicture,
  },
  {
    title: { ko: "이진수", en: "binary" },
    uses: [],
    formula: () => math(sub("PE", "p , j"), "= ⌊ p /", sup("2", "j"), "⌋ mod 2"),
    description: () => ({
      ko: `${chosenPosition()} = ${bits(chosenPosition())}₂: 유일하지만 뜁니다. ${chosenPosition()} → ${chosenPosition() + 1}에서 다이얼 ${changedDigits()}개가 한꺼번에 바뀝니다.`,
      en: `${chosenPosition()} = ${bits(chosenPosition())}₂: unique, but it jumps: from ${chosenPosition()} to ${chosenPosition() + 1}, ${changedDigits()} dial(s) turn at once.`,
    }),
    numbers: digits,
    Picture: () => <Table numbers={useTable(digits)} name={(at, j) => `⌊${at} / 2^${j}⌋ mod 2`} decimals={0} />,
  },
  {
    title: { ko: "사인 다이얼", en: "sine dials" },
    uses: [],
    formula: () => math(sub("PE", "p , j"), "= sin", frac("π p", sup("2", "j"))),
    description: () => ({
      ko: `뛰지 않지만 세 다이얼은 16칸마다 돌아오는 닫힌 곡선입니다: |PE(${chosenPosition()}) − PE(${chosenPosition() + 16})| = ${formatDifference(dialError())}.`,
      en: `No jumps, but three dials are a closed curve that comes back after 16 places: |PE(${chosenPosition()}) − PE(${chosenPosition() + 16})| = ${formatDifference(dialError())}.`,
    }),
    numbers: () => sineDials(n().value, 3),
    Picture: DialCurve,
  },
  {
    title: { ko: "사인·코사인", en: "sine and cosine" },
    uses: ["d", "base"],
    formula: () => math(sub("PE", "p , 2 i"), "= sin", WAVE, ",", sub("PE", "p , 2 i + 1"), "= cos", WAVE),
    description: () => {
      const turn = formatNumber((2 * Math.PI) / frequency(d().value / 2 - 1, d().value, base()), 0);
      return {
        ko: `짝마다 시곗바늘 하나: 6.28칸에 한 바퀴부터 ${turn}칸에 한 바퀴까지. 표는 노트의 pcolormesh처럼 빨강 −1, 파랑 +1.`,
        en: `A clock hand for each pair, turning once in 6.28 up to ${turn} places. The table as in the notes' pcolormesh: red −1, blue +1.`,
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
      ko: `거리에만 달려 있습니다: 대각선은 d/2 = ${d().value / 2}.`,
      en: `It depends on the distance alone: d/2 = ${d().value / 2} on the diagonal.`,
    }),
    numbers: products,
    Picture: () => <Table numbers={useTable(products)} name={(at, q) => `PE(${at}) · PE(${q})`} square />,
  },
  {
    title: { ko: "옮기기 T(Δ)", en: "shift T(Δ)" },
    uses: ["d", "base", "delta"],
    formula: () => math("PE ( p + Δ ) = PE ( p ) · T ( Δ )"),
    description: () => {
      const left = `max |PE(p+Δ) − PE(p)·T(Δ)| = ${formatDifference(shiftError(n().value, d().value, base(), delta().value))}`;
      return {
        ko: `한 행렬이 모든 자리를 Δ만큼 옮깁니다, 짝마다 회전 [cos ωΔ, −sin ωΔ; sin ωΔ, cos ωΔ]: ${left}.`,
        en: `One matrix moves every place by Δ, each pair by the rotation [cos ωΔ, −sin ωΔ; sin ωΔ, cos ωΔ]: ${left}.`,
      };
    },
    numbers: turns,
    Picture: () => <Table numbers={useTable(turns)} name={(i, j) => `T[${i}, ${j}]`} square />,
  },
];

function bits(at: number): string {
  return at.toString(2).padStart(digitCount(n().value), "0");
}

/** How many digits differ between here and the next place. */
function changedDigits(): number {
  return (chosenPosition() ^ (chosenPosition() + 1)).toString(2).length;
}

/** How far three dials are from themselves 16 places on. */
function dialError(): number {
  const found = sineDials(chosenPosition() + 17, 3);
  return Math.max(...[0, 1, 2].map((j) => Math.abs(valueAt(found, chosenPosition(), j) - valueAt(found, chosenPosition() + 16, j))));
}

/** What the sliders make, once for each of their places. */
function useTable(make: () => Numbers): Numbers {
  return useMemo(make, [n().value, d().value, base(), delta().value]);
}

interface TableProps {
  readonly numbers: Numbers;
  readonly name: (row: number, column: number) => string;
  readonly decimals?: number;
  readonly square?: boolean;
}

/** A table of positions in red and blue; the number pointed at is written above. */
export function Table({ numbers, name, decimals, square }: TableProps) {
  const hover = useSignal<Cell | null>(null);
  const lock = useSignal<Cell | null>(null);
  const [r, c] = focusedCell(hover, lock, numbers.rows, numbers.columns) ?? [Math.min(p().value, numbers.rows - 1), 0];
  const ramp = redBlue(shade.value);
  const max = useMemo(() => Array.from(numbers.data).reduce((max, value) => Math.max(max, Math.abs(value)), 0), [numbers]);
  const colours = useMemo(() => ({ ramp, tone: signedTone(max), zero: 0.5 }), [ramp, max]);
  const labels = useMemo(() => Array.from({ length: Math.max(numbers.rows, numbers.columns) }, (_, i) => String(i)), [numbers]);
  return (
    <>
      <output class="positions-said" data-role="cell">{`${name(r, c)} = ${formatNumber(valueAt(numbers, r, c), decimals ?? 6)}`}</output>
      <Heatmap label={name(r, c)} numbers={numbers} rows={labels} columns={square ? labels : undefined} width={560} height={square ? 400 : 300} focus={hover} locked={lock} scale={colours} />
    </>
  );
}

/** One line from 0 to 1 for each length, index 3 and the chosen place on it. */
function LengthsPicture() {
  const [count, chosen] = [n().value, chosenPosition()];
  const draw = useCallback<Draw>(
    (g, colours) => {
      const lines = [[11, 3], [21, 3], [22, 3], [count, chosen]] as const;
      g.font = `13px ${colours.font}`;
      lines.forEach(([length, place], line) => {
        const y = 24 + 42 * line;
        g.fillStyle = colours.ink;
        g.fillText(`n = ${length}`, 0, y + 4);
        for (let at = 0; at < length; at++) {
          const lit = at === place;
          g.fillStyle = lit ? colours.focus : colours.soft;
          g.beginPath();
          g.arc(70 + 470 * normalisedPosition(at, length), y, lit ? 5 : 2, 0, 7);
          g.fill();
        }
        g.fillStyle = colours.focus;
        g.fillText(`${place}/${length - 1} = ${formatNumber(normalisedPosition(place, length))}`, Math.min(440, 60 + 470 * normalisedPosition(place, length)), y + 20);
      });
    },
    [count, chosen],
  );
  return <Canvas width={560} height={190} draw={draw} label={`3/10 = 0.3, 3/20 = 0.15, 3/21 = ${formatNumber(normalisedPosition(3, 22))}`} />;
}

/** Three dials as one curve in space, seen from a corner. */
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
        const lit = at === chosen % 16;
        g.fillStyle = lit ? colours.focus : colours.accent;
        const [x, y] = point(at);
        g.beginPath();
        g.arc(x, y, lit ? 6 : 3, 0, 7);
        g.fill();
        if (at !== 8) g.fillText(lit && chosen > 15 ? `${at} = ${chosen}` : at ? String(at) : "0, 8", x + 7, y - 5);
      }
    },
    [chosen],
  );
  return <Canvas width={440} height={330} draw={draw} label="sin πp/2, sin πp/4, sin πp/8" />;
}

/** A clock hand for each angle: sine to the right, cosine up, as a hand that starts at twelve. */
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
