/** The search box: head names, tokens, keys. */

import { render } from "preact";
import { afterEach, describe, expect, it } from "vitest";
import { currentTrace } from "../state/session";
import { block, key, query } from "../state/state";
import { INFO, testTrace } from "../testing/testTrace";
import { Find, findNext, findOpen, parseHead } from "./find";
import { listenToKeys } from "./keyboard";

describe("search", () => {
  it("parses head names", () => {
    expect(parseHead("L3 H5", "encoder")).toEqual({ block: "encoder", layer: 3, head: 5 });
    expect(parseHead("l3h5", "decoder")).toEqual({ block: "decoder", layer: 3, head: 5 });
    expect(parseHead("3 5", "encoder")).toEqual({ block: "encoder", layer: 3, head: 5 });
    expect(parseHead("cross L0 H2", "encoder")).toEqual({ block: "cross", layer: 0, head: 2 });
    expect(parseHead("decoder.1.2", "encoder")).toEqual({ block: "decoder", layer: 1, head: 2 });
    expect(parseHead("영화", "encoder")).toBeNull();
    expect(parseHead("35", "encoder")).toBeNull();
  });

  it("cycles through matching tokens", () => {
    const texts = ["␣영화", "정말", "␣영화관"];
    expect(findNext("영화", texts, -1)).toBe(0);
    expect(findNext("영화", texts, 0)).toBe(2);
    expect(findNext("영화", texts, 2)).toBe(0);
    expect(findNext("x", texts, 0)).toBe(-1);
    expect(findNext(" ", texts, 0)).toBe(-1);
  });
});

describe("the search box", () => {
  const box = () => {
    findOpen.value = true;
    render(<Find />, document.body);
    return document.querySelector("input") as HTMLInputElement;
  };

  afterEach(() => {
    render(null, document.body);
    [findOpen.value, currentTrace.value, query.value, key.value] = [false, null, null, null];
  });

  it("keeps a key that is found again", async () => {
    const [source] = INFO.sides.source ?? [];
    const target = { ...source, pieces: ["[BOS]", "a", "b", "c", "[PAD]"] };
    const [first] = INFO.blocks;
    currentTrace.value = await testTrace({ sides: { source: [source], target: [target] }, blocks: [{ ...first, name: "cross", queries: "target" }] });
    block.value = "cross";
    const input = box();
    input.value = "봄";
    for (let times = 0; times < 2; times++) {
      input.form?.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
      expect(key.value).toBe(3);
    }
  });

  it("is the only thing that Escape closes", () => {
    listenToKeys();
    query.value = 2;
    box().dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    expect(findOpen.value).toBe(false);
    expect(query.value).toBe(2);
  });
});
