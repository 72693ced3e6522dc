/** The exported picture of the lines: its title names the heads and the processing. */

import { afterEach, expect, it } from "vitest";
import { languageSetting, measure, pinned, sequence } from "../../state/state";
import { testTrace } from "../../testing/testTrace";
import { svg } from "./picture";
import { heads } from "./series";

afterEach(() => {
  [heads.value, measure.value, pinned.value, languageSetting.value] = ["focus", "weights", [], "auto"];
});

it.each([
  ["focus", "encoder L0 H0"],
  ["pinned", "encoder L0 H1, L1 H0"],
  ["mean", "encoder L0: mean of all heads"],
  ["max", "encoder L0: maximum of all heads"],
  ["all", "encoder L0: all heads"],
] as const)("%s: %s", async (how, where) => {
  languageSetting.value = "en";
  heads.value = how;
  const pin = { sequence: sequence.value, block: "encoder" } as const;
  pinned.value = [
    { ...pin, layer: 0, head: 1 },
    { ...pin, layer: 1, head: 0 },
  ];
  const drawn = await svg(await testTrace());
  expect(drawn).toContain(`<title>small: ${where}</title>`);
  expect(drawn).toContain(`>${where} · `);
});

it("names the processing of the weights", async () => {
  [languageSetting.value, measure.value] = ["en", "values"];
  expect(await svg(await testTrace())).toContain("encoder L0 H0 · weight × ‖v W_O‖: rows do not sum to 1 · ");
});
