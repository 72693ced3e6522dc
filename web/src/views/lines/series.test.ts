/** The lines of real traces: heads, pairs, and exports equal to the trace. */

import { beforeEach, describe, expect, it } from "vitest";
import { block, focusedHead, head, key, layer, pinned, query, unit } from "../../state/state";
import { FIXTURES, openFixture } from "../../testing/fixtures";
import { INFO, testTrace } from "../../testing/testTrace";
import { svg, table } from "./picture";
import { heads, layout, loadLines, mass, segments } from "./series";

beforeEach(() => {
  query.value = key.value = null;
  pinned.value = [];
  heads.value = "focus";
  layout.value = "columns";
  mass.value = 0.9;
  segments.value = "all";
  unit.value = "piece";
  [block.value, layer.value, head.value] = ["encoder", 1, 1];
});

describe("the lines of a trace", () => {
  it("are those of the focused head and reach the requested fraction", async () => {
    const trace = await openFixture("small");
    const { series, lines } = await loadLines(trace);
    expect(series).toHaveLength(1);
    expect(series[0].matrix.data).toEqual((await trace.weights(focusedHead.value)).data);
    expect(lines.shownMass / lines.visibleMass).toBeGreaterThanOrEqual(0.9);
    mass.value = 1;
    expect((await loadLines(trace)).lines.shownMass).toBeCloseTo(lines.visibleMass, 4);
  });

  it("are those of the pinned heads of the block, the mean, the maximum, or all", async () => {
    const trace = await openFixture("small");
    const all = await Promise.all([0, 1].map((number) => trace.weights({ ...focusedHead.value, head: number })));
    heads.value = "pinned";
    expect((await loadLines(trace)).heads).toBe("focus"); // nothing is pinned
    pinned.value = [
      { sequence: 0, block: "cross", layer: 0, head: 0 },
      { sequence: 0, block: "encoder", layer: 1, head: 0 },
    ];
    const some = await loadLines(trace);
    expect(some.series.map(({ colour }) => colour)).toEqual([1]); // its colour on the head map
    expect(some.series[0].matrix.data).toEqual(all[0].data);
    heads.value = "mean";
    const mean = (await loadLines(trace)).series[0].matrix;
    expect(mean.data[5]).toBeCloseTo((all[0].data[5] + all[1].data[5]) / 2, 6);
    heads.value = "max";
    expect((await loadLines(trace)).series[0].matrix.data[5]).toBe(Math.max(all[0].data[5], all[1].data[5]));
    heads.value = "all";
    expect((await loadLines(trace)).series.map(({ colour }) => colour)).toEqual([1, null]);
  });

  it("fall back to defaults for invalid settings", async () => {
    const trace = await openFixture("small");
    heads.value = "none" as "all";
    segments.value = "zz" as "ab";
    const { heads: how, filtered } = await loadLines(trace);
    expect([how, filtered]).toEqual(["focus", false]);
  });

  it("have segments only if two of them contain tokens", async () => {
    const pairs = async (list: number[]) => {
      const [row] = INFO.sides.source ?? [];
      return (await loadLines(await testTrace({ sides: { source: [{ ...row, segments: list }] } }))).pairs;
    };
    expect(await pairs([0, 0, 0, 0, 1])).toBe(false); // padding may be of any segment
    expect(await pairs([0, 0, 0, 1, 1])).toBe(true);
  });

  it("use the current unit", async () => {
    const trace = await openFixture("small");
    unit.value = "word";
    const { weights, series } = await loadLines(trace);
    expect(series[0].matrix.rows).toBe(weights.queries.length);
    expect(weights.queries.length).toBeLessThan(trace.queries(focusedHead.value).pieces.length);
  });
});

it.each(FIXTURES)("pictures and tables of %s contain the weights of the locked token", async (name) => {
  const trace = await openFixture(name);
  const { name: first } = trace.info.blocks[0];
  [block.value, layer.value, head.value] = [first, 0, 0];
  query.value = 2;
  mass.value = 1;
  const weights = await trace.weights(focusedHead.value);
  const [, ...rows] = await table(trace);
  expect(rows.length).toBeGreaterThan(0);
  for (const [, queryIndex, , keyIndex, , weight] of rows) {
    expect(queryIndex).toBe(2);
    expect(weight).toBe(weights.data[2 * weights.columns + Number(keyIndex)]);
  }
  for (const kind of ["columns", "arcs"] as const) {
    layout.value = kind;
    const picture = new DOMParser().parseFromString(await svg(trace), "image/svg+xml");
    expect(picture.documentElement.tagName).toBe("svg");
    expect(picture.querySelectorAll("path").length).toBeGreaterThan(1);
  }
});
