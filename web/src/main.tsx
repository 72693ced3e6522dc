/** The page starts: state from the address, keys, the trace, and everything drawn. */

import { effect } from "@preact/signals";
import { render } from "preact";
import { palette } from "./draw/palette";
import { App } from "./shell/app";
import { listenToKeys } from "./shell/keyboard";
import "./shared";
import "./shell/theme.css";
import { clampSelection, currentTrace, loadInitialTrace } from "./state/session";
import { language } from "./state/state";
import { syncWithAddress } from "./state/url";

syncWithAddress();
listenToKeys();
effect(() => {
  document.documentElement.lang = language.value;
});
effect(() => {
  const trace = currentTrace.value;
  document.title = trace?.info.title ? `${trace.info.title} · jumok` : "jumok";
  if (trace) clampSelection(trace.info); // whatever the address says
});
effect(() => void palette.value); // light or dark is set on the page even where nothing is drawn
const root = document.getElementById("app");
if (root) queueMicrotask(() => render(<App />, root)); // parts that come with the page are there by then
void loadInitialTrace();
