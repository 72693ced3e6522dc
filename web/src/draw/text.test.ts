import { describe, expect, it } from "vitest";
import type { Sequence } from "../trace/format";
import { displayText, NO_BYTES, pieceReader, readablePieces, syllableGroups } from "./text";

function sequence(text: string, pieces: string[], spans: [number, number][], special: number[] = []): Sequence {
  const none = pieces.map(() => 0);
  return {
    text,
    pieces,
    ids: none,
    spans,
    special: pieces.map((_, i) => special[i] ?? 0),
    real: pieces.map(() => 1),
    words: none,
    segments: null,
    truncated: 0,
  };
}

/** The byte pieces of GPT-2 for 안녕하세요: some syllables are split into two or three pieces. */
const GREETING = sequence(
  "안녕하세요",
  ["ìķ", "Ī", "ëħ", "ķ", "íķĺ", "ìĦ", "¸", "ìļĶ"],
  [
    [0, 1],
    [0, 1],
    [1, 2],
    [1, 2],
    [2, 3],
    [3, 4],
    [3, 4],
    [4, 5],
  ],
);

describe("displayText", () => {
  it("marks spaces in SentencePiece and GPT-2 pieces, and nothing else", () => {
    expect(displayText("▁영화")).toBe("␣영화");
    expect(displayText("Ġfilm")).toBe("␣film");
    expect(displayText("▁")).toBe("␣");
    expect(displayText("·")).toBe("·");
  });

  it("names invisible characters", () => {
    expect(displayText("a\u202eb")).toBe("a[U+202E]b");
    expect(displayText("\u0000")).toBe("[U+0000]");
    expect(displayText("\n")).toBe("[\\n]");
    expect(displayText("\ud800x")).toBe("[U+D800]x");
    expect(displayText("\u2028")).toBe("[U+2028]");
    expect(displayText("")).toBe("∅");
  });

  it("keeps markup unchanged and truncates long pieces", () => {
    expect(displayText("</script><b>")).toBe("</script><b>");
    expect(displayText("x".repeat(10_000))).toBe(`${"x".repeat(64)}…`);
  });
});

describe("readablePieces", () => {
  it("decodes GPT-2 bytes and numbers the parts of one character", () => {
    expect(readablePieces(GREETING)).toEqual(["안1/2", "안2/2", "녕1/2", "녕2/2", "하", "세1/2", "세2/2", "요"]);
    expect(
      readablePieces(
        sequence(
          "hi 하",
          ["hi", "Ġ", "íķĺ"],
          [
            [0, 2],
            [2, 3],
            [3, 4],
          ],
        ),
      ),
    ).toEqual(["hi", "▁", "하"]);
  });

  it("decodes single bytes", () => {
    const bytes = sequence(
      "안!",
      ["▁", "<0xEC>", "<0x95>", "<0x88>", "!"],
      [
        [0, 0],
        [0, 1],
        [0, 1],
        [0, 1],
        [1, 2],
      ],
    );
    expect(readablePieces(bytes)).toEqual(["▁", "안1/3", "안2/3", "안3/3", "!"]);
    expect(readablePieces(sequence("?", ["<0xEC>"], [[0, 0]]))).toEqual(["<EC>"]);
  });

  it("keeps pieces that equal the text", () => {
    const french = sequence(
      "déjà vu",
      ["déjà", "vu"],
      [
        [0, 4],
        [5, 7],
      ],
    );
    expect(readablePieces(french)).toEqual(["déjà", "vu"]);
  });
});

describe("letters that are not bytes", () => {
  it.each([
    ["Grüße", ["Gr", "##üße"]],
    ["Café", ["caf", "##é"]], // é alone could be the first of three bytes
    ["ÜBER UNS", ["über", "uns"]],
  ])("are kept: %s", (text, pieces) => {
    expect(readablePieces(sequence(text, pieces, [[0, 2], [2, text.length]]))).toEqual(pieces);
  });

  it("bytes of a truncated character are still decoded as bytes", () => {
    expect(readablePieces(sequence("안녕 hi", ["ķĪ", "ëħ"], [[0, 1], [1, 2]]))).toEqual(["안…", "녕…"]);
    expect(readablePieces(sequence("##안", ["##", "ìķĪ"], [[0, 2], [2, 3]]))).toEqual(["##", "안"]);
    expect(readablePieces(sequence("\ufffd!", ["ìĠ", "!"], [[0, 1], [1, 2]]))).toEqual(["<EC> ", "!"]);
  });
});

describe("syllableGroups", () => {
  it("joins the bytes of a syllable", () => {
    expect(syllableGroups(GREETING)).toEqual([0, 0, 1, 1, 2, 3, 3, 4]);
  });

  it("joins the jamo of a syllable but not adjacent pieces", () => {
    const jamo = sequence(
      "한글".normalize("NFD"),
      ["ᄒ", "ᅡ", "ᆫ", "글"],
      [
        [0, 1],
        [1, 2],
        [2, 3],
        [3, 6],
      ],
    );
    expect(syllableGroups(jamo)).toEqual([0, 0, 0, 1]);
    const plain = sequence(
      "나는",
      ["[CLS]", "▁나", "는", "[SEP]"],
      [
        [0, 0],
        [0, 1],
        [1, 2],
        [2, 2],
      ],
      [1, 0, 0, 1],
    );
    expect(syllableGroups(plain)).toEqual([0, 1, 2, 3]);
  });
});

describe("pieceReader", () => {
  it("reads the complete characters of a candidate and writes only the other bytes in hexadecimal", () => {
    const reader = pieceReader(GREETING, GREETING.pieces);
    const [first] = GREETING.pieces;
    expect(reader.text(`Ī${first}`, NO_BYTES)).toBe(`<88>${reader.text(first, NO_BYTES)}`); // Ī: the byte 88
    expect(reader.text("ìķĪ", NO_BYTES)).toBe("안");
    expect(reader.text("ìķĪì", NO_BYTES)).toBe("안<EC>");
  });
});
