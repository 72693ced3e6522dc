import { describe, expect, it } from "vitest";
import { formatDifference, formatDotProduct, formatFactor, formatSum } from "./formatSum";

describe("numbers", () => {
  it("are in parentheses after an operator if negative", () => {
    expect([0.314, -0.316, -0.001].map((value) => formatFactor(value))).toEqual(["0.31", "(−0.32)", "0.00"]);
    expect(formatSum(0.5, -0.25)).toBe("0.5000 + (−0.2500)");
    expect(formatDifference(4.2e-8)).toBe("4.2e−8");
    expect(formatDifference(0)).toBe("0");
  });
});

describe("a dot product", () => {
  it("shows the first terms and the number of terms", () => {
    const a = { rows: 1, columns: 4, data: [0.31, 1, -1, 2] };
    const b = { rows: 4, columns: 1, data: [0.22, 0.5, 0.25, 1] };
    expect(formatDotProduct(a, 0, b, 0)).toBe("0.31·0.22 + 1.00·0.50 + (−1.00)·0.25 + … (4)");
    expect(formatDotProduct({ ...a, columns: 2 }, 0, b, 0)).toBe("0.31·0.22 + 1.00·0.50");
  });
});
