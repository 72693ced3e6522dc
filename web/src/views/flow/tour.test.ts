/** The layout and the stages of the flow. */

import { beforeEach, expect, it } from "vitest";
import { INFO, testTrace } from "../../testing/testTrace";
import { loadFlow, meanRow, momentsOf, strongest } from "./flowData";
import { layoutFlow } from "./layout";
import { overview, stageAt, stagesOf } from "./tour";

const deep = { ...INFO, blocks: INFO.blocks.map((block) => ({ ...block, layers: 12 })) };

async function opened(info = INFO, height = 600) {
  const trace = await testTrace(info);
  const flow = await loadFlow(trace, 0);
  return { flow, info: trace.info, layout: layoutFlow(flow, trace.info.model, [], 900, height, 99) };
}

let model: Awaited<ReturnType<typeof opened>>;
beforeEach(async () => {
  model = await opened();
});

it("every stage has a paragraph in both languages and ends at a moment of the replay", () => {
  const { flow, info, layout } = model;
  const stages = stagesOf(flow, info, layout);
  const moments = momentsOf(flow);
  expect(stages.length).toBeGreaterThanOrEqual(5);
  for (const { moment, title, text } of [...stages, { moment: 0, ...overview(info) }]) {
    expect(moments[moment]).toBeDefined();
    for (const each of [title, text]) expect([each.ko.length > 1, each.en.length > 1]).toEqual([true, true]);
  }
  expect(stages.map(({ moment }) => moment)).toEqual([...stages.map(({ moment }) => moment)].sort((a, b) => a - b));
});

it("a moment of another layer has the stage of the same sublayer", () => {
  const { flow, info, layout } = model;
  const stages = stagesOf(flow, info, layout);
  const last = momentsOf(flow).findLastIndex(({ side, column }) => flow.sides[side].columns[column].kind === "attention");
  expect(stages[stageAt(stages, flow, last)].title.en).toContain("elf-attention");
});

it("parts are stacked from the bottom to the top without gaps, within the picture", () => {
  const { layout } = model;
  for (const { parts } of layout.stacks) {
    expect(parts[0].bottom).toBeLessThanOrEqual(layout.height);
    parts.slice(1).forEach(({ bottom }, i) => expect(bottom).toBeCloseTo(parts[i].top));
    expect(parts[parts.length - 1].top).toBeGreaterThanOrEqual(0);
  }
});

it("of a deep model the chosen layer is drawn in full, and others as far as they fit", async () => {
  const { flow, layout } = await opened(deep as typeof INFO, 500);
  const full = layout.stacks[0].parts.flatMap(({ expanded }, i) => (expanded && flow.sides[0].columns[i].layer >= 0 ? [flow.sides[0].columns[i].layer] : []));
  expect(new Set(full).has(11)).toBe(true);
  expect(new Set(full).has(0)).toBe(false);
});

it("the row of a token is the mean of its heads, the largest weights first", () => {
  const head = (...data: number[]) => ({ rows: 1, columns: 3, data: Float32Array.from(data) });
  const row = meanRow([head(0.5, 0.25, 0.25), null, head(0, 0.25, 0.75)], 0);
  expect([...row]).toEqual([0.25, 0.25, 0.5]);
  expect(strongest(row, 2)).toEqual([
    { key: 2, weight: 0.5 },
    { key: 0, weight: 0.25 },
  ]);
});
