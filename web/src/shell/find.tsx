/** Search: a token by its text, or a head by its name ("L3 H5", "cross L0 H2"). */

import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { displayText } from "../draw/text";
import { axes, labelIndex } from "../state/labels";
import { selectHead } from "../state/actions";
import { block, key, query } from "../state/state";
import type { BlockName, HeadLocation } from "../trace/format";
import { t } from "../i18n/i18n";

/** Whether the search box is open. */
export const findOpen = signal(false);

const BLOCKS: Readonly<Record<string, BlockName>> = { e: "encoder", d: "decoder", c: "cross" };

/** The head that a text names; null: none. "3 5" and "L3H5" refer to block `here`. */
export function parseHead(text: string, currentBlock: BlockName): Omit<HeadLocation, "sequence"> | null {
  const found =
    /^\s*([edc])?[a-z]*[\s.]*(?:l|층|레이어)?\s*(\d{1,4})[\s.,]+(?:h|헤드)?\s*(\d{1,4})\s*$|^\s*([edc])?[a-z]*\s*l(\d{1,4})h(\d{1,4})\s*$/i.exec(
      text,
    );
  if (!found) return null;
  const name = found[1] ?? found[4];
  return {
    block: name ? BLOCKS[name.toLowerCase()] : currentBlock,
    layer: Number(found[2] ?? found[5]),
    head: Number(found[3] ?? found[6]),
  };
}

/** The index of the next token after `from` that contains `text`; -1: none. */
export function findNext(text: string, texts: readonly string[], from: number): number {
  const needle = text.trim().normalize("NFC").toLowerCase();
  if (!needle) return -1;
  for (let i = 1; i <= texts.length; i++) {
    const at = (from + i) % texts.length;
    if (texts[at].normalize("NFC").toLowerCase().includes(needle)) return at;
  }
  return -1;
}

export function Find() {
  const input = useRef<HTMLInputElement>(null);
  const notFound = useRef(signal(false)).current;
  useLayoutEffect(() => {
    if (findOpen.value) input.current?.focus();
  }, [findOpen.value]);
  if (!findOpen.value) return null;
  const submit = (event: Event) => {
    event.preventDefault();
    const text = input.current?.value ?? "";
    const head = parseHead(text, block.value);
    notFound.value = head ? !selectHead(head) : !findToken(text);
    if (head && !notFound.value) findOpen.value = false;
  };
  return (
    <form class="find" role="search" onSubmit={submit}>
      <input
        ref={input}
        type="search"
        aria-label={t({ ko: "토큰이나 헤드 찾기", en: "find a token or a head" })}
        placeholder={t({ ko: "토큰, 또는 L3 H5", en: "a token, or L3 H5" })}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation(); // closes only the search box
          findOpen.value = false;
        }}
      />
      <span role="status">{notFound.value ? t({ ko: "없음", en: "none" }) : ""}</span>
    </form>
  );
}

/** Locks the next query that contains `text`, or else the next key. */
function findToken(text: string): boolean {
  const currentAxes = axes.value;
  if (!currentAxes) return false;
  const row = findNext(
    text,
    currentAxes.queries.map((label) => displayText(label.text)),
    labelIndex(currentAxes.queries, query.value),
  );
  if (row >= 0) {
    query.value = currentAxes.queries[row].pieces[0];
    return true;
  }
  const column = findNext(
    text,
    currentAxes.keys.map((label) => displayText(label.text)),
    labelIndex(currentAxes.keys, key.value),
  );
  if (column >= 0) key.value = currentAxes.keys[column].pieces[0];
  return column >= 0;
}
