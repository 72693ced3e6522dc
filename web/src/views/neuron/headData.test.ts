/** Every weight of real traces is recomputed: all kinds of models, all blocks, layers, heads and queries. */

import { beforeEach, describe, expect, it } from "vitest";
import { block, focusedHead, head, key, layer, query } from "../../state/state";
import { FIXTURES, openFixture } from "../../testing/fixtures";
import type { Trace } from "../../trace/trace";
import { loadHead, pairs, select, sort } from "./headData";
import { svg, table } from "./picture";
import { TOLERANCE } from "../calculation/arithmetic";

beforeEach(() => {
  query.value = key.value = null;
  sort.value = "index";
  pairs.value = false;
});

function focusLastHead(trace: Trace, number = 0): void {
  const { name, layers, heads } = trace.info.blocks[number];
  [block.value, layer.value, head.value] = [name, layers - 1, heads - 1];
}

describe.each(FIXTURES)("%s", (name) => {
  it("is recomputed for every weight", async () => {
    const trace = await openFixture(name);
    let count = 0;
    for (const { name: block_, layers, heads } of trace.info.blocks)
      for (let number = 0; number < layers * heads; number++) {
        [block.value, layer.value, head.value] = [block_, Math.floor(number / heads), number % heads];
        const found = await loadHead(trace);
        if (!found) throw new Error("q and k are missing");
        expect(found.tolerance).toBe(TOLERANCE.F32);
        expect(found.location).toEqual(focusedHead.value);
        for (let index = 0; index < found.queries.length; index++) {
          const { queryRow } = select(found, { query: index, key: null, locked: null });
          for (let at = 0; at < found.keys.length; at++, count++)
            expect(Math.abs(queryRow.row.weights[at] - queryRow.recorded[at])).toBeLessThanOrEqual(found.tolerance);
        }
      }
    expect(count).toBeGreaterThan(40);
  });

  it("is exported as a picture and a table of the locked query", async () => {
    const trace = await openFixture(name);
    focusLastHead(trace, trace.info.blocks.length - 1);
    [query.value, key.value] = [2, 1];
    const found = await loadHead(trace);
    const rows = await table(trace);
    expect(rows.length).toBe(1 + (found?.keys.length ?? 0));
    const recorded = await trace.weights(focusedHead.value);
    expect(rows.slice(1).map((row) => row[rows[0].indexOf("weight")])).toEqual([
      ...recorded.data.slice(2 * recorded.columns, 3 * recorded.columns),
    ]);
    const picture = new DOMParser().parseFromString(await svg(trace), "image/svg+xml");
    expect(picture.documentElement.tagName).toBe("svg");
    expect(picture.querySelectorAll("text").length).toBeGreaterThan(5 * (found?.keys.length ?? 0));
  });
});

describe("the selection", () => {
  it("defaults to the first word and the key with the largest weight", async () => {
    const trace = await openFixture("small");
    focusLastHead(trace);
    const found = await loadHead(trace);
    if (!found) throw new Error("q and k are missing");
    expect(trace.queries(focusedHead.value).special[found.first]).toBe(0);
    const { queryRow, key: at } = select(found, { query: null, key: null, locked: null });
    expect(queryRow.query).toBe(found.first);
    expect(queryRow.recorded[at]).toBe(Math.max(...queryRow.recorded));
  });

  it("keeps the query row while only the key changes, and sorts dimensions by the locked key", async () => {
    const trace = await openFixture("small");
    focusLastHead(trace);
    const found = await loadHead(trace);
    if (!found) throw new Error("q and k are missing");
    const first = select(found, { query: 1, key: 0, locked: null });
    expect(select(found, { query: 1, key: 2, locked: null }).queryRow).toBe(first.queryRow);
    sort.value = "contribution";
    const { order } = select(found, { query: 1, key: 2, locked: 0 }).queryRow;
    expect(select(found, { query: 1, key: 1, locked: 0 }).queryRow.order).toEqual(order);
    const { q, k } = found.parts;
    const sizes = order.map((i) => Math.abs(q.data[q.columns + i] * k.data[i]));
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
  });

  it("is null if the trace has no q and k", async () => {
    const trace = await openFixture("small");
    focusLastHead(trace);
    const has = trace.has.bind(trace);
    Object.assign(trace, { has: (name: string) => !name.endsWith(".q") && has(name) });
    expect(await loadHead(trace)).toBeNull();
  });
});
