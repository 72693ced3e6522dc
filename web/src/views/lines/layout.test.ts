/** Hit testing of tokens and lines. */

import { describe, expect, it } from "vitest";
import { arcLayout, columnLayout, type Layout, type LayoutInput } from "./layout";

const input: LayoutInput = { width: 700, height: 300, queries: 6, keys: 8, label: 80, number: 50 };

/** The midpoint (t = ½) of a path with one curve. */
function halfway(path: string): [number, number] {
  const n = (path.match(/-?[\d.]+/g) ?? []).map(Number);
  if (path.includes("C"))
    return [0, 1].map((i) => (n[i] + 3 * n[2 + i] + 3 * n[4 + i] + n[6 + i]) / 8) as [number, number];
  const [x, y, , tall, , , , end] = n; // an arc from (x, y) to (end, y), counterclockwise on the screen
  return [(x + end) / 2, x > end ? y - tall : y + tall];
}

const layouts: [string, Layout][] = [
  ["columns", columnLayout(input)],
  ["arcs", arcLayout({ ...input, queries: 8 }, true)],
  ["arcs of a causal block", arcLayout({ ...input, queries: 8 }, false)],
];

describe.each(layouts)("%s", (kind, layout) => {
  it("find the token at the centre of its label", () => {
    for (let index = 0; index < 6; index++)
      for (const side of ["query", "key"] as const) {
        const { x, y, width, height } = layout.label(side, index);
        expect(layout.tokenAt(x + width / 2, y + height / 2)).toEqual({
          side: layout.kind === "arcs" ? "query" : side,
          index,
        });
      }
    expect(layout.tokenAt(layout.width / 2, -5)).toBeNull();
  });

  it("return distance 0 at the middle of a line, and more next to it", () => {
    for (let query = 0; query < 6; query++)
      for (let key = 0; key < (kind.includes("causal") ? query + 1 : 8); key++) {
        const [x, y] = halfway(layout.path(query, key));
        expect(layout.distance(query, key, x, y)).toBeLessThan(1);
        expect(layout.distance(query, key, x, y - 30)).toBeGreaterThan(3);
      }
  });

  it("keep lines, labels and numbers inside the drawing", () => {
    for (let query = 0; query < 6; query++)
      for (let key = 0; key < (kind.includes("causal") ? query + 1 : 8); key++) {
        const [x, y] = halfway(layout.path(query, key));
        expect(x).toBeGreaterThanOrEqual(0);
        expect(x).toBeLessThanOrEqual(layout.width);
        expect(y).toBeGreaterThanOrEqual(0);
        expect(y).toBeLessThanOrEqual(layout.height);
      }
    const { x, width } = layout.number("key", 7);
    expect(x + width).toBeLessThanOrEqual(layout.width);
    expect(layout.number("query", 0).x).toBeGreaterThanOrEqual(0);
  });
});

it("arcs to later tokens are below the sentence, arcs to earlier ones above it", () => {
  const layout = arcLayout({ ...input, queries: 8 }, true);
  const { y, height } = layout.label("query", 0);
  expect(halfway(layout.path(1, 5))[1]).toBeGreaterThan(y + height);
  expect(halfway(layout.path(5, 1))[1]).toBeLessThan(y);
  expect(halfway(layout.path(3, 3))[1]).toBeLessThan(y);
});
