/** Starts the page: state from the address, keyboard, trace, rendering. */

import { effect } from "@preact/signals";
import { render } from "preact";
import { palette } from "./draw/palette";
import { App } from "./shell/app";
import { listenToKeys } from "./shell/keyboard";
import { refuseUnknownView } from "./shell/refusedLink";
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
  if (trace) clampSelection(trace.info); // the address may select a head that the trace does not have
});
effect(refuseUnknownView);
effect(() => void palette.value); // sets the theme even before anything is drawn
const root = document.getElementById("app");
if (root) queueMicrotask(() => render(<App />, root)); // bundles embedded in the page are registered by then
void loadInitialTrace();
