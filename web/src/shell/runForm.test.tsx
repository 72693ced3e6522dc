/** The form of a live model: its fields, and the request it sends. */

import { render } from "preact";
import { afterEach, describe, expect, it, vi } from "vitest";
import { INFO, safetensors, testTrace } from "../testing/testTrace";
import { busy, currentTrace, liveModel, runModel } from "../state/session";
import type { TraceInfo } from "../trace/format";
import { DecodingSettings, request, runExample, RunForm, submitRequest } from "./runForm";

const CARD = { title: "a", task: null, kind: "encoder_decoder", pairs: false, writes: true, traces: true, max_length: 9 };

afterEach(() => {
  vi.unstubAllGlobals();
  render(null, document.body);
  liveModel.value = currentTrace.value = null;
});

describe("a target", () => {
  const fields = (writes: boolean) => {
    liveModel.value = { ...CARD, writes };
    render(<><RunForm /><DecodingSettings /></>, document.body);
    return document.querySelectorAll("textarea").length;
  };

  it("is offered for a generative model", () => expect(fields(true)).toBe(2));
  it("is not offered for a classifier with a decoder", () => expect(fields(false)).toBe(1));
});

it("the text of a language model is its prompt, not the generated text", async () => {
  const target = INFO.sides.source ?? [];
  const decoding = { method: "greedy", settings: {}, prompt: -3, steps: [], output: "", text: "ROMEO:\n" } as const;
  const [block] = INFO.blocks;
  currentTrace.value = await testTrace({ sides: { target }, blocks: [{ ...block, queries: "target", keys: "target" }], decoding });
  expect(request.value.text).toBe("ROMEO:\n");
});

describe("a given target", () => {
  const target = INFO.sides.source ?? [];
  const decoding = { method: "given", settings: {}, prompt: 1, steps: [], output: "봄이다", text: "나는" } as const;
  const [block] = INFO.blocks;
  const reads = { ...block, queries: "target", keys: "target" } as const;

  const fields = () => [...document.querySelectorAll("textarea")];
  const show = async (kind: string, info: Partial<TraceInfo>) => {
    currentTrace.value = await testTrace({ decoding, ...info });
    liveModel.value = { ...CARD, kind };
    render(<><RunForm /><DecodingSettings /></>, document.body);
  };
  const type = async (field: HTMLTextAreaElement, text: string) => {
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    await vi.waitFor(() => expect(fields().map(({ value }) => value)).toContain(text));
  };

  it("is given again until it is edited", async () => {
    await show("encoder_decoder", { sides: { source: target, target } });
    expect(request.value).toEqual({ text: "나는 봄", target: "봄이다", decode: {} });
    expect(fields()[1].value).toBe("봄이다");
    await type(fields()[1], "");
    expect(request.value.target).toBeNull();
    await type(fields()[1], "여름");
    expect(request.value.target).toBe("여름");
  });

  it("is shown and given again for a language model", async () => {
    const info: Partial<TraceInfo> = { sides: { target }, blocks: [{ ...reads, name: "decoder" }] };
    vi.stubGlobal("fetch", traceServer({ ...INFO, ...info, decoding: { ...decoding, method: "greedy" } }));
    await show("decoder", info);
    await type(fields()[1], ""); // the field still has the value of the previous test
    await submitRequest();
    expect(request.value.target).toBeNull();
    expect(fields().length).toBe(1);
    await show("decoder", info);
    expect(request.value).toEqual({ text: "나는", target: "봄이다", decode: {} });
    expect(fields()[1].value).toBe("봄이다");
  });

  it("fields are reset to the new trace after a run", async () => {
    vi.stubGlobal("fetch", traceServer({ ...INFO, decoding: { ...decoding, output: "가을" } }));
    await show("encoder_decoder", { sides: { source: target, target } });
    await type(fields()[0], "너는");
    await type(fields()[1], "여름");
    await submitRequest();
    expect(request.value).toEqual({ text: "나는 봄", target: "가을", decode: {} });
  });
});

it("only one run at a time, also with a held Enter key", async () => {
  const fetch = vi.fn(traceServer(INFO));
  vi.stubGlobal("fetch", fetch);
  [currentTrace.value, liveModel.value] = [await testTrace(), CARD];
  render(<><RunForm /><DecodingSettings /></>, document.body);
  const [field] = document.querySelectorAll("textarea");
  const enter = (repeat: boolean) => {
    const event = new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, repeat });
    field.dispatchEvent(event);
    expect(event.defaultPrevented).toBe(true); // no new line in the field either
  };
  for (const repeat of [false, true, false]) enter(repeat);
  await runModel({ text: "", target: null, decode: {} });
  await vi.waitFor(() => expect(busy.value).toBe(false));
  enter(true);
  expect(busy.value).toBe(false);
  expect(fetch.mock.calls.filter(([address]) => address === "api/trace")).toHaveLength(1);
});

it("an example that is clicked during a run is run after it", async () => {
  const server = traceServer(INFO);
  const texts: string[] = [];
  const release: (() => void)[] = [];
  vi.stubGlobal("fetch", async (address: URL | string, options?: RequestInit) => {
    if (String(address).endsWith("api/trace")) {
      texts.push((JSON.parse(String(options?.body)) as { text: string }).text);
      await new Promise<void>((resolve) => release.push(resolve));
    }
    return server(address);
  });
  [currentTrace.value, liveModel.value] = [await testTrace(), CARD];
  runExample("첫째");
  await vi.waitFor(() => expect(texts).toEqual(["첫째"]));
  runExample("둘째");
  runExample("셋째"); // the last one counts
  release[0]();
  await vi.waitFor(() => expect(texts).toEqual(["첫째", "셋째"]));
  release[1]();
  await vi.waitFor(() => expect(busy.value).toBe(false));
  await new Promise((done) => setTimeout(done, 20));
  expect(texts).toHaveLength(2);
  expect(request.value.text).toBe("나는 봄"); // as in the trace
});

/** A server that returns this trace for every request. */
function traceServer(info: TraceInfo) {
  const file = safetensors(info, { "encoder.0.weights": { shape: [1, 2, 5, 5], data: new Float32Array(50) } });
  return (address: URL | string) =>
    Promise.resolve(String(address).endsWith("api/trace") ? Response.json({ id: "00ff" }) : new Response(file));
}
