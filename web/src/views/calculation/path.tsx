/** The way of the lesson through the model: every attention block in the order of computation, then the answer. */

import { batch } from "@preact/signals";
import { BLOCKS } from "../../i18n/blocks";
import { t } from "../../i18n/i18n";
import { selectHead } from "../../state/actions";
import { focusedHead, step, view } from "../../state/state";
import type { BlockName, HeadLocation, TraceInfo } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { type Step, steps } from "./steps";

export type Place = Pick<HeadLocation, "block" | "layer">;

/** The encoder layer by layer, then each layer of the decoder with its cross-attention. */
export function placesOf({ blocks }: Pick<TraceInfo, "blocks">): readonly Place[] {
  const layers = (name: BlockName) => blocks.find((block) => block.name === name)?.layers ?? 0;
  const of = (block: BlockName, layer: number) => (layer < layers(block) ? [{ block, layer }] : []);
  const count = (length: number) => Array.from({ length }, (_, layer) => layer);
  return [
    ...count(layers("encoder")).flatMap((layer) => of("encoder", layer)),
    ...count(Math.max(layers("decoder"), layers("cross"))).flatMap((layer) => [...of("decoder", layer), ...of("cross", layer)]),
  ];
}

/** The first step that a place does not share with the place before. */
function firstStep(all: readonly Step[]): number {
  return Math.max(0, all.findIndex(({ id }) => id === "input"));
}

function isAt({ block, layer }: Place): boolean {
  return focusedHead.value.block === block && focusedHead.value.layer === layer;
}

/** Goes to a place, to its first or its last step. */
function goTo(trace: Trace, place: Place, atEnd = false): void {
  batch(() => {
    selectHead({ ...place, head: Math.min(focusedHead.value.head, trace.block(place.block).heads - 1) });
    const all = steps(trace, focusedHead.value);
    step.value = atEnd ? all.length - 1 : firstStep(all);
  });
}

/** The view of the answer. */
function answerView({ classification, decoding, next }: TraceInfo): string {
  return classification ? "explanation" : decoding || next ? "generation" : "flow";
}

function goToAnswer(trace: Trace): void {
  batch(() => [view.value, step.value] = [answerView(trace.info), 0]);
}

/** Goes from the last step of a place to the next place, or from the first step to the place before. */
export function goBeyond(trace: Trace, by: 1 | -1): void {
  const places = placesOf(trace.info);
  const place = places[places.findIndex(isAt) + by];
  if (place) goTo(trace, place, by < 0);
  else if (by > 0) goToAnswer(trace);
}

/** Where the lesson is. */
export function Path({ trace }: { readonly trace: Trace }) {
  const places = placesOf(trace.info);
  return (
    <nav class="calculation-path" data-role="path" aria-label={t({ ko: "모델에서의 위치", en: "place in the model" })}>
      {places.map((place, i) => (
        <span key={i}>
          {places[i - 1]?.block === place.block ? null : `${i ? "→ " : ""}${t(BLOCKS[place.block])} `}
          <button type="button" aria-current={isAt(place) ? "location" : undefined} onClick={() => goTo(trace, place)}>
            L{place.layer}
          </button>
        </span>
      ))}
      <span>
        →{" "}
        <button type="button" data-role="to-answer" onClick={() => goToAnswer(trace)}>
          {t({ ko: "답", en: "answer" })}
        </button>
      </span>
    </nav>
  );
}
