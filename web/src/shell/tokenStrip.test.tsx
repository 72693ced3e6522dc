/** The token strip: classes of tokens. */

import { render } from "preact";
import { afterEach, expect, it } from "vitest";
import { currentTrace } from "../state/session";
import { block } from "../state/state";
import { INFO, testTrace } from "../testing/testTrace";
import { TokenStrip } from "./tokenStrip";

afterEach(() => {
  render(null, document.body);
  currentTrace.value = null;
});

it("tokens of the second segment are marked, padding is not", async () => {
  const [row] = INFO.sides.source ?? [];
  const trace = await testTrace({ sides: { source: [{ ...row, segments: [0, 0, 0, 1, 1] }] } });
  [currentTrace.value, block.value] = [trace, "encoder"];
  render(<TokenStrip trace={trace} />, document.body);
  const marked = [...document.querySelectorAll(".token")].map(({ classList }) => classList.contains("second"));
  expect(marked).toEqual([false, false, false, true, false]);
});
