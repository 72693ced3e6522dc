import { describe, expect, it } from "vitest";
import { FIXTURES, openFixture, openFixtureWithout } from "../../testing/fixtures";
import type { HeadLocation } from "../../trace/format";
import type { Trace } from "../../trace/trace";
import { STEP_TEXTS } from "./lesson";
import sources from "./sources.json";
import { type StepId, type StepMatrix, steps } from "./steps";

/** All heads of all layers of all blocks, for each sequence. */
function allHeads(trace: Trace): HeadLocation[] {
  return trace.info.blocks.flatMap((block) =>
    Array.from({ length: block.layers * block.heads * (trace.info.sides[block.queries]?.length ?? 0) }, (_, i) => ({
      block: block.name,
      head: i % block.heads,
      layer: Math.floor(i / block.heads) % block.layers,
      sequence: Math.floor(i / block.heads / block.layers),
    })),
  );
}

/** Steps that are given, not computed. */
const GIVEN: readonly StepId[] = ["pieces", "ids", "input"];

async function sheets(trace: Trace, location: HeadLocation, id: StepId): Promise<readonly StepMatrix[]> {
  return (await steps(trace, location).find((step) => step.id === id)?.load()) ?? [];
}

describe.each(FIXTURES)("every step of %s", (name) => {
  it("is recomputed in every head and agrees with the trace", async () => {
    const trace = await openFixture(name);
    let ticks = 0;
    for (const location of allHeads(trace))
      for (const step of steps(trace, location)) {
        const where = `${step.id} of ${location.block}.${location.layer}.${location.head}, sequence ${location.sequence}`;
        const learned = step.id === "positions" && !trace.info.model.positions.startsWith("sinusoidal");
        const made = await step.load();
        if (!learned) expect(made.length, where).toBeGreaterThan(0);
        for (const { check, numbers, rows, formula, columns } of made) {
          expect(rows, where).toHaveLength(numbers.rows);
          if (columns) expect(columns, where).toHaveLength(numbers.columns);
          expect(formula(numbers.rows - 1, numbers.columns - 1), where).toMatch(/./);
          if (GIVEN.includes(step.id) || learned) expect(check, where).toBeNull();
          else {
            expect(check, where).not.toBeNull();
            expect(check?.worst, where).toBeLessThan(1e-5);
            ticks++;
          }
        }
      }
    expect(ticks).toBeGreaterThan(30);
  });

  it("has texts and source lines", async () => {
    const trace = await openFixture(name);
    for (const { id } of allHeads(trace).flatMap((location) => steps(trace, location))) {
      expect(STEP_TEXTS[id].title.ko).toMatch(/./);
      expect(sources[id].code).toMatch(/./);
    }
  });
});

describe("the check", () => {
  it("fails if a number differs", async () => {
    const trace = await openFixture("small");
    const weights = await trace.weights({ block: "encoder", layer: 0, head: 0, sequence: 0 });
    const location: HeadLocation = { block: "encoder", layer: 0, head: 0, sequence: 0 };
    weights.data[3] += 1e-4; // in the cache of the trace
    const [softmax] = await sheets(trace, location, "softmax");
    const [mixed] = await sheets(trace, location, "weighted_sum");
    expect(softmax.check?.agrees).toBe(false);
    expect(softmax.check?.worst).toBeCloseTo(1e-4, 6);
    expect(mixed.check?.agrees).toBe(false);
  });
});

