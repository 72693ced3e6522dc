/** The matrix as a table for screen readers: each query and the keys with the largest weights. */

import { displayText } from "../../draw/text";
import { entropyOf } from "../../shell/focusDetails";
import { useAsync } from "../../state/useAsync";
import type { HeadLocation } from "../../trace/format";
import { rowOf } from "../../trace/matrix";
import { displayOptions, displayWeights } from "../../trace/display";
import type { Trace } from "../../trace/trace";
import { t } from "../../i18n/i18n";

const MAX_ROWS = 60;
const TOP_KEYS = 3;

/** A head as displayed, and its plain weights, whose rows sum to 1 as the entropy requires. */
async function loadTable(trace: Trace, location: HeadLocation) {
  const options = displayOptions();
  const [pictured, plain] = await Promise.all([
    displayWeights(trace, location, options),
    displayWeights(trace, location, { ...options, specials: "plain", measure: "weights" }),
  ]);
  return { ...pictured, plain: plain.matrix };
}

export function AccessibleTable({ trace, location }: { readonly trace: Trace; readonly location: HeadLocation }) {
  const { value, error } = useAsync(() => loadTable(trace, location), [trace, location]);
  if (error) return <p role="alert">{error}</p>;
  if (!value) return null;
  const left = value.queries.length - MAX_ROWS;
  return (
    <div class="matrix-table" tabIndex={0} role="region" aria-label={t({ ko: "표", en: "table" })}>
      <table>
        <thead>
          <tr>
            <th scope="col">{t({ ko: "쿼리", en: "query" })}</th>
            <th scope="col" colSpan={TOP_KEYS}>
              {t({ ko: "가중치가 가장 큰 키", en: "keys with the largest weights" })}
            </th>
            <th scope="col">{t({ ko: "엔트로피", en: "entropy" })}</th>
          </tr>
        </thead>
        <tbody>
          {value.queries.slice(0, MAX_ROWS).map((query, row) => {
            const weights = rowOf(value.matrix, row);
            const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
            return (
              <tr key={query.pieces[0]}>
                <th scope="row">
                  <bdi>{displayText(query.text)}</bdi>
                </th>
                {order.slice(0, TOP_KEYS).map((key) => (
                  <td key={key}>
                    <bdi>{displayText(value.keys[key].text)}</bdi> <span class="number">{weights[key].toFixed(4)}</span>
                  </td>
                ))}
                <td class="number">{entropyOf(rowOf(value.plain, row)).toFixed(2)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {left > 0 && (
        <p class="hint">
          {t({ ko: `나머지 ${left}행은 CSV 내보내기로 볼 수 있습니다.`, en: `${left} more rows: export them as CSV.` })}
        </p>
      )}
    </div>
  );
}
