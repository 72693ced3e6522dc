/** The positional encoding of the traced model: a table, rotary angles, a relative bias, or none. */

import { useCallback, useMemo } from "preact/hooks";
import { Canvas, type Draw } from "../../draw/canvas";
import { headColours } from "../../draw/colours";
import { useAsync } from "../../state/useAsync";
import { focusedHead, key, query } from "../../state/state";
import type { HeadLocation } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { type Message, t } from "../../i18n/i18n";
import { type Agreement, agreement, type Numbers, sinusoids, table as byRows, TOLERANCE } from "../calculation/arithmetic";
import { pieceNames } from "../calculation/steps";
import { formatNumber } from "../../draw/numbers";
import { formatDifference } from "../calculation/formatSum";
import { type BiasByDistance, biasByDistance, cosineSimilarities, shiftedDotProduct } from "./encodingMath";
import { Clocks, Table } from "./encodings";

interface PositionData {
  readonly table: Numbers | null;
  readonly formula: Agreement | null;
  readonly segments: Numbers | null;
  readonly angles: Numbers | null;
  readonly proof: ShiftProof | null;
  readonly biases: readonly BiasByDistance[];
}

/** q·k of one pair, when both are shifted together. */
interface ShiftProof {
  readonly pair: string;
  readonly rows: readonly (readonly [by: number, dot: number])[];
}

const SHIFTS = [0, 1, 10, 100, 1000];

/** A labelled matrix for export. */
export interface NamedTable {
  readonly title: string;
  readonly numbers: Numbers;
  readonly rows: readonly string[];
  readonly columns?: readonly string[];
}

export function numbered(count: number, before = ""): readonly string[] {
  return Array.from({ length: count }, (_, i) => `${before}${i}`);
}

/** The model's table, angles (one row per pair) or biases (one row per distance). Throws if it has none. */
export async function modelPositionTable(trace: Trace, at: HeadLocation): Promise<NamedTable> {
  const { table, angles, biases } = await loadPositions(trace, at, [null, null]);
  if (table) return { title: "PE", numbers: table, rows: numbered(table.rows) };
  if (angles) {
    const count = angles.data.length;
    return { title: "θ", numbers: { rows: count, columns: 1, data: angles.data }, rows: numbered(count), columns: ["θ"] };
  }
  if (biases.length === 0) throw new Error(noPositionsText(trace, at));
  const [{ distances }] = biases;
  return {
    title: t({ ko: "거리(키 − 쿼리)별 편향", en: "bias per distance (key − query)" }),
    numbers: byRows(distances.length, biases.length, (row, head) => biases[head].values[row]),
    rows: distances.map(String),
    columns: numbered(biases.length, "H"),
  };
}

/** Whether the scores have a bias that depends on the distance alone; in DeBERTa it depends on the content too. */
function hasDistanceBias(trace: Trace, at: HeadLocation): boolean {
  return ["relative", "unknown"].includes(trace.info.model.positions) && trace.has(`${at.block}.${at.layer}.bias`);
}

/** Whether a trace contains the positions of a block: a table, rotary angles or biases. */
export function hasPositions(trace: Trace, at: HeadLocation): boolean {
  return trace.has(`${trace.block(at.block).queries}.positions`) || Boolean(trace.rotaryName(at)) || hasDistanceBias(trace, at);
}

async function loadPositions(trace: Trace, at: HeadLocation, locked: readonly [number | null, number | null]): Promise<PositionData> {
  const block = trace.block(at.block);
  const side = block.queries;
  const kind = trace.info.model.positions;
  const rotary = trace.rotaryName(at);
  const [table, segments, angles] = await Promise.all([
    trace.has(`${side}.positions`) ? trace.fullMatrix(`${side}.positions`) : null,
    trace.has(`${side}.segments`) ? trace.fullMatrix(`${side}.segments`) : null,
    rotary ? trace.fullMatrix(rotary) : null,
  ]);
  const halves = kind.endsWith("halves");
  const formula = table && kind.startsWith("sinusoidal") ? agreement(sinusoids(table.rows, table.columns, 10000, halves), table, TOLERANCE[trace.dtype(`${side}.positions`)]) : null;
  const heads = Array.from({ length: hasDistanceBias(trace, at) ? block.heads : 0 }, (_, head) => trace.bias({ ...at, head }));
  const biases = (await Promise.all(heads)).flatMap((bias) => (bias ? [biasByDistance(bias)] : []));
  const proof = angles && trace.hasVectors(at.block) ? await shiftProof(trace, at, angles, locked) : null;
  return { table, formula, segments, angles, proof, biases };
}

