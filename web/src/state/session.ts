/** The current trace, and how new ones are loaded. */

import { batch, signal } from "@preact/signals";
import type { Effects, HeadLocation, TraceInfo } from "../trace/format";
import { clampIndex } from "../trace/matrix";
import { api, post } from "../trace/api";
import { bootConfig, type LiveModel, openEmbedded, openServed } from "../trace/source";
import type { Trace } from "../trace/trace";
import { type Message, t } from "../i18n/i18n";
import { errorText } from "./useAsync";
import { checkAsked } from "./settings";
import * as state from "./state";

/** The current trace; null: none yet. */
export const currentTrace = signal<Trace | null>(null);
/** Its name on the server; null without a server. */
export const traceId = signal<string | null>(null);
/** The live model of the server; null: the page shows a file. */
export const liveModel = signal<LiveModel | null>(null);
/** Whether a trace is loading, and why the last one failed. */
export const busy = signal(false);
export const sessionError = signal<string | null>(null);
/** Heads that the next run mutes, as `block.layer.head`. */
export const muted = signal<ReadonlySet<string>>(new Set());

/** The effects of heads that were measured last; a saved page contains them. */
export const measuredEffects = signal<{ readonly trace: Trace; readonly effects: Effects } | null>(null);

/** The measured effects of this trace; null: none yet. */
export function effectsOf(trace: Trace): Effects | null {
  return measuredEffects.value?.trace === trace ? measuredEffects.value.effects : null;
}

export function headKey({ block, layer, head }: Omit<HeadLocation, "sequence">): string {
  return `${block}.${layer}.${head}`;
}

/** Loads the trace that the page was started with, or that of the run in the address. */
export async function loadInitialTrace(): Promise<void> {
  const requested = next;
  next = undefined;
  await withStatus(async () => {
    const config = bootConfig();
    if (config.mode === "embedded") {
      const trace = await openEmbedded();
      if (config.effects) measuredEffects.value = { trace, effects: config.effects };
      if (!requested) showTrace(trace, null);
      if (!inPage.open) return;
      Object.assign(inPage, await inPage.open(trace));
      liveModel.value = config.model ?? null;
      if (requested) await executeElse(requested, () => showTrace(trace, null));
      return;
    }
    const isLive = config.mode === "live";
    const first = requested && isLive ? null : initialTrace();
    first?.catch(() => undefined); // awaited below, after the model
    if (isLive) liveModel.value = config.model ?? ((await (await api("api/model")).json()) as LiveModel);
    if (requested && isLive) await executeElse(requested, () => openInitialTrace(initialTrace()));
    else await openInitialTrace(first);
  });
  if (next !== undefined) await showRun(next);
  runIsPending.value = false;
}

/** Makes `loadInitialTrace` show this run. */
export function startWith(run: Run | null): void {
  next = run;
  runIsPending.value = run !== null;
}

export interface Request {
  readonly text: string;
  readonly target: string | null;
  readonly decode: Readonly<Record<string, number | boolean>> | null; // null: read the text without generating
}

/** A request with the heads that it mutes, as `block.layer.head`, and its weights. */
export interface Run extends Request {
  readonly mute: readonly string[];
  readonly checkpoint: string | null; // null: the final weights
}

/** The checkpoint of the next run. */
export const checkpoint = signal<string | null>(null);

/** The trace that others are compared with: the one before the current one, or the one that was kept. */
export const baseline = signal<{ readonly trace: Trace; readonly run: Run | null } | null>(null);
export const baselineIsKept = signal(false);

/** Keeps the current trace for comparison until it is called again. */
export function keepBaseline(): void {
  batch(() => {
    baselineIsKept.value = !baselineIsKept.value;
    if (baselineIsKept.value && currentTrace.value) baseline.value = { trace: currentTrace.value, run: currentRun.value };
  });
}

/** The run that made the current trace; null: the page was started with the trace. It is in the address. */
export const currentRun = signal<Run | null>(null);

/** The run that the address had when the page was opened, or after Back or Forward. */
export const runOfAddress = signal<Run | null>(null);

let next: Run | null | undefined; // the run to show next; undefined: the current one
/** Whether the address has a run that is not shown yet. */
export const runIsPending = signal(false);

/** Runs the model and shows the new trace, unless a run is in progress. */
export async function runModel(request: Request): Promise<void> {
  if (!busy.value) await showRun({ ...request, mute: [...muted.value], checkpoint: checkpoint.value });
}

/** Shows the trace of a run, or the one that the page was started with; after the run in progress. */
export async function showRun(run: Run | null): Promise<void> {
  next = run;
  runIsPending.value = true;
  if (busy.value) return;
  while (next !== undefined) {
    const run = next;
    next = undefined;
    await withStatus(() => (run ? execute(run) : openInitialTrace(initialTrace())));
  }
  runIsPending.value = false;
}

