/** Which characters no font of this machine can draw: they appear as empty boxes. */

const SIZE = 24; // pixels
const MAX_CHARACTERS = 200; // checked in one text
const NEVER_DRAWN = "\u{10fffe}"; // a noncharacter: no font has a glyph for it

/** The characters of `text` without a glyph, each once. Latin and Hangul are in the fonts of the page. */
export function missingGlyphs(text: string): readonly string[] {
  const candidates = [...new Set(text)].filter((letter) => /[^\p{Script=Latin}\p{Script=Hangul}\p{Cc}\p{Cf}\p{Cs}\p{Z}\x21-\x7e\ufffd▁]/u.test(letter));
  if (candidates.length === 0) return [];
  const g = context();
  if (!g) return [];
  const empty = image(g, NEVER_DRAWN);
  return candidates.slice(0, MAX_CHARACTERS).filter((letter) => image(g, letter) === empty);
}

function context(): CanvasRenderingContext2D | null {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * SIZE, 2 * SIZE];
  const g = canvas.getContext("2d", { willReadFrequently: true });
  if (g) g.font = `${SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  return g;
}

/** The drawn pixels of a character, as text. */
function image(g: CanvasRenderingContext2D, letter: string): string {
  g.clearRect(0, 0, 2 * SIZE, 2 * SIZE);
  g.fillText(letter, 4, SIZE + 4);
  const { data } = g.getImageData(0, 0, 2 * SIZE, 2 * SIZE);
  let result = "";
  for (let i = 3; i < data.length; i += 4) if (data[i]) result += `${i}:${data[i]} `;
  return result;
}
