/** The table of the matrix view: its numbers and its errors. */

import { render } from "preact";
import { afterEach, expect, it, vi } from "vitest";
import { entropyOf } from "../../shell/focusDetails";
import { measure } from "../../state/state";
import { openFixtureWithout } from "../../testing/fixtures";
import { testTrace } from "../../testing/testTrace";
import { AccessibleTable } from "./accessibleTable";

const PLACE = { sequence: 0, block: "encoder", layer: 0, head: 1 } as const;

afterEach(() => {
  render(null, document.body);
  measure.value = "weights";
});

it("the entropy is that of the weights, whatever is displayed", async () => {
  const trace = await testTrace();
  const row = (await trace.weights(PLACE)).data.subarray(0, 5);
  measure.value = "values";
  render(<AccessibleTable trace={trace} location={PLACE} />, document.body);
  await vi.waitFor(() => expect(document.querySelector("tbody tr")?.lastElementChild?.textContent).toBe(entropyOf(row).toFixed(2)));
});

it("an error is shown", async () => {
  render(<AccessibleTable trace={await openFixtureWithout("small-t5", "encoder.")} location={PLACE} />, document.body);
  await vi.waitFor(() => expect(document.querySelector("[role=alert]")?.textContent).toContain("the trace has no tensor encoder."));
});
