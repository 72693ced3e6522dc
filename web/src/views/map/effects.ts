/** The effect of each head on the answer, computed by the server or by the model in the page: each head muted, or with its output for another text; and that of each hidden state. */

import { signal } from "@preact/signals";
import { baseline, currentRun, currentTrace, effectsOf, inPage, measuredEffects, muted, requestBody, type Run } from "../../state/session";
import { errorText } from "../../state/useAsync";
import { request } from "../../shell/runForm";
import { post } from "../../trace/api";
import type { BlockName, Effects, Side, TraceInfo } from "../../trace/format";
import type { Trace } from "../../trace/trace";

export const measuring = signal(false);
export const effectsError = signal<string | null>(null);

/** The measured effects of this trace if they are those of heads. */
export function headEffectsOf(trace: Trace): Effects | null {
  const effects = effectsOf(trace);
  return effects?.intervention === "patch_hidden" ? null : effects;
}

export { effectsOf };
export type { Effects } from "../../trace/format";

/** The text of the run that A of the comparison is; null: there is none, or it is not one text. */
export function otherText(): string | null {
  const before = baseline.value;
  return before ? (before.run?.text ?? textOf(before.trace.info)) : null;
}

function textOf(info: TraceInfo): string {
  return (info.sides.source ?? info.sides.target)?.[0]?.text ?? "";
}

/** Measures the effects for the current trace; with `other`, of activation patching of heads or of hidden states. */
export async function measureEffects(other: string | null = null, hidden = false): Promise<void> {
  const trace = currentTrace.value;
  if (!trace || measuring.value) return;
  const run: Run = currentRun.value ?? { ...request.value, mute: [...muted.value], checkpoint: null };
  measuring.value = true;
  effectsError.value = null;
  try {
    if (inPage.muteEach) {
      await new Promise((resolve) => setTimeout(resolve)); // the button shows that it computes
      measuredEffects.value = { trace, effects: inPage.muteEach(trace.info) };
      measuring.value = false;
      return;
    }
    const answer = await post("api/effects", { ...requestBody(run), ...(other === null ? {} : { other, hidden }) });
    measuredEffects.value = { trace, effects: (await answer.json()) as Effects };
  } catch (error) {
    effectsError.value = errorText(error);
  }
  measuring.value = false;
}

/** The value of one head, or of one token of a side, minus that of the unchanged model; 0 if it was not measured. */
export function changeOf({ values, value }: Effects, name: BlockName | Side, layer: number, column: number): number {
  return (values[name]?.[layer]?.[column] ?? value) - value;
}
