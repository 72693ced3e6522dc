/** The trace that is shown, and where new ones come from. */

import { batch, signal } from "@preact/signals";
import type { Place, TraceInfo } from "../trace/format";
import { api, post } from "../trace/api";
import { boot, embedded, type LiveModel, served } from "../trace/source";
import type { Trace } from "../trace/trace";
import { sentence } from "./loaded";
import * as state from "./state";

/** The trace on the page; null: none yet. */
export const opened = signal<Trace | null>(null);
/** By what name the server knows it; null in a page without one. */
export const name = signal<string | null>(null);
/** The model behind the page; null: a file is shown. */
export const model = signal<LiveModel | null>(null);
/** Whether a trace is on its way, and why the last one did not come. */
export const busy = signal(false);
export const failure = signal<string | null>(null);
/** Heads that the next run mutes, as `block.layer.head`. */
export const muted = signal<ReadonlySet<string>>(new Set());

export function nameOf({ block, layer, head }: Omit<Place, "sequence">): string {
  return `${block}.${layer}.${head}`;
}

/** Opens what the page was started with. */
export async function start(): Promise<void> {
  await during(async () => {
    const how = boot();
    if (how.mode === "embedded") return show(await embedded(), null);
    if (how.mode === "live") model.value = how.model ?? ((await (await api("api/model")).json()) as LiveModel);
    if (how.trace) show(await served(how.trace), how.trace);
  });
}

export interface Request {
  readonly text: string;
  readonly target: string | null;
  readonly decode: Readonly<Record<string, number | boolean>> | null;
}

/** Asks the model for a new trace and shows it, unless one is on its way. */
export async function run(request: Request): Promise<void> {
  if (busy.value) return;
  await during(async () => {
    const mute = [...muted.value].map((head) => {
      const [block, layer, number] = head.split(".");
      return [block, Number(layer), Number(number)];
    });
    const { id } = (await (await post("api/trace", { ...request, mute })).json()) as { id: string };
    show(await served(id), id);
  });
}

async function during(work: () => Promise<void>): Promise<void> {
  batch(() => {
    busy.value = true;
    failure.value = null;
  });
  try {
    await work();
  } catch (error) {
    failure.value = sentence(error);
  }
  busy.value = false;
}

function show(trace: Trace, id: string | null): void {
  batch(() => {
    fit(trace.info);
    opened.value = trace;
    name.value = id;
    muted.value = new Set(trace.info.muted.map(([block, layer, head]) => nameOf({ block, layer, head })));
  });
}

/** Moves what is looked at to where the trace has something. */
export function fit(info: TraceInfo): void {
  const within = (number: number, count: number) => Math.max(0, Math.min(number, count - 1));
  const block = info.blocks.find(({ name }) => name === state.block.value) ?? info.blocks[0];
  if (!block) throw new Error("the trace holds no attention");
  const token = (number: number | null, count: number) => (number !== null && number < count ? number : null);
  batch(() => {
    state.block.value = block.name;
    state.sequence.value = within(state.sequence.value, info.sides[block.keys]?.length ?? 0);
    state.layer.value = within(state.layer.value, block.layers);
    state.head.value = within(state.head.value, block.heads);
    const tokens = (side: "queries" | "keys") => info.sides[block[side]]?.[state.sequence.value]?.pieces.length ?? 0;
    state.query.value = token(state.query.value, tokens("queries"));
    state.key.value = token(state.key.value, tokens("keys"));
    state.hoverQuery.value = token(state.hoverQuery.value, tokens("queries"));
    state.hoverKey.value = token(state.hoverKey.value, tokens("keys"));
    const pins = state.pinned.value
      .filter((pin) =>
        info.blocks.some(({ name, layers, heads }) => name === pin.block && pin.layer < layers && pin.head < heads),
      )
      .map((pin) => ({ ...pin, sequence: state.sequence.value }));
    if (JSON.stringify(pins) !== JSON.stringify(state.pinned.value)) state.pinned.value = pins;
  });
}
