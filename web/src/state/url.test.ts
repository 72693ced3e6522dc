import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { checkAsked, refused, setting } from "./settings";
import * as state from "./state";
import { decodeState, encodeState } from "./url";

afterEach(() => decodeState(""));

const code = fc.integer({ min: 0, max: 0x10ffff }).filter((code) => code < 0xd800 || code > 0xdfff);
const text = fc.array(code).map((codes) => String.fromCodePoint(...codes));
const pin = fc.record({
  block: fc.constantFrom("encoder" as const, "decoder" as const, "cross" as const),
  layer: fc.nat(99),
  head: fc.nat(99),
});

describe("the address", () => {
  it("omits defaults: without a layer, the last one", () => {
    decodeState("");
    expect([encodeState(), state.layer.value]).toEqual(["", state.LAST]);
    state.scale.value = "sqrt";
    expect(encodeState()).toBe("");
  });

  it("uses short names", () => {
    state.view.value = "matrix";
    state.layer.value = 1;
    state.key.value = 0;
    state.scale.value = "log";
    expect(encodeState()).toBe("v=matrix&L=1&k=0&sc=log");
  });

  it("restores every state", () => {
    const mass = setting("test", "mass", 0.9);
    const name = setting<string>("test", "name", "first");
    const on = setting("test", "on", true);
    const all = fc.record({
      view: fc.constantFrom("lines", "matrix", "neuron"),
      sequence: fc.nat(20),
      block: fc.constantFrom("encoder" as const, "decoder" as const, "cross" as const),
      layer: fc.nat(100),
      head: fc.nat(100),
      query: fc.option(fc.nat(5000)),
      key: fc.option(fc.nat(5000)),
      unit: fc.constantFrom("piece" as const, "syllable" as const, "word" as const),
      specials: fc.constantFrom("plain" as const, "dim" as const, "renormalise" as const),
      measure: fc.constantFrom("weights" as const, "values" as const),
      scale: fc.constantFrom("linear" as const, "sqrt" as const, "log" as const),
      step: fc.nat(1000),
      languageSetting: fc.constantFrom("auto" as const, "ko" as const, "en" as const),
      theme: fc.constantFrom("light" as const, "dark" as const, "auto" as const),
      pinned: fc.array(pin, { maxLength: 4 }),
      mass: fc.double({ noNaN: true, noDefaultInfinity: true }),
      name: text,
      on: fc.boolean(),
    });
    const now = () => ({
      ...Object.fromEntries(
        Object.entries(state)
          .filter(([name]) => !/^(hover|focus|language$)/.test(name))
          .map(([name, signal]) => [name, (signal as { value: unknown }).value]),
      ),
      mass: mass.value,
      name: name.value,
      on: on.value,
    });
    fc.assert(
      fc.property(all, ({ pinned, mass: wantedMass, name: wantedName, on: wantedOn, ...rest }) => {
        for (const [key, value] of Object.entries(rest)) (state[key as "layer"] as { value: unknown }).value = value;
        state.pinned.value = pinned.map((location) => ({ ...location, sequence: rest.sequence }));
        mass.value = wantedMass + 0; // -0 is 0 in an address
        name.value = wantedName;
        on.value = wantedOn;
        const before = now();
        const text = encodeState();
        decodeState("");
        expect(encodeState()).toBe("");
        decodeState(text);
        expect(now()).toEqual(before);
        expect(encodeState()).toBe(text);
      }),
      { numRuns: 50 },
    );
  });

  it("refuses and names invalid values, and what a trace does not have", () => {
    decodeState("v=&L=-1&H=1e3&q=x&u=letter&pin=encoder.1~nothing.0.0~decoder.1.2&%E0%A4%A=1&lone&token=abc");
    expect(encodeState()).toBe("pin=decoder.1.2");
    expect(refused.value).toEqual(["L=-1", "H=1e3", "q=x", "u=letter", "pin=encoder.1~nothing.0.0~decoder.1.2"]);
    decodeState("zoom=2&d=beam~sample:true&mute=encoder.0&test.mass=much&x=%EA%B0%80&later.size=1");
    expect(refused.value).toEqual(["zoom=2", "d=beam~sample:true", "mute=encoder.0", "test.mass=much"]);
    decodeState("L=9&H=1&q=3");
    checkAsked({ L: 1, H: 1, q: null });
    checkAsked({ L: 0 }); // chosen later
    expect(refused.value).toEqual(["L=9", "q=3"]);
    decodeState("");
    expect(refused.value).toEqual([]);
    fc.assert(fc.property(text, (text) => decodeState(text)));
  });

  it("replaces lone surrogates", () => {
    setting<string>("test", "name", "first").value = "\ud800";
    expect(encodeState()).toBe("test.name=%EF%BF%BD");
  });

  it("keeps settings of views that are not loaded yet", () => {
    decodeState("later.size=7");
    expect(encodeState()).toBe("later.size=7");
    expect(setting("later", "size", 1).value).toBe(7);
    expect(encodeState()).toBe("later.size=7");
  });
});
