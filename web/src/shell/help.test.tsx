/** The sheet of keys, and when the page hears keys again. */

import { render } from "preact";
import { afterEach, expect, it } from "vitest";
import { Help } from "./help";
import { helpOpen } from "./keyboard";

afterEach(() => {
  render(null, document.body);
  helpOpen.value = false;
});

it("is gone for the next key as soon as Escape is pressed", () => {
  helpOpen.value = true;
  render(<Help />, document.body);
  document.querySelector("dialog")?.dispatchEvent(new Event("cancel"));
  expect(helpOpen.value).toBe(false);
});
