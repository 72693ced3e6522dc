/** The help dialog, and when the page handles keys again. */

import { render } from "preact";
import { afterEach, expect, it } from "vitest";
import { Help } from "./help";
import { helpOpen } from "./keyboard";

afterEach(() => {
  render(null, document.body);
  helpOpen.value = false;
});

it("closes immediately on Escape, before the next key", () => {
  helpOpen.value = true;
  render(<Help />, document.body);
  document.querySelector("dialog")?.dispatchEvent(new Event("cancel"));
  expect(helpOpen.value).toBe(false);
});