async function shiftProof(trace: Trace, at: HeadLocation, angles: Numbers, [lockedQuery, lockedKey]: readonly [number | null, number | null]): Promise<ShiftProof> {
  const [q, k] = await Promise.all([trace.q(at), trace.k(at)]);
  const t = Math.min(lockedQuery ?? trace.queries(at).real.lastIndexOf(1), q.rows - 1);
  const s = Math.min(lockedKey ?? 0, k.rows - 1);
  const pair = `${pieceNames(trace.queries(at))[t]} (${t}) · ${pieceNames(trace.keys(at))[s]} (${s})`;
  return { pair, rows: SHIFTS.map((by) => [by, shiftedDotProduct(q, k, angles.data, t, s, by)] as const) };
}

export function ModelPositions({ trace }: { readonly trace: Trace }) {
  const { value, error } = useAsync(() => loadPositions(trace, focusedHead.value, [query.value, key.value]), [trace]);
  if (error) return <p role="alert">{error}</p>;
  if (!value) return null;
  const { table, formula, segments, angles, proof, biases } = value;
  const empty = !table && !angles && biases.length === 0;
  return (
    <>
      <h2>{t({ ko: "이 모델의 위치 인코딩", en: "the positional encoding of this model" })}: {t(KINDS[trace.info.model.positions] ?? { ko: trace.info.model.positions, en: trace.info.model.positions })}</h2>
      {empty && <p>{noPositionsText(trace, focusedHead.value)}</p>}
      {table && <AddedTable table={table} formula={formula} />}
      {segments && <Segments of={segments} />}
      {angles && <Rotary angles={angles} proof={proof} />}
      {biases.length > 0 && <Biases of={biases} />}
    </>
  );
}

const KINDS: Readonly<Record<string, Message>> = {
  sinusoidal: { ko: "사인·코사인", en: "sine and cosine" },
  sinusoidal_halves: { ko: "사인·코사인 (절반씩)", en: "sine and cosine, in halves" },
  learned: { ko: "학습된 임베딩", en: "learned" },
  rotary: { ko: "회전 (RoPE)", en: "rotary" },
  sinusoidal_rotary: { ko: "사인·코사인과 회전 (RoPE)", en: "sine and cosine, and rotary" },
  relative: { ko: "상대 위치 편향", en: "relative biases" },
  none: { ko: "없음", en: "none" },
};

function noPositionsText(trace: Trace, { block }: HeadLocation): string {
  if (block === "cross")
    return t({ ko: "교차 어텐션에는 위치 인코딩이 없습니다.", en: "Cross-attention has no positional encoding." });
  return trace.info.model.positions === "none"
    ? t({ ko: "이 모델에는 위치 인코딩이 없습니다.", en: "This model has no positional encoding." })
    : t({ ko: "이 트레이스에는 위치 인코딩이 없습니다.", en: "This trace contains no positional encoding." });
}

function AddedTable({ table, formula }: { readonly table: Numbers; readonly formula: Agreement | null }) {
  const similarities = useMemo(() => cosineSimilarities(table), [table]);
  return (
    <>
      {formula ? (
        <p class={formula.agrees ? "positions-good" : "positions-bad"} data-role="verdict">
          {formula.agrees ? "✓" : "✗"} {t({ ko: `수식으로 다시 계산한 값과 ${formula.agrees ? "일치" : "불일치"}`, en: "recomputed from the formula" })} (|Δ| ≤ {formatDifference(formula.worst)})
        </p>
      ) : (
        <p>{t({ ko: "학습된 표와 두 위치 사이의 코사인 유사도.", en: "A learned table; below, the cosine similarity of every two positions." })}</p>
      )}
      <Table key="table" numbers={table} name={(row, column) => `PE[${row}, ${column}]`} />
      <Table key="cosines" numbers={similarities} name={(row, column) => `cos(PE[${row}], PE[${column}])`} square />
    </>
  );
}

