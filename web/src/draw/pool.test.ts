import { expect, it } from "vitest";
import { maxPool } from "./pool";

it("keeps the maximum of each tile", () => {
  const nine = { rows: 3, columns: 3, data: Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9]) };
  expect(maxPool(nine, 2, 2)).toEqual({ rows: 2, columns: 2, data: Uint8Array.of(5, 6, 8, 9) });
  expect(maxPool(nine, 9.5, 1)).toEqual({ rows: 3, columns: 1, data: Uint8Array.of(3, 6, 9) });
  const floats = { rows: 1, columns: 4, data: Float32Array.of(0.5, 0.25, 0, 0.125) };
  expect(maxPool(floats, 1, 2).data).toEqual(Float32Array.of(0.5, 0.125));
});
