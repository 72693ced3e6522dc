/** The logit lens of one token: what the model would predict if it ended after each layer. */

import { displayText, readablePieces } from "../../draw/text";
import { t } from "../../i18n/i18n";
import { focusedHead, query, sequence } from "../../state/state";
import type { Trace } from "../../trace/trace";
import { lensOf } from "./flowData";

/** A row per layer: its candidates for the chosen token, or for the last one. */
export function LensTable({ trace }: { readonly trace: Trace }) {
  const side = trace.info.sides.target ? "target" : "source";
  const lens = lensOf(trace, side, sequence.value);
  if (!lens) return null;
  const chosen = trace.block(focusedHead.value.block).queries === side ? query.value : null;
  const pieces = trace.sequence(side, 0).pieces;
  const token = chosen !== null && chosen < lens[0].length ? chosen : (maskOf(pieces) ?? lens[0].length - 1);
  const answer = lens[lens.length - 1][token]?.[0]?.id;
  const title = t({ ko: "로짓 렌즈", en: "Logit lens" });
  // Wide pieces and probabilities scroll: by keyboard too.
  return (
    <section class="flow-zoom" data-role="lens" tabIndex={0} role="region" aria-label={title}>
      <h2>
        {title}: <bdi>{displayText(readablePieces(trace.sequence(side, 0))[token] ?? "")}</bdi> →
      </h2>
      <p class="hint">
        {t({
          ko: "각 레이어까지의 잔차 흐름에 마지막 정규화와 출력층을 바로 적용한 결과입니다(nostalgebraist 2020). 굵은 글자는 모델의 최종 예측과 같은 토큰입니다.",
          en: "The final norm and the output projection applied to the residual stream after each layer (nostalgebraist 2020). Bold: the token that the whole model predicts.",
        })}
      </p>
      <table class="flow-lens">
        <tbody>
          {lens.map((row, layer) => (
            <tr key={layer}>
              <th scope="row">{layer === 0 ? t({ ko: "임베딩", en: "embedding" }) : `L${layer - 1}`}</th>
              {row[token].map(({ id, piece, probability }) => (
                <td key={id} data-id={id}>
                  <span class="flow-lens-bar" style={{ width: `${Math.round(100 * probability)}%` }} />
                  <bdi class={id === answer ? "flow-lens-answer" : undefined}>{displayText(piece)}</bdi> <span class="number">{probability.toFixed(3)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** The first masked token of a masked language model. */
function maskOf(pieces: readonly string[]): number | null {
  const index = pieces.findIndex((piece) => piece === "[MASK]" || piece === "<mask>");
  return index < 0 ? null : index;
}
