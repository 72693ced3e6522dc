/** live.js: a saved page that runs the model itself, from the packed model and the kernel in the page. */

import { openParts } from "../model/model";
import { inPage } from "../state/session";
import { gunzipBase64 } from "../trace/source";
import { LiveRunner } from "../live/run";

inPage.open = async (first) => {
  const [file, wasm] = await Promise.all(
    ["packed-model", "packed-kernel"].map((id) => {
      const text = document.getElementById(id)?.textContent;
      if (!text) throw new Error("the page contains no model; export it again");
      return gunzipBase64(text);
    }),
  );
  const runner = new LiveRunner(await openParts(file, wasm), file, first.info);
  return { run: (run) => runner.run(run), muteEach: (info) => runner.muteEach(info) };
};
