import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { argmax, signed, textParts, withoutWord, wordContributions } from "./contributions";

const word = (text: string, from: number, to: number, ...p: number[]) => ({ text, span: [from, to] as const, without: p });

const source = (text: string, more: object = {}) => ({ text, spans: [], special: [], truncated: 0, ...more });

describe("explanation", () => {
  test("a supporting word is positive, an opposing one negative", () => {
    const explained = { probabilities: [0.2, 0.8], words: [word("a", 0, 1, 0.5, 0.5), word("b", 2, 3, 0.1, 0.9)], agreement: null };
    expect(wordContributions(explained, 1).map((c) => c.toFixed(2))).toEqual(["0.30", "-0.10"]);
    expect(wordContributions(explained, 0).map((c) => c.toFixed(2))).toEqual(["-0.30", "0.10"]);
    expect(argmax(explained.probabilities)).toBe(1);
  });

  test("spans count code points, not UTF-16 units", () => {
    expect(textParts(source("😀 영화 a"), [word("😀", 0, 1), word("영화", 2, 4), word("a", 5, 6)])).toEqual([
      { text: "😀", word: 0, read: true },
      { text: " ", word: -1, read: true },
      { text: "영화", word: 1, read: true },
      { text: " ", word: -1, read: true },
      { text: "a", word: 2, read: true },
    ]);
  });

  test("what the model did not read is marked, in each text of a pair", () => {
    const cut = { spans: [[0, 0], [0, 1], [4, 5], [5, 5]], special: [1, 0, 0, 1], truncated: 2 };
    expect(textParts(source("a b\tc d", cut), [word("a", 0, 1), word("c", 4, 5)])).toEqual([
      { text: "a", word: 0, read: true },
      { text: " b", word: -1, read: false },
      { text: "\t", word: -1, read: true },
      { text: "c", word: 1, read: true },
      { text: " d", word: -1, read: false },
    ]);
  });

  test("the parts always add up to the text", () => {
    const span = fc.tuple(fc.nat(12), fc.nat(12)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 12 }), fc.array(span, { maxLength: 5 }), (text, spans) => {
        const all = textParts(source(text), spans.map(([from, to]) => word("", from, to)));
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