describe("shapes", () => {
  it("equal those that torch prints, in order", async () => {
    const trace = await openFixture("small");
    const shape = (id: StepId) =>
      steps(trace, { block: "encoder", layer: 0, head: 0, sequence: 0 }).find((step) => step.id === id)?.shapes();
    expect(shape("ids")).toEqual([[2, 7]]);
    expect(shape("embedding")).toEqual([[2, 7], [2, 7, 8]]);
    expect(shape("heads")).toEqual([[2, 7, 8], [2, 7, 2, 4], [2, 2, 7, 4]]);
    expect(shape("softmax")).toEqual([[2, 2, 7, 7]]);
    expect(shape("weighted_sum")).toEqual([[2, 2, 7, 7], [2, 2, 7, 4]]);
    expect(shape("concat")).toEqual([[2, 2, 7, 4], [2, 7, 2, 4], [2, 7, 8]]);
    expect(shape("feed_forward_up")).toEqual([[2, 7, 8], [2, 7, 16]]);
    const [heads] = steps(trace, { block: "cross", layer: 0, head: 0, sequence: 0 }).filter(({ id }) => id === "heads");
    expect(heads.shapes()).toEqual([[2, 5, 8], [2, 5, 2, 4], [2, 2, 5, 4]]);
    expect(heads.shapes(7)).toEqual([[2, 7, 8], [2, 7, 2, 4], [2, 2, 7, 4]]);
  });
});

describe("formulas", () => {
  it("show how a number is computed", async () => {
    const trace = await openFixture("small");
    const location: HeadLocation = { block: "encoder", layer: 0, head: 1, sequence: 1 };
    const [q] = await sheets(trace, location, "project");
    expect(q.formula(1, 2)).toMatch(/^[\d.()−]+·[\d.()−]+ \+ [\d.()−]+·[\d.()−]+ \+ [\d.()−]+·[\d.()−]+ \+ … \(8\) \+ \(?[\d.−]+\)?$/);
    const [masked] = await sheets(trace, location, "mask");
    expect(masked.formula(0, 6)).toBe("M = 0 [PAD]");
    expect(masked.numbers.data[6]).toBe(-Infinity);
    const [softmax] = await sheets(trace, location, "softmax");
    expect(softmax.formula(0, 6)).toBe("0");
    expect(softmax.formula(0, 0)).toMatch(/^e\^[\d.−]+ \/ \(e\^[\d.−]+ \+ e\^[\d.−]+ \+ e\^[\d.−]+ \+ … \(6\)\)$/);
    const [pe] = await sheets(trace, location, "positions");
    expect(pe.formula(3, 5)).toBe("cos(3 / 10000^(4/8))");
  });
  it("mark the operands of a cell", async () => {
    const trace = await openFixture("small");
    const [dot] = await sheets(trace, { block: "cross", layer: 0, head: 1, sequence: 0 }, "dot");
    const [q, k] = dot.operands;
    expect(q.highlight(2, 5)).toEqual({ row: 2 });
    expect(k.highlight(2, 5)).toEqual({ column: 5 });
    expect([q.numbers.rows, k.numbers.columns]).toEqual([5, 7]);
  });
});

describe("a muted head", () => {
  it("has zeros and a note", async () => {
    const trace = await openFixture("small-llama");
    const [softmax] = await sheets(trace, { block: "decoder", layer: 0, head: 1, sequence: 0 }, "softmax");
    expect(Math.max(...Array.from(softmax.numbers.data))).toBe(0);
    expect(softmax.note?.en).toContain("muted");
  });
});

describe("missing data", () => {
  it.each(FIXTURES)("weights of %s: no check fails, attention is still checked", async (name) => {
    const trace = await openFixtureWithout(name, "parameters.");
    for (const location of allHeads(trace))
      for (const step of steps(trace, location))
        for (const { check, note } of await step.load()) {
          expect(check?.agrees ?? true).toBe(true);
          if (!check) expect(note?.ko).toMatch(/./);
          if (["dot", "scale", "mask", "softmax", "weighted_sum", "concat"].includes(step.id)) expect(check?.agrees).toBe(true);
          if (["sum", "project", "output", "feed_forward_up", "feed_forward_down"].includes(step.id)) expect(check).toBeNull();
        }
  });
  it("vectors: the weights are shown without recomputing the scores", async () => {
    const trace = await openFixtureWithout("small", "encoder.0.q");
    const location: HeadLocation = { block: "encoder", layer: 0, head: 0, sequence: 0 };
    const [softmax] = await sheets(trace, location, "softmax");
    expect(softmax.check?.agrees).toBe(true); // compared with the recorded scores
    expect(await sheets(trace, location, "dot")).toEqual([]);
  });
});
