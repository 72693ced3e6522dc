/** How pieces of text are written: marks, bytes and what cannot be seen. */

import type { Sequence } from "../trace/format";

export interface LabelPart {
  readonly kind: "text" | "start" | "badge"; // start: a word begins here
  readonly text: string;
}

const WORD_START = /^[▁Ġ]/u;
// Controls, joiners, bidi marks, blanks, tags, lone surrogates: they would vanish, or turn the text around them.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u00a0\u115f\u1160\u3164\uffa0\ufffd]/u;
const MAX_LABEL_LENGTH = 64; // characters of a label

/** A piece as parts to draw: the mark of a word's start, text, badges for what cannot be seen. */
export function labelParts(piece: string): readonly LabelPart[] {
  const result: LabelPart[] = [];
  const start = WORD_START.test(piece) && piece.length > 1;
  if (start) result.push({ kind: "start", text: "·" });
  const characters = [...(start ? piece.slice(1) : piece)];
  let text = "";
  for (const character of characters.slice(0, MAX_LABEL_LENGTH)) {
    if (!INVISIBLE.test(character)) {
      text += character === "▁" || character === "Ġ" ? "·" : character;
      continue;
    }
    if (text) result.push({ kind: "text", text });
    text = "";
    result.push({ kind: "badge", text: characterName(character) });
  }
  if (characters.length > MAX_LABEL_LENGTH) text += "…";
  if (text || result.length === 0) result.push({ kind: "text", text: text || "∅" });
  return result;
}

/** A piece in one line, for canvases and labels: "▁영화" is "·영화", U+202E is "[U+202E]". */
export function displayText(piece: string): string {
  return labelParts(piece)
    .map(({ kind, text }) => (kind === "badge" ? `[${text}]` : text))
    .join("");
}

/** The name of a character that cannot be seen. */
function characterName(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * The pieces of a sequence as they are read: bytes of GPT-2's alphabet and `<0xEC>` are turned back into characters;
 * pieces that share one character show it with their number, "안1/3".
 */
export function readablePieces(sequence: Sequence): readonly string[] {
  const spelled = pieceBytes(sequence);
  const text = Array.from(sequence.text);
  const split = new Map<string, number[]>(); // the span of one character -> pieces that have a part of it
  sequence.spans.forEach(([from, to], i) => {
    if (to <= from || !spelled[i] || decodeUtf8(spelled[i])) return;
    const span = `${from}:${to}`;
    split.set(span, [...(split.get(span) ?? []), i]);
  });
  return sequence.pieces.map((piece, i) => {
    const bytes = spelled[i];
    if (!bytes) return piece;
    const decoded = decodeUtf8(bytes);
    if (decoded !== null) return decoded.replace(/^ /, "▁");
    const [from, to] = sequence.spans[i];
    const shares = split.get(`${from}:${to}`) ?? [];
    const part = shares.length > 1 ? `${shares.indexOf(i) + 1}/${shares.length}` : "…";
    return to > from ? text.slice(from, to).join("") + part : [...bytes].map(hex).join("");
  });
}

/** The bytes a piece stands for, where it stands for bytes. */
function pieceBytes(sequence: Sequence): readonly (Uint8Array | null)[] {
  const fallback = /^<0x([0-9A-Fa-f]{2})>$/;
  const alphabet = usesByteAlphabet(sequence);
  return sequence.pieces.map((piece, i) => {
    const byte = fallback.exec(piece);
    if (byte) return Uint8Array.of(Number.parseInt(byte[1], 16));
    if (!alphabet || sequence.special[i]) return null;
    return bytes(piece);
  });
}

/**
 * Whether the pieces are in GPT-2's alphabet. It is known by its blanks and line ends, or by pieces that spell the text
 * and are not in it. Together they are UTF-8 (the ##üße of a WordPiece is not), unless a model wrote bytes of no letter.
 */
function usesByteAlphabet({ text, pieces, special }: Sequence): boolean {
  const real = pieces.filter((_, i) => !special[i]);
  if (!real.every((piece) => [...piece].every((letter) => BYTE_OF.has(letter)))) return false;
  if (!isUtf8Fragment(bytes(real.join(""))) && !text.includes("\ufffd")) return false;
  if (real.some((piece) => piece.startsWith("##")) && !text.includes("##")) return false; // ##é could be a letter that is cut
  return real.some((piece) => /[ĠĊĉ]/.test(piece) || (/[^\x20-\x7e]/.test(piece) && !text.includes(piece)));
}

function bytes(letters: string): Uint8Array {
  return Uint8Array.from(letters, (letter) => BYTE_OF.get(letter) ?? 0);
}

/** Whether bytes are UTF-8, their first and their last letter perhaps cut: a trace ends where the model is full. */
function isUtf8Fragment(bytes: Uint8Array): boolean {
  const begin = bytes.slice(0, 3).findIndex((byte) => byte >> 6 !== 2); // 10xxxxxx goes on
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(begin < 0 ? 3 : begin), { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** The text of whole UTF-8, null of a part. */
function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

function hex(byte: number): string {
  return `<${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}

/** GPT-2 writes a byte that prints as itself, the others as the letters from U+0100 on. */
const BYTE_OF: ReadonlyMap<string, number> = (() => {
  const result = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    result.set(String.fromCodePoint(prints ? byte : next++), byte);
  }
  return result;
})();

/**
 * Which syllable each piece belongs to, as numbers that never fall: pieces are one where the line between them runs
 * through a character as people see it (안 of three bytes; 한 of three jamo).
 */
export function syllableGroups(sequence: Sequence): readonly number[] {
  const starts = new Set<number>();
  let at = 0;
  for (const { segment } of new Intl.Segmenter("ko", { granularity: "grapheme" }).segment(sequence.text)) {
    starts.add(at);
    at += Array.from(segment).length;
  }
  let group = -1;
  let reached = -1; // the end of the piece before, in characters
  return sequence.spans.map(([from, to], i) => {
    const joined = to > from && !sequence.special[i] && (from < reached || (from === reached && !starts.has(from)));
    if (!joined) group++;
    reached = to > from && !sequence.special[i] ? Math.max(to, joined ? reached : -1) : -1;
    return group;
  });
}
