/** The token strip: every token of the focused head, to hover over and to lock. */

import { effect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { displayText, readablePieces } from "../draw/text";
import { axes, labelIndex } from "../state/labels";
import { hoverOver, toggleLock } from "../state/actions";
import {
  block,
  focusKey,
  focusQuery,
  hoverKey,
  hoverQuery,
  key,
  query,
  sequence,
} from "../state/state";
import type { Sequence } from "../trace/format";
import type { Label } from "../trace/display";
import type { Trace } from "../trace/trace";
import { type Message, t } from "../i18n/i18n";

const MAX_TOKENS = 400; // tokens in the document; the window follows the locked token

export function TokenStrip({ trace }: { readonly trace: Trace }) {
  const currentAxes = axes.value;
  const { queries, keys } = trace.block(block.value);
  return (
    <>
      {currentAxes &&
        (queries === keys ? (
          <Tokens labels={currentAxes.queries} of={trace.queries({ block: block.value, sequence: sequence.value })} as="both" />
        ) : (
          <>
            <Tokens
              labels={currentAxes.queries}
              of={trace.queries({ block: block.value, sequence: sequence.value })}
              as="query"
            />
            <Tokens labels={currentAxes.keys} of={trace.keys({ block: block.value, sequence: sequence.value })} as="key" />
          </>
        ))}
    </>
  );
}

interface TokensProps {
  readonly labels: readonly Label[];
  readonly of: Sequence;
  /** What a click locks; "both": the query, with shift the key. */
  readonly as: "query" | "key" | "both";
}

const TITLES: Readonly<Record<TokensProps["as"], Message>> = {
  both: { ko: "토큰: 클릭하면 쿼리, Shift+클릭하면 키", en: "tokens: click for the query, shift-click for the key" },
  query: { ko: "쿼리", en: "queries" },
  key: { ko: "키", en: "keys" },
};

function Tokens({ labels, of, as }: TokensProps) {
  const list = useRef<HTMLDivElement>(null);
  const locked = as === "key" ? key.value : query.value;
  const first = windowAt(labels, locked ?? 0);
  const visible = labels.slice(first, first + MAX_TOKENS);
  const read = useMemo(() => readablePieces(of), [of]);
  useEffect(
    () =>
      effect(() => {
        if (as !== "key") mark(list.current, "focus-query", labelIndex(labels, focusQuery.value) - first);
        if (as !== "query") mark(list.current, "focus-key", labelIndex(labels, focusKey.value) - first);
      }),
    [labels, first, as],
  );
  const lockAt = (event: MouseEvent) => {
    const piece = pieceUnder(event);
    if (piece === null) return;
    const asKey = as === "key" || (as === "both" && event.shiftKey);
    if (asKey) toggleLock(query.value, piece === key.value ? null : piece);
    else toggleLock(piece === query.value ? null : piece, key.value);
  };
  const pointAt = (event: Event) => {
    const piece = pieceUnder(event);
    if (piece === null) return;
    if (as === "key") hoverKey.value = piece;
    else hoverQuery.value = piece;
  };
  const focusable = Math.max(labelIndex(visible, locked), 0);
  return (
    <div class="tokens-row">
      {as !== "both" && <span class="tokens-title">{t(TITLES[as])}</span>}
      <div
        class="tokens"
        ref={list}
        role="group"
        aria-label={t(TITLES[as])}
        data-side={as}
        onClick={lockAt}
        onPointerOver={pointAt}
        onPointerLeave={() => hoverOver(null, null)}
        onFocusIn={pointAt}
        onKeyDown={moveFocus}
      >
        {first > 0 && <span class="more">{t({ ko: `앞에 ${first}개`, en: `${first} before` })}</span>}
        {visible.map((label, i) => (
          <button
            key={label.pieces[0]}
            type="button"
            class={classOf(label, of)}
            data-piece={label.pieces[0]}
            tabIndex={i === focusable ? 0 : -1}
            aria-pressed={locked !== null && label.pieces.includes(locked)}
            title={titleOf(label, of, read)}
          >
            {displayText(label.text)}
          </button>
        ))}
        {first + MAX_TOKENS < labels.length && (
          <span class="more">
            {t({ ko: `뒤에 ${labels.length - first - MAX_TOKENS}개`, en: `${labels.length - first - MAX_TOKENS} after` })}
          </span>
        )}
      </div>
    </div>
  );
}

/** The start of the window of tokens, so that it contains the locked one. */
function windowAt(labels: readonly Label[], piece: number): number {
  if (labels.length <= MAX_TOKENS) return 0;
  return Math.max(0, Math.min(labelIndex(labels, piece) - MAX_TOKENS / 2, labels.length - MAX_TOKENS));
}

/** Moves a class to one child without rendering: hovering does not re-render hundreds of buttons. */
function mark(list: HTMLElement | null, name: string, index: number): void {
  if (!list) return;
  for (const before of list.querySelectorAll(`.${name}`)) before.classList.remove(name);
  if (index >= 0) list.querySelectorAll(".token")[index]?.classList.add(name);
}

function pieceUnder(event: Event): number | null {
  const token = (event.target as Element).closest<HTMLElement>("[data-piece]");
  return token ? Number(token.dataset.piece) : null;
}

function moveFocus(event: KeyboardEvent): void {
  const to = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" } as const;
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  const next = (event.target as Element)[to[event.key]];
  event.preventDefault();
  if (!(next instanceof HTMLButtonElement)) return;
  next.focus();
}

function classOf(label: Label, of: Sequence): string {
  const classes = ["token"];
  if (label.special) classes.push("special");
  if (!label.real) classes.push("pad");
  const segment = of.segments?.[label.pieces[0]] ?? 0;
  if (label.real && segment % 2) classes.push("second");
  return classes.join(" ");
}

function titleOf({ pieces, special, real }: Label, of: Sequence, read: readonly string[]): string {
  const details = [
    `#${pieces[0]}${pieces.length > 1 ? `–${pieces.at(-1)}` : ""}`,
    pieces.map((i) => `${displayText(read[i])} (${of.ids[i]})`).join(" "),
  ];
  if (!real) details.push(t({ ko: "패딩", en: "padding" }));
  else if (special) details.push(t({ ko: "특수", en: "special" }));
  return details.join(" · ");
}
