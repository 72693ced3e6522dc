import { afterEach, describe, expect, test } from "vitest";
import * as state from "../state/state";
import { INFO, type Tensor, testTrace } from "../testing/testTrace";
import type { Block, TraceInfo } from "../trace/format";
import * as abouts from "../views/viewInfo";
import { alignment } from "../views/alignment/alignment";
import { rows } from "../views/alignment/alignmentData";
import { explanation } from "../views/explanation/explanation";
import { generation } from "../views/generation/generation";
import type { View } from "../views/view";
import { csv } from "./csv";

const HOSTILE = ["</text><script>alert(1)</script>", `"'><svg onload="x">`, "\u0000\u202e\ud800]]>", "=cmd|'/C calc'!A0", "&lt;"];
const N = HOSTILE.length;

const tokens = { ...(INFO.sides.source?.[0] as NonNullable<TraceInfo["sides"]["source"]>[0]), pieces: HOSTILE, real: [1, 1, 1, 1, 1], text: HOSTILE.join("") };
const cross: Block = { ...INFO.blocks[0], name: "cross", queries: "target" };
const candidates = HOSTILE.map((piece, id) => ({ id, piece, probability: id === 1 ? 0 : 0.2 }));
const info: Partial<TraceInfo> = {
  title: HOSTILE[0],
  blocks: [INFO.blocks[0], { ...INFO.blocks[0], name: "decoder", queries: "target", keys: "target" }, cross],
  sides: { source: [tokens], target: [tokens] },
  classification: {
    labels: HOSTILE.slice(0, 2),
    sequences: [{ probabilities: [0.25, 0.75], words: HOSTILE.map((text, i) => ({ text, span: [i, i + 1], without: [0.5, 0.5] })), agreement: 0.5 }],
  },
  decoding: {
    method: "beam",
    settings: { pattern: HOSTILE[0] },
    text: null,
    prompt: 1,
    steps: HOSTILE.slice(1).map((piece, i) => ({
      cache: i,
      before: candidates,
      after: candidates,
      chosen: { id: i + 1, piece, log_probability: -1 },
      beams: [{ id: i + 1, parent: i, token: i, piece, score: -1, ended: false, best: true }],
    })),
    output: "",
  },
};

/** Weights that differ by row: row t attends to column t only. */
function diagonal(): Record<string, Tensor> {
  const data = Float32Array.from({ length: 2 * N * N }, (_, i) => Number(Math.floor(i / N) % N === i % N));
  const named = ["cross", "decoder"].flatMap((block) => [0, 1].map((layer) => [`${block}.${layer}.weights`, { shape: [1, 2, N, N], data }]));
  return Object.fromEntries(named) as Record<string, Tensor>;
}

/** Checks for well-formed XML without scripts or external references. */
function check(svg: string): void {
  const open: string[] = [];
  const rest = svg.replace(/<(\/?)([a-z]+)((?: [a-zA-Z-]+="[^"<&]*(?:&(?:amp|lt|gt|quot|#39);[^"<&]*)*")*)(\/?)>/g, (_, end, name, attributes: string, empty) => {
    expect(name).not.toMatch(/script|foreign|image|style|use/);
    expect(attributes).not.toMatch(/ (?:on[a-z]+|href)=|https?:(?!\/\/www\.w3\.org\/)/);
    if (end) expect(open.pop()).toBe(name);
    else if (!empty) open.push(name);
    return "";
  });
  expect(open).toEqual([]);
  expect(rest).not.toMatch(/[<>\u0000-\u0008\ud800]|&(?!(?:amp|lt|gt|quot|#39);)/);
}

afterEach(() => {
  rows.value = "read";
  state.view.value = "lines";
});

const VIEWS: readonly View[] = [
  { ...abouts.alignment, ...alignment },
  { ...abouts.generation, ...generation },
  { ...abouts.explanation, ...explanation },
];

describe.each(VIEWS)("$id", (view) => {
  test("its picture is well-formed XML without scripts, for any tokens", async () => {
    const trace = await testTrace(info, diagonal());
    check((await view.svg?.(trace)) ?? "");
  });

  test("its table contains the numbers and no formulas", async () => {
    const cells = (await view.table?.(await testTrace(info, diagonal()))) ?? [];
    expect(cells.length).toBeGreaterThan(N - 1);
    expect(csv(cells)).not.toMatch(/(^|,|\n)"?[=+@-](?!\d)/m);
  });

  test("it names the data that a trace lacks", () => {
    expect(view.supports(INFO)).toBe(false);
    expect(view.missing.ko && view.missing.en).toBeTruthy();
  });
});

describe("rows of the alignment", () => {
  test("token read: as recorded; token predicted: shifted by one, without the last row", async () => {
    const trace = await testTrace(info, diagonal());
    const read = (await alignment.table?.(trace)) ?? [];
    expect(read).toHaveLength(1 + N + 1);
    expect(read[2].slice(1)).toEqual([0, 1, 0, 0, 0]);
    expect(read.at(-1)?.slice(1)).toEqual([1, 1, 1, 1, 1]);
    rows.value = "predicted";
    const predicted = (await alignment.table?.(trace)) ?? [];
    expect(predicted).toHaveLength(1 + (N - 1) + 1);
    expect(predicted[1][0]).toBe(HOSTILE[1]); // read at token 0, predicts token 1
    expect(predicted[1].slice(1)).toEqual([1, 0, 0, 0, 0]);
    expect(predicted.at(-1)?.slice(1)).toEqual([1, 1, 1, 1, 0]);
  });
});
