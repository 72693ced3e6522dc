/** Views that a link names and that do not exist. */

import { expect, it } from "vitest";
import { view } from "../state/state";
import { nearest, refuseUnknownView, unknownView } from "./refusedLink";

it("the nearest view by its id or by its title", () => {
  expect(["head", "matrx", "정열", "flwo"].map(nearest)).toEqual(["heads", "matrix", "alignment", "flow"]);
});

it("an unknown view is refused until another one is chosen", () => {
  view.value = "head";
  refuseUnknownView();
  expect(view.value).toBe("");
  expect(unknownView.value).toContain("v=heads");
  view.value = "matrix"; // the first view, when a trace is open
  refuseUnknownView();
  expect(unknownView.value).toContain("v=heads");
  view.value = "lines";
  refuseUnknownView();
  expect(unknownView.value).toBeNull();
});
