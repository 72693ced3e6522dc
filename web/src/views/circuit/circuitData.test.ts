/** Which nodes of a circuit are drawn, where they are, and where the arrow keys lead. */

import { describe, expect, it } from "vitest";
import { CIRCUIT } from "../../testing/testTrace";
import { drawn, edgesOf, firstInView, layoutOf, nearNodes, nextNode, peaksOf } from "./circuitData";

const ALL = CIRCUIT.nodes.map((_, i) => i);

describe("the drawn part", () => {
  it("has the strongest edges, their nodes, all tokens and logits, and the chosen node", () => {
    const { edges, nodes } = drawn(CIRCUIT, 1, -1);
    expect(edges).toEqual(CIRCUIT.edges.slice(0, 1));
    expect(nodes).toEqual([0, 1, 2, 5]);
    expect(drawn(CIRCUIT, 1, 4).nodes).toEqual([0, 1, 2, 4, 5]);
    expect(drawn(CIRCUIT, 99, -1).nodes).toEqual(ALL);
  });
});

describe("the layout", () => {
  const { rows, places, width, height, column } = layoutOf(CIRCUIT, ALL, 600, 30);
  const [x, y] = [(i: number) => places.get(i)?.[0] ?? Number.NaN, (i: number) => places.get(i)?.[1] ?? Number.NaN];

  it("leads every edge upwards, and has a column for each token", () => {
    for (const { source, target } of CIRCUIT.edges) expect(y(source)).toBeGreaterThan(y(target));
    expect(x(1) - x(0)).toBeCloseTo(column);
    expect(rows.map(({ layer, kind }) => [layer, kind])).toEqual([[2, "logit"], [1, "feature"], [0, "feature"], [-1, "token"]]);
    for (const i of ALL) expect(x(i) > 0 && x(i) < width && y(i) > 0 && y(i) < height).toBe(true);
  });

  it("puts the nodes of a layer at a token side by side, and many of them in lines", () => {
    expect(y(2)).toBe(y(3));
    expect(Math.abs(x(2) - x(3))).toBeGreaterThanOrEqual(10); // dots of radius 5 do not overlap
    const many = { ...CIRCUIT, nodes: [...CIRCUIT.nodes, ...Array.from({ length: 30 }, (_, number) => ({ ...CIRCUIT.nodes[2], number: 100 + number }))], edges: [] };
    const found = [...layoutOf(many, many.nodes.map((_, i) => i), 200, 30).places.values()].map(([a, b]) => `${a},${b}`);
    expect(new Set(found).size).toBe(many.nodes.length);
  });

  it("fills a height with the distance of its rows, up to a limit", () => {
    const tall = layoutOf(CIRCUIT, ALL, 600, 30, height + 90);
    expect(tall.height).toBeCloseTo(height + 90);
    expect(tall.rows.map(({ y: at }, i) => at - rows[i].y)).toEqual([0, 30, 60, 90]);
    expect(layoutOf(CIRCUIT, ALL, 600, 30, height - 90).height).toBe(height);
    expect(layoutOf(CIRCUIT, ALL, 600, 30, 1e4).height).toBeLessThan(height + 300);
  });

  it("draws the encoder below the decoder", () => {
    const target = CIRCUIT.nodes.map((node) => ({ ...node, side: "target" as const }));
    const both = { ...CIRCUIT, nodes: [...CIRCUIT.nodes.filter(({ kind }) => kind !== "logit"), ...target], edges: [] };
    const sides = layoutOf(both, both.nodes.map((_, i) => i), 600, 30).rows.map(({ side }) => side);
    expect(sides).toEqual([...Array(4).fill("target"), ...Array(3).fill("source")]);
  });
});

it("arrow keys follow the strongest edge and move within the layer", () => {
  const layout = layoutOf(CIRCUIT, ALL, 600, 30);
  const next = (node: number, key: string) => nextNode(CIRCUIT, layout, CIRCUIT.edges, node, key);
  expect(next(1, "ArrowUp")).toBe(2);
  expect(next(5, "ArrowDown")).toBe(2);
  expect(next(5, "ArrowUp")).toBeNull();
  expect(next(0, "ArrowRight")).toBe(1);
  expect(next(0, "ArrowLeft")).toBeNull();
  expect(next(2, "x")).toBeNull();
  expect(nextNode(CIRCUIT, layout, [], 1, "ArrowUp")).toBeNull(); // only along drawn edges
});

it("the nodes near one are those of its drawn edges, none if it has none", () => {
  expect([...nearNodes(CIRCUIT.edges, 1)].sort()).toEqual([1, 2, 4]);
  expect(nearNodes(CIRCUIT.edges, 0).size).toBe(0);
  expect(nearNodes(CIRCUIT.edges.slice(0, 1), 1).size).toBe(0);
});

it("the chosen node is in view at first, else the logit of the largest influence", () => {
  expect(firstInView(CIRCUIT, 1)).toBe(1);
  expect(firstInView(CIRCUIT, -1)).toBe(5);
  const two = { ...CIRCUIT, nodes: [...CIRCUIT.nodes, { ...CIRCUIT.nodes[5], token: 1, influence: 2 }] };
  expect(firstInView(two, -1)).toBe(6);
});

it("edges are sorted by size, and a feature has its texts", () => {
  const { incoming, outgoing } = edgesOf(CIRCUIT, 5);
  expect(incoming.map(({ weight }) => weight)).toEqual([3, -1.5, 0.5]);
  expect(outgoing).toEqual([]);
  expect(peaksOf(CIRCUIT, CIRCUIT.nodes[2]).map(({ value }) => value)).toEqual([2.5]);
  expect(peaksOf(CIRCUIT, CIRCUIT.nodes[0])).toEqual([]);
});
