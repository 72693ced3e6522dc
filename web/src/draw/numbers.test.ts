import { describe, expect, it } from "vitest";
import { formatChange, formatNumber } from "./numbers";

describe("numbers", () => {
  it("are formatted as torch prints them, with a true minus sign", () => {
    expect([1.23456, -0.5, 0, -1e-9].map((value) => formatNumber(value))).toEqual(["1.2346", "−0.5000", "0.0000", "0.0000"]);
    expect([Infinity, -Infinity, Number.NaN].map((value) => formatNumber(value))).toEqual(["∞", "−∞", "NaN"]);
    expect(formatNumber(-3, 0)).toBe("−3");
  });
  it("have a sign as changes", () => {
    expect([0.12, -0.12, 0].map((value) => formatChange(value))).toEqual(["+0.1200", "−0.1200", "+0.0000"]);
    expect(formatChange(-1.5, 1)).toBe("−1.5");
  });
});
