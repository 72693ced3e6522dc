/** The focused pair with all its numbers: equation (1) step by step, the chart, and a table of every dimension. */

import type { ReadonlySignal } from "@preact/signals";
import { t } from "../../i18n/i18n";
import { formatDifference } from "../calculation/formatSum";
import { chart, CHART } from "./chart";
import type { HeadDrawing } from "./drawing";
import { open, type Selection, vector } from "./headData";
import { formatFull, formatShort, scaleText } from "./format";
import { products } from "./recompute";

/** Equation (1) for a key, step by step: names and numbers. */
export function stepsOf({ data, queryRow: { row, recorded } }: HeadDrawing, key: number): readonly (readonly [string, string])[] {
  const difference = Math.abs(row.weights[key] - recorded[key]);
  const agrees = difference <= data.tolerance;
  const steps: readonly (readonly [string, string] | false | null)[] = [
    ["q·k", formatFull(row.dots[key])],
    [scaleText(data.parts), formatFull(row.scaled[key])],
    row.biases && [`+ b (${formatFull(row.biases[key])})`, formatFull(row.scores[key])],
    [t({ ko: "+ 마스크", en: "+ mask" }), row.allowed[key] ? formatFull(row.scores[key]) : "−∞"],
    [`exp(· − ${formatShort(row.largest)}) ÷ ${formatShort(row.sum)}`, formatFull(row.softmax[key])],
    data.parts.muted === true && [t({ ko: "× 0 (꺼진 헤드)", en: "× 0 (muted head)" }), formatFull(row.weights[key])],
    [t({ ko: "트레이스의 가중치", en: "weight in the trace" }), formatFull(recorded[key])],
    [
      agrees ? t({ ko: "✓ 일치", en: "✓ agrees" }) : t({ ko: "✗ 불일치", en: "✗ differs" }),
      `|Δ| ${formatDifference(difference)} ${agrees ? "≤" : ">"} ${formatDifference(data.tolerance)}`,
    ],
  ];
  return steps.filter((step) => !!step);
}

export function Pair({ drawing, width, selection }: { drawing: HeadDrawing; width: number; selection: ReadonlySignal<Selection> }) {
  const { data, queryRow } = drawing;
  const { query, row, recorded, order } = queryRow;
  const { q, k } = data.parts;
  const { key } = selection.value;
  const agrees = Math.abs(row.weights[key] - recorded[key]) <= data.tolerance;
  const { each, running } = products(vector(q, query), vector(k, key), order);
  return (
    <section class="neuron-pair">
      <h2>
        {data.queries[query]} → {data.keys[key]}{" "}
        <button type="button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
          {open.value ? "▾ " : "▸ "}
          {t({ ko: `${order.length}개 차원의 수치`, en: `numbers of ${order.length} dimensions` })}
        </button>
      </h2>
      <dl class={agrees ? "neuron-right" : "neuron-wrong"}>
        {stepsOf(drawing, key).map(([name, number]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="number">{number}</dd>
          </div>
        ))}
      </dl>
      <svg width={width} height={CHART + drawing.plot} aria-hidden="true">
        {chart(drawing, key, width)}
      </svg>
      {open.value && (
        <table class="number">
          <thead>
            <tr>
              {["i", "qᵢ", "kᵢ", "qᵢkᵢ", "Σ"].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {order.map((i, n) => (
              <tr key={i}>
                {[String(i), ...[vector(q, query)[i], vector(k, key)[i], each[n], running[n]].map(formatFull)].map(
                  (text, c) => (
                    <td key={c}>{text}</td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
