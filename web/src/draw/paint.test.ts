import { describe, expect, it } from "vitest";
import { css, diverging, ink, redBlue } from "./colours";
import { rampStep, signedTone, tone } from "./paint";

const luminance = (ramp: Uint8Array, i: number) =>
  0.2126 * ramp[3 * i] + 0.7152 * ramp[3 * i + 1] + 0.0722 * ramp[3 * i + 2];

describe("ramps", () => {
  it("change monotonically from background to ink", () => {
    for (let i = 1; i < 256; i++) {
      expect(luminance(ink("light"), i)).toBeLessThan(luminance(ink("light"), i - 1) + 0.5);
      expect(luminance(ink("dark"), i)).toBeGreaterThan(luminance(ink("dark"), i - 1) - 0.5);
    }
    expect(css(ink("light"), 0)).toBe("rgb(252 251 249)");
  });

  it("have the background colour in the middle for signed numbers", () => {
    for (const shade of ["light", "dark"] as const)
      for (const ramp of [diverging(shade), redBlue(shade)])
        for (const channel of [0, 1, 2])
          for (const middle of [127, 128])
            expect(Math.abs(ramp[3 * middle + channel] - ink(shade)[channel])).toBeLessThan(4);
  });
});

describe("tone", () => {
  it("equals the encoding of thumbnails: 255 √w", () => {
    expect(rampStep(tone("sqrt")(0.25))).toBe(128);
    expect(rampStep(tone("linear")(0.25))).toBe(64);
    expect(tone("log")(1e-4)).toBeCloseTo(0);
    expect(tone("log")(1e-2)).toBeCloseTo(0.5);
    expect(tone("log")(0)).toBe(0);
    expect(tone("sqrt", 4)(1)).toBe(0.5);
    expect(tone("linear")(Number.NaN)).toBeNaN();
  });

  it("maps 0 to the middle for signed numbers", () => {
    expect([-3, -1.5, 0, 3, 9].map(signedTone(3))).toEqual([0, 0.25, 0.5, 1, 1]);
  });
});
