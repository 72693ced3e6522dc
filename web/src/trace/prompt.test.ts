import { describe, expect, test } from "vitest";
import { promptText } from "./prompt";
import type { Decoding, Sequence } from "./format";

describe("the prompt text", () => {
  const row = { text: "ROMEO: \n겨울", spans: [[0, 0], [0, 6], [7, 8], [8, 10]] } as unknown as Sequence;
  const decoding = (prompt: number, text: string | null) => ({ prompt, text }) as unknown as Decoding;

  test("is the recorded prompt, including trailing blanks", () => {
    expect(promptText(row, decoding(3, "ROMEO: \n "))).toBe("ROMEO: \n ");
    expect(promptText(row, decoding(-9, "ROMEO: \n"))).toBe("ROMEO: \n");
  });

  test("is the text of the given tokens if no prompt was recorded", () => {
    expect(promptText(row, decoding(3, null))).toBe("ROMEO: \n");
    expect(promptText(row, decoding(0, null))).toBe("");
  });
});
