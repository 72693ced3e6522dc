/** The sheet of keys, and when the page hears keys again. */

import { render } from "preact";
import { afterEach, expect, it } from "vitest";
import { Help } from "./help";
import { helping } from "./keyboard";

afterEach(() => {
  render(null, document.body);
  helping.value = false;
});

it("is gone for the next key as soon as Escape is pressed", () => {
  helping.value = true;
  render(<Help />, document.body);
  document.querySelector("dialog")?.dispatchEvent(new Event("cancel"));
  expect(helping.value).toBe(false);
});
