/** The ramps equal those of the Python figures (src/jumok/viewer/colours.py), byte for byte. */

import { describe, expect, it } from "vitest";
import { diverging, ink, type Ramp, redBlue, type Shade } from "./colours";
import golden from "./colours.golden.json";

const RAMPS: Readonly<Record<string, (shade: Shade) => Ramp>> = { ink, diverging, red_blue: redBlue };

describe("ramps", () => {
  it.each(Object.entries(golden))("%s", (name, expected) => {
    const [ramp, shade] = name.split(" ");
    const bytes = [...RAMPS[ramp](shade as Shade)];
    expect(bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("")).toBe(expected);
  });
});