/** The model of a page that runs it without a server: what live.js sets. */
export const inPage: {
  open: ((first: Trace) => Promise<InPage>) | null;
  run: InPage["run"] | null;
  muteEach: InPage["muteEach"] | null;
} = { open: null, run: null, muteEach: null };

/** What a model in the page computes: traces, and the answer of a trace with each head muted in turn. */
export interface InPage {
  readonly run: (run: Run) => Promise<Trace>;
  readonly muteEach: (info: TraceInfo) => Effects;
}

async function execute(run: Run, isExample = false): Promise<void> {
  if (!run.text.trim() && liveModel.value?.kind !== "decoder") throw new Error(t(NO_TEXT)); // a language model begins without one
  const { id, trace } = inPage.run ? { id: null, trace: await inPage.run(run) } : await requestTrace(run);
  batch(() => {
    showTrace(trace, id);
    currentRun.value = isExample ? null : run;
    checkpoint.value = run.checkpoint;
  });
}

/** Runs what the address asks for; if it is refused, the page has another trace and the reason. */
async function executeElse(run: Run, other: () => void | Promise<void>): Promise<void> {
  try {
    await execute(run);
  } catch (error) {
    await other();
    throw error;
  }
}

const NO_TEXT: Message = {
  ko: "텍스트를 입력하십시오.",
  en: "Type a text.",
};

async function requestTrace(run: Run): Promise<{ readonly id: string; readonly trace: Trace }> {
  const { id } = (await (await post("api/trace", requestBody(run))).json()) as { id: string };
  return { id, trace: await openServed(id) };
}

/** A run as the server reads it. */
export function requestBody({ text, target, decode, mute, checkpoint }: Run): Readonly<Record<string, unknown>> {
  const heads = mute.map((head) => {
    const [block, layer, number] = head.split(".");
    return [block, Number(layer), Number(number)];
  });
  return { text, target, decode, mute: heads, ...(checkpoint ? { checkpoint } : {}) };
}

/** The trace that the page was started with. */
function initialTrace(): Promise<Trace> | null {
  if (inPage.run) return openEmbedded();
  const { trace } = bootConfig();
  return trace ? openServed(trace) : null;
}

async function openInitialTrace(opening: Promise<Trace> | null): Promise<void> {
  const opened = await opening;
  if (!opened && (await openExample())) return;
  batch(() => {
    if (opened) showTrace(opened, inPage.run ? null : (bootConfig().trace ?? null));
    else currentTrace.value = null;
    currentRun.value = null;
    checkpoint.value = null;
  });
}

/** Shows the first example of the model, which is not a run in the address; false if there is none. */
async function openExample(): Promise<boolean> {
  const [text] = liveModel.value?.traces ? (liveModel.value.examples ?? []) : [];
  if (text === undefined) return false;
  await execute({ text, target: null, decode: {}, mute: [], checkpoint: null }, true);
  return true;
}

async function withStatus(task: () => Promise<void>): Promise<void> {
  batch(() => {
    busy.value = true;
    sessionError.value = null;
  });
  try {
    await task();
  } catch (error) {
    sessionError.value = errorText(error);
  }
  busy.value = false;
}

function showTrace(trace: Trace, id: string | null): void {
  batch(() => {
    if (!state.view.value) openBestView(trace.info, id !== null);
    if (currentTrace.value && !baselineIsKept.value) baseline.value = { trace: currentTrace.value, run: currentRun.value };
    clampSelection(trace.info);
    currentTrace.value = trace;
    traceId.value = id;
    muted.value = new Set(trace.info.muted.map(([block, layer, head]) => headKey({ block, layer, head })));
  });
}

/** The first view: the circuit, the words that decided, else the whole model. A saved page has its view in the address, if it contains it (`first_view` in jumok.viewer.view_state). */
export function openBestView({ circuit, classification, blocks }: TraceInfo, isServed: boolean): void {
  if (!isServed) state.view.value = "lines";
  else if (circuit) state.view.value = "circuit";
  else state.view.value = classification ? "explanation" : "flow";
  if (isServed && blocks.some(({ name }) => name === "cross")) state.block.value = "cross";
}

/** Clamps the selection to the blocks, layers, heads and tokens of the trace. */
export function clampSelection(info: TraceInfo): void {
  const block = info.blocks.find(({ name }) => name === state.block.value) ?? info.blocks[0];
  if (!block) throw new Error("the trace has no attention blocks");
  const token = (number: number | null, count: number) => (number !== null && number < count ? number : null);
  batch(() => {
    state.block.value = block.name;
    state.sequence.value = clampIndex(state.sequence.value, info.sides[block.keys]?.length ?? 0);
    state.layer.value = clampIndex(state.layer.value, block.layers);
    state.head.value = clampIndex(state.head.value, block.heads);
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
    checkAsked({
      ...{ s: state.sequence.value, b: state.block.value, L: state.layer.value, H: state.head.value, q: state.query.value, k: state.key.value },
      pin: pins.map(headKey).join("~"),
    });
  });
}
