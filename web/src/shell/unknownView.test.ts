/** Views that a link names and that do not exist. */

import { expect, it } from "vitest";
import { view } from "../state/state";
import { nearest, refuseUnknownView, unknownView } from "./unknownView";

it("the nearest view by its id or by its title", () => {
  expect(["heads", "head", "matrx", "정열", "flwo"].map(nearest)).toEqual(["map", "map", "matrix", "alignment", "flow"]);
});

it("an unknown view is refused until another one is chosen", () => {
  view.value = "heads";
  refuseUnknownView();
  expect(view.value).toBe("");
  expect(unknownView.value).toContain("v=map");
  view.value = "matrix"; // the first view, when a trace is open
  refuseUnknownView();
  expect(unknownView.value).toContain("v=map");
  view.value = "lines";
  refuseUnknownView();
  expect(unknownView.value).toBeNull();
});
