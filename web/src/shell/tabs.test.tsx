/** A view whose script fails to load. */

import { render } from "preact";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { currentTrace } from "../state/session";
import { view } from "../state/state";
import { testTrace } from "../testing/testTrace";
import { bundleError, viewRenderer } from "../views/bundles";
import { Stage, Tabs } from "./tabs";

beforeEach(() => {
  const boot = document.createElement("script");
  [boot.id, boot.type, boot.textContent] = ["boot", "application/json", '{ "mode": "file" }'];
  document.head.append(boot);
});

afterEach(() => {
  render(null, document.body);
  document.getElementById("boot")?.remove();
  [currentTrace.value, view.value] = [null, "lines"];
});

it("a script is requested once, and again when its tab is clicked", async () => {
  const trace = await testTrace();
  [currentTrace.value, view.value] = [trace, "neuron"];
  render(<><Tabs trace={trace} /><Stage trace={trace} /></>, document.body);
  await vi.waitFor(() => expect(document.querySelector(".stage [role=alert]")?.textContent).not.toBeFalsy());
  const error = bundleError("neuron");
  viewRenderer("neuron", "neuron");
  expect(bundleError("neuron")).toBe(error);
  document.getElementById("tab-neuron")?.click();
  expect(bundleError("neuron")).toBe("");
  await vi.waitFor(() => expect(bundleError("neuron")).not.toBe(""));
});
