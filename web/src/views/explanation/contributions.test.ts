import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { argmax, signed, textParts, withoutWord, wordContributions } from "./contributions";

const word = (text: string, from: number, to: number, ...p: number[]) => ({ text, span: [from, to] as const, without: p });

describe("explanation", () => {
  test("a supporting word is positive, an opposing one negative", () => {
    const explained = { probabilities: [0.2, 0.8], words: [word("a", 0, 1, 0.5, 0.5), word("b", 2, 3, 0.1, 0.9)], agreement: null };
    expect(wordContributions(explained, 1).map((c) => c.toFixed(2))).toEqual(["0.30", "-0.10"]);
    expect(wordContributions(explained, 0).map((c) => c.toFixed(2))).toEqual(["-0.30", "0.10"]);
    expect(argmax(explained.probabilities)).toBe(1);
  });

  test("spans count code points, not UTF-16 units", () => {
    expect(textParts("😀 영화 a", [word("😀", 0, 1), word("영화", 2, 4), word("a", 5, 6)])).toEqual([
      { text: "😀", word: 0 },
      { text: " ", word: -1 },
      { text: "영화", word: 1 },
      { text: " ", word: -1 },
      { text: "a", word: 2 },
    ]);
  });

  test("the parts always add up to the text", () => {
    const span = fc.tuple(fc.nat(12), fc.nat(12)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 12 }), fc.array(span, { maxLength: 5 }), (text, spans) => {
        const all = textParts(text, spans.map(([from, to]) => word("", from, to)));
        expect(all.map((part) => part.text).join("")).toBe(text);
      }),
    );
  });

  test("deleting a word removes the blanks after it, at the end those before it, as in Python", () => {
    expect(withoutWord("이 영화 정말", [2, 4])).toBe("이 정말");
    expect(withoutWord("이 영화 정말", [5, 7])).toBe("이 영화");
    expect(withoutWord("a b", [0, 1])).toBe("b");
    expect(withoutWord("춥다\t덥다", [0, 2])).toBe("\t덥다");
    expect(withoutWord("a b\tc", [2, 3])).toBe("a\tc");
    expect(withoutWord("😀  b", [0, 1])).toBe("b");
    expect(withoutWord("a", [0, 1])).toBe("");
  });

  test("numbers have signs except zero", () => {
    expect([signed(0.1234), signed(-0.5), signed(-0.0001), signed(0)]).toEqual(["+0.123", "\u22120.500", "0.000", "0.000"]);
  });
});
