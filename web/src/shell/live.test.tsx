/** The form beside a model: what it offers, and what it asks. */

import { render } from "preact";
import { afterEach, describe, expect, it } from "vitest";
import { INFO, small } from "../testing/small";
import { model, opened } from "../state/open";
import { Live, request } from "./live";

const CARD = { title: "a", task: null, kind: "encoder_decoder", pairs: false, writes: true, traces: true, max_length: 9 };

afterEach(() => {
  render(null, document.body);
  model.value = opened.value = null;
});

describe("a target", () => {
  const fields = (writes: boolean) => {
    model.value = { ...CARD, writes };
    render(<Live />, document.body);
    return document.querySelectorAll("textarea").length;
  };

  it("is offered to a model that writes", () => expect(fields(true)).toBe(2));
  it("is not to a classifier with a decoder", () => expect(fields(false)).toBe(1));
});

it("the text of a language model is the one that was asked, not what it wrote", async () => {
  const target = INFO.sides.source ?? [];
  const decoding = { method: "greedy", settings: {}, prompt: -3, steps: [], output: "", text: "ROMEO:\n" } as const;
  const [block] = INFO.blocks;
  opened.value = await small({ sides: { target }, blocks: [{ ...block, queries: "target", keys: "target" }], decoding });
  expect(request.value.text).toBe("ROMEO:\n");
});
