/** SentencePiece models in TypeScript: unigram, BPE and characters, with the ids of Google's library. */

import { type Algorithm, checkText, type Piece } from "./algorithm";
import { Pairs } from "./mergeQueue";

/** Written by `jumok.formats.web_tokenizer`. */
export interface SentencePieceConfig {
  readonly kind: "unigram" | "bpe" | "char";
  readonly pieces: readonly string[];
  readonly unknown: number; // the id of [UNK]
  readonly normalization: "nfc" | "none" | "hangul";
  readonly byte_fallback: boolean;
  readonly dummy_prefix: boolean; // a space before the text
  readonly remove_extra_spaces: boolean;
  readonly escape_spaces: boolean; // as ▁
}

const SPACE = "▁";
const NORMAL = 1, USER_DEFINED = 4, UNUSED = 5; // the types of pieces that are found in texts
const UNKNOWN = 2, CONTROL = 3, BYTE = 6; // the other types
const UNKNOWN_PENALTY = 10;
const DECOMPOSED_HANGUL = /[\u1100-\u1112\uac00-\ud7a3][\u1161-\u1175\u11a8-\u11c2]+/g;

type Segment = readonly [piece: string, id: number];

export class SentencePiece implements Algorithm {
  private readonly found = new Map<string, number>(); // the pieces that are found in texts
  private readonly reserved = new Map<string, number>(); // the others: control pieces, bytes
  private readonly longest = new Map<string, number>(); // the length of the longest piece by first unit
  private readonly userDefined: readonly string[]; // the longest first
  private readonly unknownScore: number;
  private readonly utf8 = new TextEncoder();

  /** Scores and types of the pieces, as in the model file. */
  constructor(
    private readonly config: SentencePieceConfig,
    private readonly scores: Float32Array,
    private readonly types: Uint8Array,
  ) {
    let least = Number.POSITIVE_INFINITY;
    config.pieces.forEach((piece, id) => {
      const type = types[id];
      if (type === NORMAL) least = Math.min(least, scores[id]);
      const isText = type === NORMAL || type === USER_DEFINED || type === UNUSED;
      (isText ? this.found : this.reserved).set(piece, id);
      if (!isText) return;
      this.longest.set(piece[0], Math.max(this.longest.get(piece[0]) ?? 0, piece.length));
    });
    this.unknownScore = Math.fround(least - UNKNOWN_PENALTY);
    this.userDefined = config.pieces.filter((_, id) => types[id] === USER_DEFINED).sort((a, b) => b.length - a.length);
  }

  /** The text of ids; special pieces, [UNK] among them, are left out. */
  decode(ids: readonly number[]): string {
    const { dummy_prefix, remove_extra_spaces } = this.config;
    let [text, atStart] = ["", true];
    let bytes: number[] = [];
    const flush = () => {
      text += decodeUtf8(bytes);
      bytes = [];
    };
    for (const id of ids) {
      const [piece, type] = [this.config.pieces[id], this.types[id]];
      if (type === UNKNOWN || type === CONTROL) continue;
      if (type === BYTE) {
        bytes.push(Number.parseInt(piece.slice(1, -1), 16));
        continue;
      }
      flush();
      // The space that was put before the text is removed, of models from elsewhere all spaces there.
      const stripped = atStart && !text && (dummy_prefix || remove_extra_spaces) && piece.startsWith(SPACE);
      if (!stripped || !remove_extra_spaces) atStart = false;
      text += (stripped ? piece.slice(1) : piece).replaceAll(SPACE, " ");
    }
    flush();
    return text;
  }

