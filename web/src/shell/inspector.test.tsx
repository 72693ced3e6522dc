/** The inspector: the formula shows the effect of mask and muting on the weight. */

import { render } from "preact";
import { afterEach, expect, it, vi } from "vitest";
import { block, key, languageSetting, query } from "../state/state";
import { testTrace } from "../testing/testTrace";
import type { TraceInfo } from "../trace/format";
import { Inspector } from "./inspector";

afterEach(() => {
  render(null, document.body);
  [query.value, key.value, languageSetting.value] = [null, null, "auto"];
});

async function formula(queryIndex: number, keyIndex: number, info: Partial<TraceInfo> = {}, zero = false): Promise<string> {
  [block.value, query.value, key.value, languageSetting.value] = ["encoder", queryIndex, keyIndex, "en"];
  const weights = { "encoder.0.weights": { shape: [1, 2, 5, 5], data: new Float32Array(50) } };
  render(<Inspector trace={await testTrace(info, zero ? weights : {})} />, document.body);
  const found = await vi.waitUntil(() => document.querySelector(".formula"));
  return found.textContent ?? "";
}

it("the formula of an unmasked key has its score", async () => {
  expect(await formula(1, 2)).toMatch(/^softmaxk\( q·k × 0\.5 \) = softmaxk\( −?[\d.]+ \) = 0\.\d{6}$/);
});

it("the formula of a masked key has minus infinity and weight 0", async () => {
  expect(await formula(1, 4)).toBe("softmaxk( q·k × 0.5 + −∞ ) = softmaxk( −∞ ) = 0.000000");
});

it("the formula of a muted head is multiplied by 0", async () => {
  const text = await formula(1, 2, { muted: [["encoder", 0, 0]] }, true);
  expect(text).toMatch(/^softmaxk\( q·k × 0\.5 \) × 0 \(muted head\) = softmaxk\( −?[\d.]+ \) × 0 \(muted head\) = 0\.000000$/);
});
