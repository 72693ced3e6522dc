import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cellAt, cornerOf, frameOf, rangeOf, scrolledTo, zoomAt } from "./frame";

const SPACE = { width: 700, height: 500, rowLabel: 60, columnLabel: 60 };
const FIT = { zoom: 1, x: 0, y: 0 };

describe("the frame of a matrix", () => {
  it("fits the matrix, in whole pixels unless cells are tiny", () => {
    const small = frameOf(23, 23, SPACE, FIT);
    expect(small.cell).toBe(Math.floor((500 - 70 - 34) / 23));
    expect(small.width).toBe(23 * small.cell);
    expect(frameOf(3, 3, SPACE, FIT).cell).toBe(110);
    const large = frameOf(512, 512, SPACE, FIT);
    expect(large.height).toBeCloseTo(500 - large.top - 34);
  });

  it("maps points to cells and back at any scroll position", () => {
    const viewport = fc.record({ zoom: fc.double({ min: 1, max: 30, noNaN: true }), x: fc.nat(500), y: fc.nat(500) });
    fc.assert(
      fc.property(viewport, fc.nat(63), fc.nat(39), (viewport, row, column) => {
        const frame = frameOf(64, 40, SPACE, viewport);
        const moved = frameOf(64, 40, SPACE, { zoom: viewport.zoom, ...scrolledTo(frame, row, column) });
        const [x, y] = cornerOf(moved, row, column);
        expect(cellAt(moved, x + moved.cell / 2, y + moved.cell / 2)).toEqual({ row, column });
        const [first, last] = rangeOf(moved.y, moved.height, moved.cell, 64);
        expect(first <= row && row < last).toBe(true);
      }),
    );
  });

  it("keeps the point under the pointer fixed while zooming", () => {
    const frame = frameOf(64, 64, SPACE, FIT);
    const [px, py] = [frame.left + 100, frame.top + 40];
    const before = cellAt(frame, px, py);
    const near = frameOf(64, 64, SPACE, zoomAt(frame, 1, 4, px, py));
    expect(near.cell).toBe(4 * frame.cell);
    expect(cellAt(near, px, py)).toEqual(before);
    expect(zoomAt(near, 4, 1e-3, px, py)).toMatchObject({ zoom: 1 });
    expect(frameOf(64, 64, SPACE, zoomAt(frame, 1, 1e9, px, py)).cell).toBeCloseTo(160);
  });

  it("returns null outside the plot", () => {
    const frame = frameOf(8, 8, SPACE, FIT);
    expect(cellAt(frame, frame.left - 1, frame.top + 1)).toBeNull();
    expect(cellAt(frame, frame.left + frame.width, frame.top + 1)).toBeNull();
  });
});
