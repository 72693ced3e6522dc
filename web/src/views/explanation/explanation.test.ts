/** A deleted word belongs to one text. */

import { batch } from "@preact/signals";
import { afterEach, expect, it } from "vitest";
import { opened } from "../../state/open";
import { setting } from "../../state/settings";
import { sequence } from "../../state/state";
import { small } from "../../testing/small";
import "./explanation";

const deleted = setting<number>("explanation", "without", -1);

afterEach(() => {
  [opened.value, sequence.value, deleted.value] = [null, 0, -1];
});

it("another text has all its words", async () => {
  deleted.value = 1; // as the address says
  opened.value = await small();
  expect(deleted.value).toBe(1);
  opened.value = await small();
  expect(deleted.value).toBe(-1);
  deleted.value = 2;
  sequence.value = 1;
  expect(deleted.value).toBe(-1);
});

it("an address names a text and its word at once", async () => {
  opened.value = await small();
  batch(() => ([sequence.value, deleted.value] = [1, 2]));
  expect(deleted.value).toBe(2);
});
