/** The actions on the state, shared by keyboard, pointer and buttons. */

import { batch, signal, type Signal } from "@preact/signals";
import type { HeadLocation } from "../trace/format";
import { clampIndex } from "../trace/matrix";
import { axes, labelIndex } from "./labels";
import { currentTrace, headKey, muted } from "./session";
import { setting } from "./settings";
import * as state from "./state";

/** Whether the last hover came from the keyboard: it is then announced to screen readers. */
export const hoveredByKeyboard = signal(false);

/** Moves the focus by rows and columns, in the current unit. */
export function moveCell(down: number, right: number): void {
  const current = axes.value;
  if (!current) return;
  const row = clampIndex(labelIndex(current.queries, state.focusQuery.value) + down, current.queries.length);
  const column = clampIndex(labelIndex(current.keys, state.focusKey.value) + right, current.keys.length);
  hoverOver(current.queries[row].pieces[0], current.keys[column].pieces[0], true);
}

/** Sets the hovered pair of pieces; null: none. */
export function hoverOver(query: number | null, key: number | null, keyboard = false): void {
  batch(() => {
    hoveredByKeyboard.value = keyboard;
    state.hoverQuery.value = query;
    state.hoverKey.value = key;
  });
}

/** Locks a pair of pieces; unlocks it if it is locked already. */
export function toggleLock(query = state.focusQuery.value, key = state.focusKey.value): void {
  const isLocked = query === state.query.value && key === state.key.value;
  batch(() => {
    state.query.value = isLocked ? null : query;
    state.key.value = isLocked ? null : key;
  });
}

/** Clears hover and lock. */
export function unlock(): void {
  batch(() => {
    hoverOver(null, null);
    state.query.value = null;
    state.key.value = null;
  });
}

/** Focuses a head, in another block too; false if it does not exist. */
export function selectHead({ block, layer, head }: Omit<HeadLocation, "sequence">): boolean {
  const found = currentTrace.value?.info.blocks.find(({ name }) => name === block);
  if (!found || layer >= found.layers || head >= found.heads) return false;
  batch(() => {
    state.block.value = block;
    state.layer.value = layer;
    state.head.value = head;
  });
  return true;
}

/** The next layer or head, cyclically. */
export function stepIndex(of: "layer" | "head", by: number): void {
  const block = currentTrace.value?.info.blocks.find(({ name }) => name === state.block.value);
  if (!block) return;
  const [current, count] = of === "layer" ? [state.layer, block.layers] : [state.head, block.heads];
  current.value = (current.value + by + count) % count;
}

export function nextBlock(): void {
  const blocks = currentTrace.value?.info.blocks ?? [];
  const at = blocks.findIndex(({ name }) => name === state.block.value);
  if (blocks.length) state.block.value = blocks[(at + 1) % blocks.length].name;
}

/** Sets the next choice, cyclically. */
export function cycle<T extends string>(of: Signal<T>, choices: readonly T[]): void {
  of.value = choices[(choices.indexOf(of.value) + 1) % choices.length];
}

/** Pins a head for comparison, or unpins it; at most four, the oldest is removed. */
export function togglePin(location: HeadLocation = state.focusedHead.value): void {
  const others = state.pinned.value.filter((pinned) => headKey(pinned) !== headKey(location));
  const wasPinned = others.length < state.pinned.value.length;
  batch(() => {
    state.pinned.value = wasPinned ? others : [...others, location].slice(-4);
    setting<string>("lines", "heads", "focus").value = state.pinned.value.length ? "pinned" : "focus";
  });
}

/** Mutes a head in the next run, or unmutes it. */
export function toggleMute(location: Omit<HeadLocation, "sequence"> = state.focusedHead.value): void {
  const heads = new Set(muted.value);
  if (!heads.delete(headKey(location))) heads.add(headKey(location));
  muted.value = heads;
}
