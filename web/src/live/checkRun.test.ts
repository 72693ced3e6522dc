/** What a saved page refuses of an address. */

import { expect, it } from "vitest";
import type { Decoding } from "../model/search";
import type { TraceInfo } from "../trace/format";
import { checkRun } from "./checkRun";

const SETTINGS = { beam: 1, n_best: 1, sample: false, temperature: 1, top_k: 0, min_length: 0, max_length: 64, seed: null, early_stopping: false } as unknown as Decoding;
const INFO = { blocks: [{ name: "encoder", layers: 2, heads: 3 }] } as unknown as TraceInfo;
const RUN = { text: "가", target: null, decode: {}, mute: [], checkpoint: null };

it("accepts what the model has", () => {
  checkRun({ ...RUN, mute: ["encoder.1.2"], decode: { beam: 4, n_best: 2 } }, INFO, SETTINGS);
  checkRun({ ...RUN, decode: { sample: true, temperature: 0.5, seed: 7 } }, INFO, SETTINGS);
  checkRun({ ...RUN, decode: null }, INFO, null);
});

it.each([
  [{ checkpoint: "step-7" }, "step-7"],
  [{ mute: ["encoder.2.0"] }, "encoder.2.0"],
  [{ mute: ["cross.0.0"] }, "cross.0.0"],
  [{ decode: { beams: 4 } }, "beams"],
  [{ decode: { constructor: 4 } }, "constructor"],
  [{ decode: { beam: 0 } }, "beam=0"],
  [{ decode: { beam: 1.5 } }, "beam=1.5"],
  [{ decode: { beam: true } }, "beam=true"],
  [{ decode: { sample: 1 } }, "sample=1"],
  [{ decode: { sample: true, temperature: 0 } }, "temperature=0"],
  [{ decode: { sample: true, beam: 4 } }, "1"],
  [{ decode: { beam: 2, n_best: 3 } }, "n_best"],
  [{ decode: { min_length: 65 } }, "max_length"],
])("refuses %o", (change, part) => {
  expect(() => checkRun({ ...RUN, ...change }, INFO, SETTINGS)).toThrow(part);
});

it("a classifier generates nothing", () => {
  expect(() => checkRun({ ...RUN, decode: { beam: 2 } }, INFO, null)).toThrow("d=");
});
