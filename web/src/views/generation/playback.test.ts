import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Beam, Step, TraceInfo } from "../../trace/format";
import { layoutTree, windowOf } from "./beams";
import { decodingOf, rowOfStep } from "../../trace/decoding";
import { cacheSteps, candidateRows } from "./playback";

const candidate = (id: number, probability: number) => ({ id, piece: `p${id}`, probability });
const beam = (id: number, parent: number, more: Partial<Beam> = {}): Beam => ({
  id, parent, token: id, piece: `p${id}`, score: -id, ended: false, best: false, ...more,
});
const step = (cache: number, beams: Beam[] = [], more: Partial<Step> = {}): Step => ({
  cache, before: [], after: [], chosen: { id: 1, piece: "p1", log_probability: -1 }, beams, ...more,
});

describe("candidates", () => {
  test("before and after are joined by token; probability 0 is banned, a missing one is unknown", () => {
    const before = [candidate(7, 0.5), candidate(1, 0.3), candidate(9, 0.1)];
    const after = [candidate(1, 0.6), candidate(3, 0.2), candidate(7, 0)];
    expect(candidateRows(step(0, [], { before, after }))).toEqual([
      { id: 7, piece: "p7", before: 0.5, after: 0, forbidden: true, chosen: false },
      { id: 1, piece: "p1", before: 0.3, after: 0.6, forbidden: false, chosen: true },
      { id: 9, piece: "p9", before: 0.1, after: null, forbidden: false, chosen: false },
      { id: 3, piece: "p3", before: null, after: 0.2, forbidden: false, chosen: false },
    ]);
  });

  test("an unlikely chosen token is listed last", () => {
    const listed = candidateRows(step(0, [], { before: [candidate(7, 0.5)] }));
    expect(listed.map(({ id, chosen }) => [id, chosen])).toEqual([[7, false], [1, true]]);
  });
});

describe("after the end of the answer", () => {
  test("no token is chosen", () => {
    expect(candidateRows({ ...step(0), before: [candidate(1, 0.5)], chosen: null }).map(({ chosen }) => chosen)).toEqual([false]);
  });
});

describe("the cache", () => {
  test("a position belongs to the step that wrote it", () => {
    const steps = [step(0), step(3), step(4)]; // a prompt of three tokens
    expect(cacheSteps(steps, 0)).toEqual([0, 0, 0, -1, -1]);
    expect(cacheSteps(steps, 2)).toEqual([0, 0, 0, 1, 2]);
    expect(cacheSteps([], 0)).toEqual([]);
  });

  test("the row of a step is that of the last token before it", () => {
    expect([rowOfStep({ prompt: 1 }, 0), rowOfStep({ prompt: 3 }, 2)]).toEqual([0, 4]);
  });

  test("rows outside the window are negative", () => {
    expect([rowOfStep({ prompt: 0 }, 0), rowOfStep({ prompt: -5 }, 3), rowOfStep({ prompt: -5 }, 8)]).toEqual([-1, -3, 2]);
  });
});

describe("a trace without decoding", () => {
  test("gets the steps of the given tokens from `next`", () => {
    const info = {
      decoding: null,
      next: [[candidate(5, 0.25)], [candidate(8, 0.5)], []],
      sides: { target: [{ ids: [1, 5, 6], pieces: ["a", "b", "c"], real: [1, 1, 1] }] },
    } as unknown as TraceInfo;
    const decoding = decodingOf(info, 0);
    expect(decoding?.method).toBe("given");
    expect(decoding?.steps.map(({ chosen }) => chosen?.piece)).toEqual(["b", "c"]);
    expect(decoding?.steps[0].chosen?.log_probability).toBeCloseTo(Math.log(0.25));
    expect(decoding?.steps[1].chosen?.log_probability).toBeNaN();
    expect(decodingOf(info, 1)).toBeNull();
  });
});

describe("the beam tree", () => {
  const steps = [
    step(0, [beam(1, 0, { best: true }), beam(2, 0)]),
    step(1, [beam(3, 1, { best: true }), beam(4, 1, { ended: true })]),
    step(2, [beam(5, 3, { best: true, ended: true }), beam(6, 3)]),
  ];

  test("children are one step to the right of their parents, without overlap", () => {
    const { nodes, links, rows } = layoutTree(steps, 0);
    expect(nodes.map(({ beam, x }) => [beam.id, x]).sort()).toEqual([[1, 0], [2, 0], [3, 1], [4, 1], [5, 2], [6, 2]]);
    expect(links.map(({ from, to }) => [from?.beam.id ?? 0, to.beam.id])).toEqual(
      expect.arrayContaining([[0, 1], [0, 2], [1, 3], [1, 4], [3, 5], [3, 6]]),
    );
    expect(new Set(nodes.map(({ x, y }) => `${x}:${y}`)).size).toBe(6);
    expect(rows).toBeGreaterThanOrEqual(2);
    expect(Math.min(...nodes.map(({ y }) => y))).toBeGreaterThanOrEqual(0);
  });

  test("a long tree is drawn around the current step, cut links are kept", () => {
    const long = Array.from({ length: 100 }, (_, i) => step(i, [beam(2 * i + 1, 2 * i - 1), beam(2 * i + 2, 2 * i - 1)]));
    const { nodes, links, first, last } = layoutTree(long, 50, 20);
    expect(nodes).toHaveLength(20);
    expect([first, last]).toEqual([45, 54]);
    expect(links.filter(({ from }) => !from).map(({ to }) => to.step)).toEqual([45, 45]);
    expect(windowOf(long, 0, 20)).toEqual([0, 9]);
  });

  test("no tree has overlapping nodes", () => {
    const widths = fc.array(fc.array(fc.nat(), { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(widths, (parents) => {
        let [id, before] = [0, [0]];
        const steps = parents.map((each, i) => {
          const beams = each.map((parent) => beam(++id, before[parent % before.length]));
          before = beams.map((made) => made.id);
          return step(i, beams);
        });
        const { nodes, rows } = layoutTree(steps, 0);
        for (const node of nodes)
          for (const other of nodes)
            if (node.beam.id < other.beam.id && node.x === other.x) expect(Math.abs(node.y - other.y)).toBeGreaterThanOrEqual(1);
        expect(Math.max(...nodes.map(({ y }) => y)) + 1).toBeLessThanOrEqual(rows);
      }),
    );
  });

  test("beams that are their own parents are ignored", () => {
    expect(layoutTree([step(0, [beam(1, 1), beam(1, 1)])], 0).nodes).toHaveLength(1);
    expect(layoutTree([], 0).nodes).toHaveLength(0);
  });
});
