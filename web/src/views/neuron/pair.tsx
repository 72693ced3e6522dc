/** The pair in focus with all its numbers: equation (1) step by step, the chart, and a table of every dimension. */

import type { ReadonlySignal } from "@preact/signals";
import { t } from "../../i18n/i18n";
import { chart, HIGH } from "./chart";
import type { Drawing } from "./drawing";
import { type Asked, open, vector } from "./headData";
import { brief, difference, full, scaleWritten } from "./format";
import { products } from "./recompute";

export function Pair({ drawing, asked }: { drawing: Drawing; asked: ReadonlySignal<Asked> }) {
  const { held, question, columns } = drawing;
  const { query, row, recorded, order } = question;
  const { q, k, muted } = held.parts;
  const { key } = asked.value;
  const apart = Math.abs(row.weights[key] - recorded[key]);
  const right = apart <= held.tolerance;
  const steps: readonly (readonly [string, string] | false | null)[] = [
    ["q·k", full(row.dots[key])],
    [scaleWritten(held.parts), full(row.scaled[key])],
    row.biases && [`+ b (${full(row.biases[key])})`, full(row.scores[key])],
    [t({ ko: "+ 가림", en: "+ mask" }), row.allowed[key] ? full(row.scores[key]) : "−∞"],
    [`exp(· − ${brief(row.largest)}) ÷ ${brief(row.sum)}`, full(row.softmax[key])],
    muted === true && [t({ ko: "× 0 (꺼진 머리)", en: "× 0 (muted head)" }), full(row.weights[key])],
    [t({ ko: "기록된 가중치", en: "weight in the trace" }), full(recorded[key])],
    [
      right ? t({ ko: "✓ 같음", en: "✓ the same" }) : t({ ko: "✗ 다름", en: "✗ different" }),
      `|Δ| ${difference(apart)} ${right ? "≤" : ">"} ${difference(held.tolerance)}`,
    ],
  ];
  const { each, running } = products(vector(q, query), vector(k, key), order);
  return (
    <section class="neuron-pair">
      <h2>
        {held.queries[query]} → {held.keys[key]}{" "}
        <button type="button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
          {open.value ? "▾ " : "▸ "}
          {t({ ko: `차원 ${order.length}개의 수`, en: `numbers of ${order.length} dimensions` })}
        </button>
      </h2>
      <dl class={right ? "neuron-right" : "neuron-wrong"}>
        {steps.map(
          (step) =>
            step && (
              <div key={step[0]}>
                <dt>{step[0]}</dt>
                <dd class="number">{step[1]}</dd>
              </div>
            ),
        )}
      </dl>
      <svg width={columns.all} height={HIGH} aria-hidden="true">
        {chart(drawing, key)}
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
                {[String(i), ...[vector(q, query)[i], vector(k, key)[i], each[n], running[n]].map(full)].map(
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
