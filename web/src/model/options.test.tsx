/** The options of generated text, and those that the page sets. */

import { render } from "preact";
import { afterEach, expect, it, vi } from "vitest";
import { GeneratedAnswer } from "./generated";
import type { Decoding, Model } from "./model";
import { changed } from "./options";

const GREEDY: Decoding = {
  beam: 1,
  n_best: 1,
  length_penalty: 1,
  length_norm: "power",
  early_stopping: false,
  min_length: 0,
  max_length: 64,
  max_ratio: 0,
  max_extra: 10,
  sample: false,
  seed: null,
  temperature: 1,
  top_k: 0,
  top_p: 1,
  min_p: 0,
  typical_p: 1,
  repetition_penalty: 1,
  no_repeat_ngram: 0,
  stop: [],
};
const SAMPLES: Decoding = { ...GREEDY, sample: true, n_best: 3, typical_p: 0.9 };

afterEach(() => render(null, document.body));

it("numbers that are none are refused", () => {
  expect(() => changed(GREEDY, { beam: Number.NaN })).toThrow("decoding.beam must be an integer, got NaN");
  expect(() => changed(GREEDY, { temperature: Number.NaN })).toThrow("decoding.temperature must be a finite number, got NaN");
  expect(() => changed(GREEDY, { max_ratio: Number.POSITIVE_INFINITY })).toThrow("decoding.max_ratio must be a finite number, got Infinity");
});

it("an option without a value is that of the file", () => {
  expect(changed(SAMPLES, { seed: undefined, n_best: undefined, top_p: 0.5 } as object)).toEqual({ ...SAMPLES, top_p: 0.5 });
});

it("the page sets options that go together", async () => {
  const stream = vi.fn(async () => null);
  const model = { task: "sequence_to_sequence", stream } as unknown as Model;
  render(<GeneratedAnswer model={model} decoding={SAMPLES} text="가" />, document.body);
  const write = (field: number, value: string) => {
    const input = document.querySelectorAll("input")[field];
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  write(1, "0"); // the temperature
  const last = () => (stream.mock.lastCall as unknown as [string, unknown, Partial<Decoding>])[2];
  await vi.waitFor(() => expect(changed(SAMPLES, last())).toMatchObject({ sample: false, n_best: 1 }));
  write(0, "4"); // the beam
  await vi.waitFor(() => expect(changed(SAMPLES, last())).toMatchObject({ sample: false, beam: 4, n_best: 4 }));
  write(1, "0.5");
  await vi.waitFor(() => expect(changed(SAMPLES, last())).toMatchObject({ sample: true, beam: 1, n_best: 1, temperature: 0.5 }));
});
