/** How pieces of text are displayed: spaces, bytes and invisible characters. */

import type { Sequence } from "../trace/format";

export interface LabelPart {
  readonly kind: "text" | "badge";
  readonly text: string;
}

const SPACE = "\u2423"; // ␣: the space of a piece, at the start of a word and elsewhere; a middle dot is a different character
// Controls, joiners, bidi marks, blanks, tags, lone surrogates: they would be invisible or would reorder the text.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u00a0\u115f\u1160\u3164\uffa0\ufffd]/u;
const MAX_LABEL_LENGTH = 64; // characters

/** A piece as parts to draw: text, and badges for invisible characters. */
export function labelParts(piece: string): readonly LabelPart[] {
  const result: LabelPart[] = [];
  const characters = [...piece];
  let text = "";
  for (const character of characters.slice(0, MAX_LABEL_LENGTH)) {
    if (!INVISIBLE.test(character)) {
      text += character === "▁" || character === "Ġ" ? SPACE : character;
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

/** A piece on one line, for canvases and labels: "▁영화" is "␣영화", U+202E is "[U+202E]". */
export function displayText(piece: string): string {
  return labelParts(piece)
    .map(({ kind, text }) => (kind === "badge" ? `[${text}]` : text))
    .join("");
}

/** The name of an invisible character. */
function characterName(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/**
 * The readable pieces of a sequence: bytes in GPT-2's alphabet and `<0xEC>` are decoded to characters; pieces that
 * share one character are numbered, "안1/3".
 */
export function readablePieces(sequence: Sequence): readonly string[] {
  const pieceByteList = pieceBytes(sequence);
  const text = Array.from(sequence.text);
  const split = new Map<string, number[]>(); // the span of a character -> the pieces that share it
  sequence.spans.forEach(([from, to], i) => {
    if (to <= from || !pieceByteList[i] || decodeUtf8(pieceByteList[i])) return;
    const span = `${from}:${to}`;
    split.set(span, [...(split.get(span) ?? []), i]);
  });
  return sequence.pieces.map((piece, i) => {
    const bytes = pieceByteList[i];
    if (!bytes) return piece;
    const decoded = decodeUtf8(bytes);
    if (decoded !== null) return decoded.replace(/^ /, "▁");
    const [from, to] = sequence.spans[i];
    const sharing = split.get(`${from}:${to}`) ?? [];
    const part = sharing.length > 1 ? `${sharing.indexOf(i) + 1}/${sharing.length}` : "…";
    const covered = text.slice(from, to).join("");
    return covered && !covered.includes("\ufffd") ? covered + part : partlyDecoded(bytes); // \ufffd: no character has these bytes
  });
}

/** The trailing bytes of an incomplete character. */
export type PendingBytes = Uint8Array;
export const NO_BYTES: PendingBytes = new Uint8Array();

export interface PieceReader {
  /** A piece in readable form after the bytes of an incomplete character: "Ŀ´" completes 이. */
  readonly text: (piece: string, pending: PendingBytes) => string;
  /** The bytes that are incomplete after a piece. */
  readonly pending: (piece: string, pending: PendingBytes) => PendingBytes;
}

/** Reads single pieces, such as candidates, as those of a sequence; `others` are more pieces of its vocabulary. */
export function pieceReader(sequence: Sequence, others: readonly string[]): PieceReader {
  const spelled = others.every((piece) => [...piece].every((letter) => BYTE_OF.has(letter)));
  const alphabet = usesByteAlphabet(sequence) || (spelled && others.some((piece) => /[ĠĊ]/.test(piece)));
  const specials = new Set(sequence.pieces.filter((_, i) => sequence.special[i]));
  const joined = (piece: string, pending: PendingBytes) => {
    const read = specials.has(piece) ? null : (fallbackByte(piece) ?? (alphabet ? bytes(piece) : null));
    return read && Uint8Array.of(...pending, ...read);
  };
  return {
    text: (piece, pending) => {
      const read = joined(piece, pending);
      return read ? (decodeUtf8(read)?.replace(/^ /, "▁") ?? partlyDecoded(read)) : piece;
    },
    pending: (piece, pending) => {
      const read = joined(piece, pending);
      return read ? read.subarray(read.length - incompleteBytes(read)) : NO_BYTES;
    },
  };
}

/** The complete characters of bytes, and the other bytes in hexadecimal. */
function partlyDecoded(read: Uint8Array): string {
  let result = "";
  for (let i = 0; i < read.length; ) {
    const length = characterLength(read[i]);
    const character = i + length <= read.length ? decodeUtf8(read.subarray(i, i + length)) : null;
    result += character ?? hex(read[i]);
    i += character === null ? 1 : length;
  }
  return result.replace(/^ /, "▁");
}

/** The number of bytes of the character that starts with a byte. */
function characterLength(first: number): number {
  return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/** The number of bytes at the end that begin a character without completing it. */
function incompleteBytes(read: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, read.length); back++) {
    const byte = read[read.length - back];
    if (byte >> 6 === 2) continue; // 10xxxxxx continues a character
    return back < characterLength(byte) ? back : 0;
  }
  return 0;
}

function fallbackByte(piece: string): Uint8Array | null {
  const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece);
  return byte && Uint8Array.of(Number.parseInt(byte[1], 16));
}

/** The bytes of each byte-level piece; null for other pieces. */
function pieceBytes(sequence: Sequence): readonly (Uint8Array | null)[] {
  const alphabet = usesByteAlphabet(sequence);
  return sequence.pieces.map((piece, i) => {
    const byte = fallbackByte(piece);
    if (byte) return byte;
    if (!alphabet || sequence.special[i]) return null;
    return bytes(piece);
  });
}

/**
 * Whether the pieces use GPT-2's byte alphabet: they contain its blanks and line ends, or they differ from the text.
 * Together they must be valid UTF-8 (the ##üße of WordPiece is not), unless a model generated invalid bytes.
 */
function usesByteAlphabet({ text, pieces, special }: Sequence): boolean {
  const real = pieces.filter((_, i) => !special[i]);
  if (!real.every((piece) => [...piece].every((letter) => BYTE_OF.has(letter)))) return false;
  if (!isUtf8Fragment(bytes(real.join(""))) && !text.includes("\ufffd")) return false;
  if (real.some((piece) => piece.startsWith("##")) && !text.includes("##")) return false; // ##é could be a truncated character
  return real.some((piece) => /[ĠĊĉ]/.test(piece) || (/[^\x20-\x7e]/.test(piece) && !text.includes(piece)));
}

function bytes(letters: string): Uint8Array {
  return Uint8Array.from(letters, (letter) => BYTE_OF.get(letter) ?? 0);
}

/** Whether bytes are UTF-8 whose first and last character may be truncated, because a trace ends at the maximum length. */
function isUtf8Fragment(bytes: Uint8Array): boolean {
  const begin = bytes.slice(0, 3).findIndex((byte) => byte >> 6 !== 2); // 10xxxxxx continues a character
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(begin < 0 ? 3 : begin), { stream: true });
    return true;
  } catch {
    return false;
  }
}

/** The text of complete UTF-8; null for a fragment. */
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

/** GPT-2 maps printable bytes to themselves and the others to letters from U+0100 on. */
const BYTE_OF: ReadonlyMap<string, number> = (() => {
  const result = new Map<string, number>();
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    result.set(String.fromCodePoint(printable ? byte : next++), byte);
  }
  return result;
})();

/**
 * The syllable group of each piece, as non-decreasing numbers: two pieces share a group when the boundary between them
 * is inside a grapheme (안 as three bytes; 한 as three jamo).
 */
export function syllableGroups(sequence: Sequence): readonly number[] {
  const starts = new Set<number>();
  let at = 0;
  for (const { segment } of new Intl.Segmenter("ko", { granularity: "grapheme" }).segment(sequence.text)) {
    starts.add(at);
    at += Array.from(segment).length;
  }
  let group = -1;
  let previousEnd = -1; // the end of the previous piece, in characters
  return sequence.spans.map(([from, to], i) => {
    const joined = to > from && !sequence.special[i] && (from < previousEnd || (from === previousEnd && !starts.has(from)));
    if (!joined) group++;
    previousEnd = to > from && !sequence.special[i] ? Math.max(to, joined ? previousEnd : -1) : -1;
    return group;
  });
}
