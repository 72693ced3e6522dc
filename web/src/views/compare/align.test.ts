/** The alignment of the tokens of two texts. */

import { expect, it } from "vitest";
import fc from "fast-check";
import { alignTexts, alignTokens } from "./align";

it("tokens that both texts have correspond", () => {
  expect(alignTexts(["이", "영화", "정말", "좋다"], ["이", "영화", "좋다"])).toEqual([0, 1, 3]);
  expect(alignTexts(["가", "나"], ["다", "가"])).toEqual([-1, 0]);
});

it("an edited word corresponds to the former one, unless it has another number of tokens", () => {
  expect(alignTokens(["이", "영화", "좋다", "."], ["이", "영화", "싫다", "."])).toEqual([0, 1, 2, 3]);
  expect(alignTokens(["이", "영화", "좋다"], ["이", "영화", "재미", "없다"])).toEqual([0, 1, -1, -1]);
  expect(alignTokens(["가", "나"], ["다", "라"])).toEqual([0, 1]);
});

it("every alignment is increasing, and a text corresponds to itself", () => {
  const words = fc.array(fc.constantFrom("가", "나", "다"), { maxLength: 12 });
  fc.assert(
    fc.property(words, words, (a, b) => {
      const found = alignTokens(a, b).filter((i) => i >= 0);
      expect(found).toEqual([...new Set(found)].sort((x, y) => x - y));
      expect(found.every((i) => i < a.length)).toBe(true);
      expect(alignTokens(a, a)).toEqual(a.map((_, i) => i));
    }),
  );
});
