/** The tokens of one side as a listbox for the keyboard; only tokens near the viewport are rendered. */

import { useSignal } from "@preact/signals";
import { displayText } from "../../draw/text";
import { labelIndex } from "../../state/labels";
import { hoverOver } from "../../state/actions";
import { key, query } from "../../state/state";
import type { Label } from "../../trace/display";
import { t } from "../../i18n/i18n";
import type { Layout, Side } from "./layout";
import { side as sideOfSentence, SIDES } from "./series";

interface TokensProps {
  readonly side: Side;
  readonly layout: Layout;
  readonly labels: readonly Label[];
  readonly range: readonly [number, number];
  /** Hovers over a token and scrolls to it. */
  readonly focusToken: (side: Side, index: number) => void;
  /** Locks the hovered tokens. */
  readonly lockHovered: () => void;
}

export function Tokens({ side, layout, labels, range, focusToken, lockHovered }: TokensProps) {
  const locked = labelIndex(labels, (side === "query" ? query : key).value);
  const active = useSignal(Math.max(locked, 0));
  const at = Math.min(active.value, labels.length - 1);
  const go = (index: number) => {
    active.value = Math.max(0, Math.min(labels.length - 1, index));
    focusToken(side, active.value);
  };
  const across = layout.kind === "arcs"; // the sentence runs from left to right, each token is a query and a key
  const other = (list: HTMLElement) => {
    const opposite = side === "query" ? "key" : "query";
    if (across) {
      sideOfSentence.value = opposite;
      focusToken(opposite, at);
    } else list.parentElement?.querySelector<HTMLElement>(`[data-side=${opposite}]`)?.focus();
  };
  const [back, on, before, after] = across
    ? ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]
    : ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];
  const keys: Readonly<Record<string, (list: HTMLElement) => void>> = {
    [back]: () => go(at - 1),
    [on]: () => go(at + 1),
    [before]: other,
    [after]: other,
    Home: () => go(0),
    End: () => go(labels.length - 1),
    Enter: lockHovered,
  };
  return (
    <div
      class="lines-tokens"
      role="listbox"
      tabIndex={0}
      data-side={side}
      aria-label={t(SIDES[side])}
      aria-orientation={across ? "horizontal" : "vertical"}
      aria-activedescendant={at >= range[0] && at < range[1] ? `lines-${side}-${at}` : undefined}
      onFocus={({ currentTarget }) => currentTarget.matches(":focus-visible") && go(at)}
      onBlur={() => hoverOver(null, null)}
      onKeyDown={(event) => {
        const act = keys[event.key];
        if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        event.stopPropagation();
        act(event.currentTarget);
      }}
    >
      {labels.slice(...range).map(({ text }, i) => {
        const index = range[0] + i;
        const { x, y, width, height } = layout.label(side, index);
        return (
          <div
            key={index}
            id={`lines-${side}-${index}`}
            role="option"
            aria-selected={index === locked}
            aria-setsize={labels.length}
            aria-posinset={index + 1}
            aria-label={displayText(text)}
            title={displayText(text)}
            class={index === at ? "lines-token lines-active" : "lines-token"}
            style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }}
          />
        );
      })}
    </div>
  );
}
