import { describe, expect, it } from "vitest";
import { headNamed, nextWith } from "./find";

describe("finding", () => {
  it("knows heads by name", () => {
    expect(headNamed("L3 H5", "encoder")).toEqual({ block: "encoder", layer: 3, head: 5 });
    expect(headNamed("l3h5", "decoder")).toEqual({ block: "decoder", layer: 3, head: 5 });
    expect(headNamed("3 5", "encoder")).toEqual({ block: "encoder", layer: 3, head: 5 });
    expect(headNamed("cross L0 H2", "encoder")).toEqual({ block: "cross", layer: 0, head: 2 });
    expect(headNamed("decoder.1.2", "encoder")).toEqual({ block: "decoder", layer: 1, head: 2 });
    expect(headNamed("영화", "encoder")).toBeNull();
    expect(headNamed("35", "encoder")).toBeNull();
  });

  it("goes from one token to the next and round", () => {
    const texts = ["·영화", "정말", "·영화관"];
    expect(nextWith("영화", texts, -1)).toBe(0);
    expect(nextWith("영화", texts, 0)).toBe(2);
    expect(nextWith("영화", texts, 2)).toBe(0);
    expect(nextWith("x", texts, 0)).toBe(-1);
    expect(nextWith(" ", texts, 0)).toBe(-1);
  });
});
