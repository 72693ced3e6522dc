/** Starts the page of an exported model: unpacks the kernel and the weights, then renders. */

import { effect } from "@preact/signals";
import { render } from "preact";
import { palette } from "../draw/palette";
import "../shell/page.css";
import "../shell/theme.css";
import { language, languageSetting, theme } from "../state/state";
import { gunzipBase64 } from "../trace/source";
import "./model.css";
import { Model } from "./model";
import { failure, loaded, ModelPage } from "./page";

async function open(): Promise<void> {
  const [file, wasm] = await Promise.all(
    ["packed-model", "packed-kernel"].map((id) => {
      const text = document.getElementById(id)?.textContent;
      if (!text) throw new Error("the page contains no model; export it again");
      return gunzipBase64(text);
    }),
  );
  const model = await Model.create(file, wasm);
  loaded.value = { model, check: model.check(), milliseconds: performance.now() };
}

const address = new URLSearchParams(location.hash.slice(1));
languageSetting.value = (["ko", "en"] as const).find((each) => each === address.get("lang")) ?? "auto";
theme.value = (["light", "dark"] as const).find((each) => each === address.get("theme")) ?? "auto";
effect(() => {
  document.documentElement.lang = language.value;
});
effect(() => void palette.value); // sets the theme
const root = document.getElementById("app");
if (root) render(<ModelPage />, root);
open().catch((error: unknown) => {
  failure.value = String(error instanceof Error ? error.message : error);
});