  /** The ids of a text, the normalized characters of each, and the number of its piece: that of several bytes is the same. */
  encode(text: string): Piece[] {
    const found: Piece[] = [];
    let followsUnknown = false;
    this.segment(this.normalize(text)).forEach(([piece, id], of) => {
      const unknown = id === this.config.unknown;
      if (unknown && this.config.byte_fallback)
        for (const byte of this.utf8.encode(piece)) found.push({ id: this.id(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`), piece, of });
      else if (!unknown || !followsUnknown) found.push({ id, piece, of });
      else found[found.length - 1].piece += piece; // unknown pieces in a row are one
      followsUnknown = unknown;
    });
    return found;
  }

  /** Whether an id has no text. */
  isSpecial(id: number): boolean {
    return this.types[id] === UNKNOWN || this.types[id] === CONTROL;
  }

  /** Whether an id is a byte of a character. */
  isByte(id: number): boolean {
    return this.types[id] === BYTE;
  }

  private id(piece: string): number {
    return this.reserved.get(piece) ?? this.found.get(piece) ?? this.config.unknown;
  }

  private normalize(text: string): string {
    const { normalization, dummy_prefix, remove_extra_spaces, escape_spaces } = this.config;
    checkText(text);
    if (normalization === "nfc") text = text.normalize("NFC");
    if (normalization === "hangul") text = text.replace(DECOMPOSED_HANGUL, (syllables) => syllables.normalize("NFC"));
    if (remove_extra_spaces) text = text.replace(/^ +| +$/g, "").replace(/ {2,}/g, " ");
    if (!text) return "";
    if (dummy_prefix) text = ` ${text}`;
    if (escape_spaces) text = text.replaceAll(" ", SPACE);
    return remove_extra_spaces ? text.replace(escape_spaces ? /▁+$/ : / +$/, "") : text;
  }

  private segment(text: string): Segment[] {
    if (this.config.kind === "unigram") return this.unigram(text);
    if (this.config.kind === "bpe") return this.bpe(text);
    return this.characters(text).map((piece) => [piece, this.id(piece)]);
  }

  /** The characters of a text; a user-defined piece is one. */
  private characters(text: string): string[] {
    if (!this.userDefined.length) return [...text];
    const parts: string[] = [];
    for (let from = 0; from < text.length; from += parts[parts.length - 1].length)
      parts.push(this.userDefined.find((piece) => text.startsWith(piece, from)) ?? String.fromCodePoint(text.codePointAt(from)!));
    return parts;
  }

  /** The most probable pieces (Kudo 2018): Viterbi from left to right, in float32 as the library. */
  private unigram(text: string): Segment[] {
    const n = text.length;
    const best = new Float32Array(n + 1); // the score of the best path that ends at a position
    const start = new Int32Array(n + 1).fill(-1); // of its last piece
    const ids = new Int32Array(n + 1);
    for (let from = 0, width = 1; from < n; from += width) {
      width = text.codePointAt(from)! > 0xffff ? 2 : 1;
      const reach = (to: number, id: number, score: number) => {
        if (start[to] >= 0 && !(score > best[to])) return;
        [best[to], start[to], ids[to]] = [score, from, id];
      };
      let single = false;
      const end = Math.min(n, from + (this.longest.get(text[from]) ?? 0));
      for (let to = from + 1; to <= end; to++) {
        const id = this.found.get(text.slice(from, to));
        if (id === undefined || this.types[id] === UNUSED) continue;
        reach(to, id, Math.fround(this.scores[id] + best[from]));
        single ||= to === from + width;
      }
      if (!single) reach(from + width, this.config.unknown, Math.fround(this.unknownScore + best[from]));
    }
    const path: Segment[] = [];
    for (let to = n; to > 0; to = start[to]) path.push([text.slice(start[to], to), ids[to]]);
    return path.reverse();
  }

  /** Merges of pairs, the highest score and then the leftmost first (Sennrich et al. 2016). */
  private bpe(text: string): Segment[] {
    const pieces = this.characters(text);
    const frozen = pieces.map((piece) => this.types[this.found.get(piece) ?? -1] === USER_DEFINED);
    const previous = pieces.map((_, i) => i - 1);
    const next = pieces.map((_, i) => (i + 1 < pieces.length ? i + 1 : -1));
    const pairs = new Pairs();
    const parts = new Map<string, readonly [string, string]>(); // of unused pieces, which are split again
    const add = (left: number, right: number) => {
      if (left < 0 || right < 0 || frozen[left] || frozen[right]) return;
      const merged = pieces[left] + pieces[right];
      const id = this.found.get(merged);
      if (id === undefined) return;
      pairs.push({ left, right, score: this.scores[id], merged: merged.length });
      if (this.types[id] === UNUSED) parts.set(merged, [pieces[left], pieces[right]]);
    };
    for (let i = 1; i < pieces.length; i++) add(i - 1, i);
    for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
      const { left, right, merged } = pair;
      if (!pieces[left] || !pieces[right] || pieces[left].length + pieces[right].length !== merged) continue; // merged elsewhere
      pieces[left] += pieces[right];
      pieces[right] = "";
      next[left] = next[right];
      if (next[right] >= 0) previous[next[right]] = left;
      add(previous[left], left);
      add(left, next[left]);
    }
    const result: Segment[] = [];
    const emit = (piece: string): void => {
      const id = this.id(piece);
      if (this.types[id] !== UNUSED) result.push([piece, id]);
      else if (parts.has(piece)) parts.get(piece)!.forEach(emit);
      else result.push([piece, this.config.unknown]);
    };
    for (const piece of pieces) if (piece) emit(piece);
    return result;
  }
}

const STRICT_UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The characters of bytes; � for each byte that is not part of one. */
function decodeUtf8(bytes: readonly number[]): string {
  let text = "";
  for (let from = 0; from < bytes.length; ) {
    const first = bytes[from];
    const width = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      text += STRICT_UTF8.decode(Uint8Array.from(bytes.slice(from, from + width)));
      from += width;
    } catch {
      text += "\ufffd";
      from += 1;
    }
  }
  return text;
}
