/** The exported matrix: all displayed heads, masked cells hatched. */

import { afterEach, expect, it } from "vitest";
import { currentFigure } from "../../export/figures";
import { pinned, view } from "../../state/state";
import { INFO, testTrace } from "../../testing/testTrace";
import { svg, table } from "./picture";

const PINS = [
  { sequence: 0, block: "encoder", layer: 1, head: 1 },
  { sequence: 0, block: "encoder", layer: 0, head: 1 },
] as const;

afterEach(() => {
  [pinned.value, view.value] = [[], "lines"];
});

it("the focused head, if none is pinned", async () => {
  const trace = await testTrace();
  expect(await svg(trace)).toContain("<title>small: encoder L0 H0</title>");
  expect(await table(trace)).toHaveLength(1 + 5);
});

it("all pinned heads, without the focused one", async () => {
  const trace = await testTrace();
  pinned.value = PINS;
  const drawn = await svg(trace);
  expect(drawn).toContain("<title>small: encoder L1 H1, encoder L0 H1</title>");
  expect(drawn).toContain(">1 · encoder L1 H1<");
  expect(drawn).toContain(">2 · encoder L0 H1<");
  const rows = await table(trace);
  expect([rows[0][0], rows[6][0]]).toEqual(["encoder L1 H1: query \\ key", "encoder L0 H1: query \\ key"]);
  const { data } = await trace.weights(PINS[1]);
  expect(rows[7].slice(1)).toEqual([...data.slice(0, 5)]);
});

it("masked cells are hatched: here the column of the padding", async () => {
  const clips = [...(await svg(await testTrace())).matchAll(/<clipPath[^>]*><path d="([^"]*)"/g)].map(([, d]) => d);
  expect(clips.map((d) => d.match(/M[\d.]+ [\d.]+h(\d+)v\1h-\1z/g)?.length)).toContain(5);
});

it("the number of each cell that is not masked, and the sums, as on the page", async () => {
  const drawn = await svg(await testTrace());
  expect(drawn.match(/>\.\d{3}<|>1\.000<|>·</g)).toHaveLength(20);
  expect(drawn).toContain(">Σ<");
});

it("the Python figure is that of the first pinned head", () => {
  [pinned.value, view.value] = [PINS, "matrix"];
  expect(currentFigure(INFO)?.options).toMatchObject({ block: "encoder", layer: 1, head: 1 });
});