function Segments({ of }: { readonly of: Numbers }) {
  const similarities = of.rows > 1 ? formatNumber(cosineSimilarities(of).data[1]) : "–";
  return (
    <>
      <p>{t({ ko: `세그먼트 (0과 1의 코사인 유사도 ${similarities})`, en: `Segments (cosine similarity of 0 and 1: ${similarities})` })}</p>
      <Table numbers={of} name={(row, column) => `S[${row}, ${column}]`} />
    </>
  );
}

function Rotary({ angles, proof }: { readonly angles: Numbers; readonly proof: ShiftProof | null }) {
  const all = Array.from(angles.data);
  return (
    <>
      <p>
        {t({ ko: "위치 1당 쌍 i의 회전각 θᵢ (그림은 위치 3):", en: "Rotation of pair i per position, θᵢ (drawn: position 3):" })} {all.slice(0, 6).map((angle) => formatNumber(angle)).join(", ")} … ({all.length})
      </p>
      <Clocks angles={all.slice(0, 12).map((angle) => 3 * angle)} />
      {proof && (
        <table class="positions-proof">
          <caption>
            {t({ ko: "둘을 함께 m만큼 이동해도 q·k는 같음", en: "shifted together by m positions, q·k does not change" })} — {proof.pair}
          </caption>
          <thead>
            <tr>
              <th scope="col">m</th>
              <th scope="col">q·k</th>
              <th scope="col">|Δ|</th>
            </tr>
          </thead>
          <tbody>
            {proof.rows.map(([by, dot]) => (
              <tr key={by}>
                <td>{by}</td>
                <td>{formatNumber(dot, 6)}</td>
                <td>{formatDifference(Math.abs(dot - proof.rows[0][1]))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Biases({ of }: { readonly of: readonly BiasByDistance[] }) {
  const head = Math.min(focusedHead.value.head, of.length - 1);
  const { distances, values, worst } = of[head];
  const draw = useCallback<Draw>(
    (g, colours) => {
      const every = of.flatMap((one) => one.values);
      const [min, max] = [Math.min(...every), Math.max(...every)];
      const [first, last] = [distances[0], distances[distances.length - 1]];
      const x = (distance: number) => 40 + (500 * (distance - first)) / (last - first || 1);
      const y = (value: number) => 190 - (170 * (value - min)) / (max - min || 1);
      g.font = `12px ${colours.font}`;
      g.fillStyle = colours.soft;
      g.fillText(formatNumber(max, 2), 0, y(max) + 4);
      g.fillText(formatNumber(min, 2), 0, y(min) + 4);
      for (const distance of [first, 0, last]) g.fillText(String(distance), x(distance) - 4, 208);
      of.forEach((one, i) => {
        g.strokeStyle = i === head ? headColours[1].colour : colours.line;
        g.lineWidth = i === head ? 2.5 : 1.2;
        g.beginPath();
        one.distances.forEach((distance, at) => g.lineTo(x(distance), y(one.values[at])));
        g.stroke();
      });
    },
    [of, head],
  );
  const near = [-2, -1, 0, 1, 2].flatMap((distance) => {
    const at = distances.indexOf(distance);
    return at < 0 ? [] : [`${distance}: ${formatNumber(values[at])}`];
  });
  return (
    <>
      <p>
        {t({ ko: `거리(키 − 쿼리)별로 더하는 편향, 헤드마다 선 하나 (굵은 선: ${head}):`, en: `The bias of each distance (key − query), one line per head (bold: ${head}):` })} {near.join(" · ")}
      </p>
      <Canvas width={560} height={212} draw={draw} label={near.join(", ")} />
      <p>{t({ ko: `거리가 같으면 편향도 같음: |Δ| ≤ ${formatDifference(worst)}`, en: `One bias per distance: |Δ| ≤ ${formatDifference(worst)}` })}</p>
    </>
  );
}
