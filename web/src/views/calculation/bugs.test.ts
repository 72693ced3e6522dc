import { describe, expect, it } from "vitest";
import { openFixture } from "../../testing/fixtures";
import type { HeadLocation } from "../../trace/format";
import { type Numbers, valueAt } from "./arithmetic";
import { availableBugs, bugEffect } from "./bugs";

const ENCODER: HeadLocation = { block: "encoder", layer: 0, head: 0, sequence: 1 };
const DECODER: HeadLocation = { block: "decoder", layer: 0, head: 0, sequence: 0 };
const sum = (x: Numbers, row: number) => Array.from(x.data).slice(row * x.columns, (row + 1) * x.columns).reduce((a, b) => a + b, 0);

describe("the bug lab", () => {
  it("offers the bugs that a trace can show", async () => {
    const trace = await openFixture("small");
    const ids = (location: HeadLocation) => availableBugs(trace, location).map(({ id }) => id);
    expect(ids(ENCODER)).toEqual(["scale", "zero", "axis", "true", "first"]);
    expect(ids(DECODER)).toEqual(["scale", "zero", "axis", "true", "residual"]);
  });

  it("does not offer a missing scale where the model has none", async () => {
    const trace = await openFixture("small-t5"); // scale 1
    expect(availableBugs(trace, { ...ENCODER, sequence: 0 }).map(({ id }) => id)).toEqual(["zero", "axis", "true"]);
  });

  it("quotes the scale of a model that does not divide by √d", async () => {
    const trace = await openFixture("small");
    const info = { ...trace.info, blocks: trace.info.blocks.map((block) => ({ ...block, scale: 0.0625 })) };
    const other = Object.assign(Object.create(trace), { info }) as typeof trace;
    expect(availableBugs(other, ENCODER)[0]).toMatchObject({ title: { en: "no scaling" }, correct: "q @ k.mT * 0.0625" });
  });

  it("starts from the weights of the trace", async () => {
    const trace = await openFixture("small");
    const weights = await trace.weights(ENCODER);
    for (const id of ["scale", "zero", "axis", "true"] as const) {
      const found = await bugEffect(trace, ENCODER, id);
      weights.data.forEach((weight, i) => expect(found?.before.data[i]).toBeCloseTo(weight, 6));
    }
  });

  it("no scale: the softmax of the unscaled products", async () => {
    const trace = await openFixture("small-t5"); // scale 1: no change, with or without bias
    const location = { ...ENCODER, sequence: 0 };
    const same = await bugEffect(trace, location, "scale");
    same?.before.data && Array.from(same.before.data).forEach((weight, i) => expect(same.after.data[i]).toBeCloseTo(weight, 12));
    const other = await bugEffect(await openFixture("small"), ENCODER, "scale");
    const trace2 = await openFixture("small");
    const [q, k] = await Promise.all([trace2.q(ENCODER), trace2.k(ENCODER)]);
    const product = (t: number, s: number) => Array.from({ length: 4 }, (_, i) => q.data[4 * t + i] * k.data[4 * s + i]).reduce((a, b) => a + b, 0);
    const [first, second] = [Math.exp(product(2, 0)), Math.exp(product(2, 1))];
    expect(other && valueAt(other.after, 2, 0) / valueAt(other.after, 2, 1)).toBeCloseTo(first / second, 3);
  });

  it("zeros: masked keys receive e^0", async () => {
    const trace = await openFixture("small");
    const found = await bugEffect(trace, ENCODER, "zero");
    const scores = await trace.scores(ENCODER);
    const row = Array.from({ length: 7 }, (_, s) => Math.exp(s < 6 ? scores.data[s] : 0));
    const whole = row.reduce((a, b) => a + b, 0);
    row.forEach((value, s) => expect(found && valueAt(found.after, 0, s)).toBeCloseTo(value / whole, 9));
    expect(found?.description.ko).toMatch(/가중치의 [\d.]+ %를/);
  });

  it("the wrong axis: columns sum to 1, rows do not", async () => {
    const found = await bugEffect(await openFixture("small"), ENCODER, "axis");
    if (!found) throw new Error("no damage");
    const column = Array.from({ length: 7 }, (_, r) => valueAt(found.after, r, 2)).reduce((a, b) => a + b, 0);
    expect(column).toBeCloseTo(1, 12);
    expect(Math.abs(sum(found.after, 0) - 1)).toBeGreaterThan(1e-3);
  });

  it("the inverted mask: only padding is unmasked", async () => {
    const found = await bugEffect(await openFixture("small"), ENCODER, "true");
    if (!found) throw new Error("no damage");
    expect(valueAt(found.after, 0, 6)).toBe(1);
    expect(found.description.en).toContain("100.0 %");
  });

  it("the first layer: its output differs from the last one", async () => {
    const trace = await openFixture("small");
    const found = await bugEffect(trace, ENCODER, "first");
    const [first, last] = await Promise.all([trace.hidden("source", 1, 1), trace.hidden("source", 2, 1)]);
    expect(found?.after).toEqual(first);
    expect(found?.before).toEqual(last);
  });

  it("the wrong residual: norm(x + cross) has normalized rows, too", async () => {
    const trace = await openFixture("small");
    const found = await bugEffect(trace, DECODER, "residual");
    const right = await trace.sequenceMatrix("target.steps.0.after_cross_attention", 0);
    expect(found?.before).toEqual(right);
    expect(found && Math.abs(valueAt(found.after, 1, 1) - valueAt(found.before, 1, 1))).toBeGreaterThan(1e-3);
  });
});
