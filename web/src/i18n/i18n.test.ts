import { expect, it } from "vitest";
import { particle } from "./i18n";

it("the particle depends on the last syllable", () => {
  expect(["봄", "나무", "영화 ", "3", "2", "film", ""].map((word) => particle(word, "이", "가"))).toEqual([
    "이",
    "가",
    "가",
    "이",
    "가",
    "이(가)",
    "이(가)",
  ]);
});
