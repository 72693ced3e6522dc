/** The note bar: how the displayed numbers were processed, their precision, and what the trace does not contain. */

import { drawnFraction, focusedHead, measure, sequence, specials, unit } from "../state/state";
import { useAsync } from "../state/useAsync";
import { headKey } from "../state/session";
import { displayWeights } from "../trace/display";
import type { Trace } from "../trace/trace";
import { missingGlyphs } from "../draw/glyphs";
import { t } from "../i18n/i18n";

export function NoteBar({ trace }: { readonly trace: Trace }) {
  const plain = unit.value === "piece" && specials.value !== "renormalise" && measure.value === "weights";
  const { value } = useAsync(async () => (plain ? null : displayWeights(trace, focusedHead.value)), [trace, plain]);
  const notes = [exactness(trace)];
  if (trace.hasRounding) notes.push(t({ ko: "벡터와 단계는 8비트로 반올림", en: "vectors and steps rounded to 8 bits" }));
  const unread = truncatedPieces(trace);
  if (unread) notes.unshift(t({ ko: `조각 ${unread}개를 읽지 않음 (최대 길이 초과)`, en: `${unread} pieces were not read (beyond the maximum length)` }));
  const boxes = useMissingGlyphs(trace);
  if (boxes.length)
    notes.unshift(
      t({
        ko: `이 컴퓨터의 글꼴에 없어 빈 상자로 보이는 글자: ${boxes.map(describe).join(", ")}`,
        en: `no font on this computer has these characters, drawn as boxes: ${boxes.map(describe).join(", ")}`,
      }),
    );
  if (trace.info.muted.some(([block, layer, head]) => headKey({ block, layer, head }) === headKey(focusedHead.value)))
    notes.unshift(t({ ko: "꺼진 헤드", en: "this head is muted" }));
  if (drawnFraction.value !== null)
    notes.unshift(t({ ko: `가중치의 ${fraction()} % 표시`, en: `${fraction()} % of the weight drawn` }));
  if (!plain && value?.note) notes.push(t(value.note));
  else if (plain) notes.push(t({ ko: "재정규화 안 함", en: "not renormalized" }));
  return (
    <div class="notes" data-role="notes">
      <span>{notes.join(" · ")}</span>
      {trace.info.notes.length > 0 && (
        <details>
          <summary>
            {t({
              ko: `트레이스 정보 (${trace.info.notes.length})`,
              en: `about this trace (${trace.info.notes.length})`,
            })}
          </summary>
          <ul>
            {trace.info.notes.map((note) => (
              <li key={note}>{t({ ko: korean(note), en: note })}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

/** The notes that traces and saved pages contain, by their beginnings. */
const KOREAN_NOTES: Readonly<Record<string, string>> = {
  "The parameters are left out": "모델이 커서 파라미터를 저장하지 않았습니다. 레이어의 출력은 여기서 다시 계산할 수 없습니다.",
  "The steps inside the layers are left out": "트레이스가 커서 레이어 안의 단계를 저장하지 않았습니다.",
  "The scores are left out": "트레이스가 커서 점수를 저장하지 않았습니다. 점수는 q와 k에서 계산합니다.",
  "The numbers are rounded to float16": "트레이스가 커서 수를 float16으로 반올림했습니다. 2^-25 이하의 가중치는 0이 되었습니다. jumok.trace(..., whole=True)는 모든 수를 float32로 저장합니다.",
  "Some checkpoints are left out": "트레이스가 너무 커져서 일부 체크포인트를 뺐습니다.",
  "To keep the page small, hidden states":
    "페이지를 작게 저장하려고 은닉 상태, 값 벡터, 단계를 8비트로 반올림했습니다. 오차는 그 행의 최댓값의 1/254 이내이고, 전체를 내보낸 페이지에는 모든 값이 있습니다.",
  "To keep the page small, vectors or steps": "페이지를 작게 저장하려고 벡터나 레이어 안의 단계를 뺐습니다. 전체를 내보낸 페이지에는 있습니다.",
  "To keep the page small, weights of some layers": "페이지를 작게 저장하려고 일부 레이어의 가중치는 썸네일에서 읽습니다. 전체를 내보낸 페이지에는 모든 가중치가 있습니다.",
  "To keep the page small, some layers": "페이지를 작게 저장하려고 일부 레이어는 썸네일만 표시합니다. 전체를 내보낸 페이지에는 모든 가중치가 있습니다.",
};

/** A note in Korean; in English if it is not one of the known ones. */
export function korean(note: string): string {
  const begin = Object.keys(KOREAN_NOTES).find((each) => note.startsWith(each));
  return begin === undefined ? note : KOREAN_NOTES[begin];
}

const MAX_DESCRIBED = 5;

/** The characters of the texts that cannot be drawn, at most five. */
function useMissingGlyphs({ info }: Trace): readonly string[] {
  const { value } = useAsync(async () => {
    const texts = Object.values(info.sides).flatMap((rows) => (rows ?? []).flatMap(({ text, pieces }) => [text, ...pieces]));
    const all = [...texts, info.decoding?.output ?? "", info.title].join("");
    await document.fonts?.ready;
    return missingGlyphs(all).slice(0, MAX_DESCRIBED);
  }, [info]);
  return value ?? [];
}

function describe(letter: string): string {
  return `${letter} (U+${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")})`;
}

/** The pieces of the selected sequence, on both sides, that the model did not read. */
function truncatedPieces({ info }: Trace): number {
  return Object.values(info.sides).reduce((sum, rows) => sum + (rows?.[sequence.value]?.truncated ?? 0), 0);
}

function fraction(): string {
  return (100 * (drawnFraction.value ?? 0)).toFixed(0);
}

function exactness(trace: Trace): string {
  if (!trace.hasExactWeights(focusedHead.value)) return t({ ko: `썸네일에서 읽은 값 (±${trace.thumbnailError})`, en: `read from thumbnails (±${trace.thumbnailError})` });
  const name = `${focusedHead.value.block}.${focusedHead.value.layer}.weights`;
  return trace.dtype(name) === "F16" ? "float16" : "float32";
}
