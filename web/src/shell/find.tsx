/** Finding: a token by its text, or a head by its name ("L3 H5", "cross L0 H2"). */

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { display } from "../draw/text";
import { axes, indexOf } from "../state/labels";
import { goTo } from "../state/moves";
import { block, key, query } from "../state/state";
import type { BlockName, Place } from "../trace/format";
import { say } from "../words/words";

/** Whether the box is open. */
export const finding = signal(false);

const BLOCKS: Readonly<Record<string, BlockName>> = { e: "encoder", d: "decoder", c: "cross" };

/** The head a text names; null: none. "3 5" and "L3H5" are of the block `here`. */
export function headNamed(text: string, here: BlockName): Omit<Place, "sequence"> | null {
  const found =
    /^\s*([edc])?[a-z]*[\s.]*(?:l|층)?\s*(\d{1,4})[\s.,]+(?:h|머리)?\s*(\d{1,4})\s*$|^\s*([edc])?[a-z]*\s*l(\d{1,4})h(\d{1,4})\s*$/i.exec(
      text,
    );
  if (!found) return null;
  const name = found[1] ?? found[4];
  return {
    block: name ? BLOCKS[name.toLowerCase()] : here,
    layer: Number(found[2] ?? found[5]),
    head: Number(found[3] ?? found[6]),
  };
}

/** The place of the next token, after `from`, whose text holds `text`; -1: none. */
export function nextWith(text: string, texts: readonly string[], from: number): number {
  const wanted = text.trim().normalize("NFC").toLowerCase();
  if (!wanted) return -1;
  for (let i = 1; i <= texts.length; i++) {
    const at = (from + i) % texts.length;
    if (texts[at].normalize("NFC").toLowerCase().includes(wanted)) return at;
  }
  return -1;
}

export function Find() {
  const input = useRef<HTMLInputElement>(null);
  const missed = useRef(signal(false)).current;
  useLayoutEffect(() => {
    if (finding.value) input.current?.focus();
  }, [finding.value]);
  if (!finding.value) return null;
  const submit = (event: Event) => {
    event.preventDefault();
    const text = input.current?.value ?? "";
    const head = headNamed(text, block.value);
    missed.value = head ? !goTo(head) : !findToken(text);
    if (head && !missed.value) finding.value = false;
  };
  return (
    <form class="find" role="search" onSubmit={submit}>
      <input
        ref={input}
        type="search"
        aria-label={say({ ko: "토큰이나 머리 찾기", en: "find a token or a head" })}
        placeholder={say({ ko: "토큰, 또는 L3 H5", en: "a token, or L3 H5" })}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation(); // it closes the box alone
          finding.value = false;
        }}
      />
      <span role="status">{missed.value ? say({ ko: "없음", en: "none" }) : ""}</span>
    </form>
  );
}

/** Locks the next query whose text holds `text`, or else the next key. */
function findToken(text: string): boolean {
  const now = axes.value;
  if (!now) return false;
  const row = nextWith(
    text,
    now.queries.map((label) => display(label.text)),
    indexOf(now.queries, query.value),
  );
  if (row >= 0) {
    query.value = now.queries[row].pieces[0];
    return true;
  }
  const column = nextWith(
    text,
    now.keys.map((label) => display(label.text)),
    indexOf(now.keys, key.value),
  );
  if (column >= 0) key.value = now.keys[column].pieces[0];
  return column >= 0;
}
