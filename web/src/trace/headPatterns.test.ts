import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { FIXTURES, openFixture } from "../testing/fixtures";
import { PATTERNS, patternScores } from "./headPatterns";

type Golden = Record<string, Record<string, number[]>>; // by fixture and block: the scores of each head, in order

describe("head patterns", () => {
  it.each(FIXTURES)("are those of jumok heads in %s", async (name) => {
    const golden = JSON.parse(await readFile(`${import.meta.dirname}/headPatterns.golden.json`, "utf-8")) as Golden;
    const trace = await openFixture(name);
    for (const block of trace.info.blocks)
      for (const pattern of PATTERNS) {
        const { data } = await patternScores(trace, block, 0, pattern);
        const expected = golden[name][`${block.name}.${pattern}`];
        expect(data.length).toBe(expected.length);
        expected.forEach((score, i) => expect(data[i]).toBeCloseTo(score, 5));
      }
  });
});
