/** The token strip: how tokens are marked. */

import { render } from "preact";
import { afterEach, expect, it } from "vitest";
import { opened } from "../state/open";
import { block } from "../state/state";
import { INFO, small } from "../testing/small";
import { Strip } from "./strip";

afterEach(() => {
  render(null, document.body);
  opened.value = null;
});

it("tokens of the second text are marked, padding never", async () => {
  const [row] = INFO.sides.source ?? [];
  const trace = await small({ sides: { source: [{ ...row, segments: [0, 0, 0, 1, 1] }] } });
  [opened.value, block.value] = [trace, "encoder"];
  render(<Strip trace={trace} />, document.body);
  const marked = [...document.querySelectorAll(".token")].map(({ classList }) => classList.contains("second"));
  expect(marked).toEqual([false, false, false, true, false]);
});
