/**
 * Tokenizers of imported models: WordPiece, byte-pair encoding and Unigram with the steps of a tokenizer.json.
 *
 * The ids are those of the tokenizers library of Hugging Face for texts in which no special piece is searched. A text is a row
 * of characters, each with the span of the text that it was made of (code points).
 */

import { type Algorithm, checkText, type Piece } from "./algorithm";
import { Pairs } from "./mergeQueue";

/** A step of a tokenizer.json as jumok/formats/web_pretrained.py writes it. */
export type Step =
  | { readonly type: "bert"; readonly clean_text: boolean; readonly chinese: boolean; readonly strip_accents: boolean; readonly lowercase: boolean }
  | { readonly type: "form"; readonly form: "NFC" | "NFD" | "NFKC" | "NFKD" }
  | { readonly type: "lowercase" }
  | { readonly type: "charsmap"; readonly charsmap: string; readonly attached: readonly number[]; readonly prepended: readonly number[] }
  | { readonly type: "replace"; readonly pattern: string; readonly content: string }
  | { readonly type: "spaces_removed" }
  | { readonly type: "punctuation" }
  | { readonly type: "metaspace"; readonly prefix: "always" | "first" | "never"; readonly split: boolean }
  | { readonly type: "bert_words" }
  | { readonly type: "byte_level"; readonly add_prefix_space: boolean; readonly pattern: string }
  | { readonly type: "split"; readonly pattern: string; readonly removed: boolean; readonly invert: boolean };

/** A piece that is searched in texts before they are split. */
interface AddedPiece {
  readonly id: number;
  readonly content: string;
  readonly in_model: boolean; // whether words become it too
  readonly single_word: boolean;
  readonly lstrip: boolean;
  readonly rstrip: boolean;
  readonly normalized: boolean; // searched in the normalized text
}

/** Written by `jumok.formats.web_pretrained`. */
export interface PretrainedConfig {
  readonly kind: "wordpiece" | "byte_bpe" | "unigram";
  readonly pieces: readonly string[]; // by id; "" where there is none
  readonly unknown: number; // the id of [UNK]; -1: none
  readonly special: readonly number[]; // ids without text
  readonly added: readonly AddedPiece[];
  readonly normalizer: readonly Step[];
  readonly words: readonly Step[];
  readonly trim_offsets: "" | "trim" | "trim_inserted"; // spaces that spans leave out, without the inserted one
  readonly max_word: number; // characters of WordPiece
  readonly clean_up: boolean; // decoding removes spaces before punctuation
  readonly merges: readonly number[]; // the ids of two pieces, the first merge first
  readonly ignore_merges: boolean;
  readonly skips_first_space: boolean; // decoding leaves out the spaces of the first piece of Unigram
  /** The characters of each kind as the library knows them: first and last ones of ranges. */
  readonly characters: Readonly<Record<"removed" | "spaces" | "chinese" | "marks" | "punctuation", readonly number[]>>;
}

const INSIDE_WORD = "##";
const SPACE = "▁"; // in pieces of Unigram
const UNKNOWN_PENALTY = 10;
const SPACES = /^\p{White_Space}$/u;
const WORD_AT_END = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const WORD_AT_START = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

/** A character, and the span of the text that it was made of. */
type Char = readonly [character: string, start: number, end: number];
type Word = { readonly chars: readonly Char[]; readonly added: number }; // the id of an added piece, or -1

export class Pretrained implements Algorithm {
  private readonly ids = new Map<string, number>(); // the pieces that are found in texts
  private readonly special: ReadonlySet<number>;
  private readonly merges = new Map<number, readonly [rank: number, id: number]>();
  private readonly longest: number;
  private readonly leastScore: number;
  private readonly charsmaps = new Map<string, Charsmap>();
  private readonly added: readonly (AddedPiece & { readonly text: string })[]; // the longest first
  private readonly has: Readonly<Record<string, (character: string) => boolean>>;

  /** Unigram needs the scores of its pieces. */
  constructor(
    private readonly config: PretrainedConfig,
    private readonly scores = new Float32Array(),
  ) {
    const { pieces, unknown, merges, characters } = config;
    this.special = new Set(config.special);
    const outside = new Set([unknown, ...config.special, ...config.added.filter((each) => !each.in_model).map(({ id }) => id)]);
    pieces.forEach((piece, id) => {
      if (piece && !outside.has(id)) this.ids.set(piece, id);
    });
    this.longest = pieces.reduce((most, piece) => Math.max(most, [...piece].length), 0);
    this.leastScore = scores.reduce((least, score) => Math.min(least, score), Infinity);
    for (let at = 0; at < merges.length; at += 2) {
      const merged = this.ids.get(pieces[merges[at]] + pieces[merges[at + 1]]);
      if (merged !== undefined) this.merges.set(this.key(merges[at], merges[at + 1]), [at, merged]);
    }
    this.has = Object.fromEntries(Object.entries(characters).map(([kind, ranges]) => [kind, inRanges(ranges)]));
    const searched = config.added.map((each) => ({ ...each, text: each.normalized ? textOf(this.normalize(toChars(each.content))) : each.content }));
    this.added = searched.filter(({ text }) => text).sort((a, b) => b.text.length - a.text.length);
  }

  encode(text: string): Piece[] {
    checkText(text);
    const found: { id: number; chars: readonly Char[] }[] = [];
    for (const part of this.parts(text)) {
      if (part.added >= 0) found.push({ id: part.added, chars: part.chars });
      else for (const word of this.split(part.chars)) found.push(...this.pieces(word));
    }
    return found.map(({ id, chars }, of) => ({ id, piece: textOf(chars), of, span: this.span(id, chars, of) }));
  }

  decode(ids: readonly number[]): string {
    const pieces = ids.filter((id) => !this.special.has(id)).map((id) => this.config.pieces[id] ?? "").filter(Boolean);
    const { kind, skips_first_space } = this.config;
    if (kind === "byte_bpe") return decodeBytes(pieces);
    const text = kind === "wordpiece" ? joined(pieces) : pieces.map((piece, i) => piece.replaceAll(SPACE, i === 0 && skips_first_space ? "" : " ")).join("");
    return this.config.clean_up ? cleanUp(text) : text;
  }

  isSpecial(id: number): boolean {
    return this.special.has(id) || id === this.config.unknown;
  }

  isByte(): boolean {
    return false;
  }

  private key(left: number, right: number): number {
    return left * this.config.pieces.length + right;
  }

  /** The parts of a text between added pieces, normalized, and these. */
  private parts(text: string): Word[] {
    const raw = this.search({ chars: toChars(text), added: -1 }, false);
    return raw.flatMap((part) => (part.added >= 0 ? [part] : this.search({ chars: this.normalize(part.chars), added: -1 }, true)));
  }

  /** A part divided at the added pieces in it, the leftmost and longest first. */
  private search(part: Word, normalized: boolean): Word[] {
    const searched = this.added.filter((each) => each.normalized === normalized);
    if (!searched.length || !part.chars.length) return part.chars.length ? [part] : [];
    const text = textOf(part.chars);
    const index: number[] = []; // of the character at each UTF-16 position
    part.chars.forEach(([character], i) => {
      for (let unit = 0; unit < character.length; unit++) index.push(i);
    });
    index.push(part.chars.length);
    const found: Word[] = [];
    let done = 0; // UTF-16
    const push = (from: number, to: number, added: number) => {
      if (from < to) found.push({ chars: part.chars.slice(index[from], index[to]), added });
    };
    for (let at = 0; at < text.length; ) {
      const match = searched.find((each) => text.startsWith(each.text, at));
      if (!match) {
        at++;
        continue;
      }
      let [start, end] = [at, at + match.text.length];
      at = end;
      if (match.single_word && (WORD_AT_END.test(text.slice(0, start)) || WORD_AT_START.test(text.slice(end)))) continue;
      if (match.lstrip) start = Math.max(done, start - text.slice(0, start).match(/\p{White_Space}*$/u)![0].length);
      if (match.rstrip) end += text.slice(end).match(/^\p{White_Space}*/u)![0].length;
      push(done, start, -1);
      push(start, end, match.id);
      done = end;
    }
    push(done, text.length, -1);
    return found;
  }

  private normalize(chars: readonly Char[]): readonly Char[] {
    return this.config.normalizer.reduce((found, step) => this.normalizeBy(step, found), chars);
  }

  private normalizeBy(step: Step, chars: readonly Char[]): readonly Char[] {
    if (step.type === "form") return inForm(step.form, chars);
    if (step.type === "lowercase") return lowerCase(chars);
    if (step.type === "replace") return replaced(step.pattern, step.content, chars);
    if (step.type === "charsmap") {
      const own = this.charsmaps.get(step.charsmap) ?? new Charsmap(step.charsmap, inRanges(step.attached), inRanges(step.prepended));
      this.charsmaps.set(step.charsmap, own);
      return own.apply(chars);
    }
    if (step.type !== "bert") throw new Error(`a normalizer must be known, got ${step.type}; export the model again`);
    const { removed, spaces, chinese, marks } = this.has;
    if (step.clean_text) chars = chars.filter(([c]) => !removed(c)).map((char) => (spaces(char[0]) ? [" ", char[1], char[2]] : char));
    if (step.chinese) chars = chars.flatMap((char) => (chinese(char[0]) ? [[" ", char[1], char[2]], char, [" ", char[1], char[2]]] : [char])) as Char[];
    if (step.strip_accents) chars = inForm("NFD", chars).filter(([c]) => !marks(c));
    return step.lowercase ? lowerCase(chars) : chars;
  }

  /** The words of a part, each in the alphabet of the model. */
  private split(chars: readonly Char[]): (readonly Char[])[] {
    return this.config.words.reduce<(readonly Char[])[]>((words, step) => words.flatMap((word) => this.splitBy(step, word)), [chars]).filter((word) => word.length);
  }

  private splitBy(step: Step, word: readonly Char[]): (readonly Char[])[] {
    if (step.type === "bert_words")
      return divide(word, (c) => (SPACES.test(c) ? "removed" : this.has.punctuation(c) ? "alone" : ""));
    if (step.type === "spaces_removed") return divide(word, (c) => (SPACES.test(c) ? "removed" : ""));
    if (step.type === "punctuation") return divide(word, (c) => (this.has.punctuation(c) ? "alone" : ""));
    if (step.type === "metaspace") return metaspaced(step.prefix, step.split, word);
    if (step.type === "split") return matches(step.pattern, word, step.removed, step.invert);
    if (step.type !== "byte_level") throw new Error(`a splitter must be known, got ${step.type}; export the model again`);
    const first = word[0];
    const spaced: readonly Char[] = step.add_prefix_space && first && first[0] !== " " ? [[" ", first[1], first[2]], ...word] : word;
    const words = step.pattern ? matches(step.pattern, spaced, false, false) : [spaced];
    return words.map((each) => each.flatMap(([c, start, end]) => Array.from(UTF8.encode(c), (byte): Char => [BYTE_LETTERS[byte], start, end])));
  }

  private pieces(word: readonly Char[]): { id: number; chars: readonly Char[] }[] {
    if (this.config.kind === "unigram") return this.unigram(word);
    return this.config.kind === "wordpiece" ? this.wordPiece(word) : this.bytePairs(word);
  }

  /** The most probable pieces of a word (Kudo 2018); unknown ones in a row are one. */
  private unigram(word: readonly Char[]): { id: number; chars: readonly Char[] }[] {
    const { unknown } = this.config;
    const n = word.length;
    const best = new Float64Array(n + 1); // the score of the best path that ends at a position
    const start = new Int32Array(n + 1).fill(-1); // of its last piece
    const ids = new Int32Array(n + 1);
    for (let from = 0; from < n; from++) {
      const reach = (to: number, id: number, score: number) => {
        if (start[to] < 0 || score > best[to]) [best[to], start[to], ids[to]] = [score, from, id];
      };
      let [piece, single] = ["", false];
      for (let to = from + 1; to <= Math.min(n, from + this.longest); to++) {
        piece += word[to - 1][0];
        const id = this.ids.get(piece);
        if (id === undefined) continue;
        reach(to, id, this.scores[id] + best[from]);
        single ||= to === from + 1;
      }
      if (!single) reach(from + 1, unknown, this.leastScore - UNKNOWN_PENALTY + best[from]);
    }
    const found: { id: number; chars: readonly Char[] }[] = [];
    for (let to = n; to > 0; to = start[to]) {
      const next = found[found.length - 1];
      const chars = word.slice(start[to], to);
      if (ids[to] === unknown && next?.id === unknown) next.chars = [...chars, ...next.chars];
      else found.push({ id: ids[to], chars });
    }
    return found.reverse().map(({ id, chars }) => ({ id: id === unknown ? (this.ids.get(textOf(chars)) ?? unknown) : id, chars }));
  }

  /** The longest pieces of a word from left to right; [UNK] if a part has none. */
  private wordPiece(word: readonly Char[]): { id: number; chars: readonly Char[] }[] {
    const unknown = [{ id: this.config.unknown, chars: word }];
    if (word.length > this.config.max_word) return unknown;
    const found: { id: number; chars: readonly Char[] }[] = [];
    for (let from = 0; from < word.length; ) {
      let [id, to]: [number | undefined, number] = [undefined, Math.min(word.length, from + this.longest) + 1];
      while (id === undefined && --to > from) id = this.ids.get((from ? INSIDE_WORD : "") + textOf(word.slice(from, to)));
      if (id === undefined) return unknown;
      found.push({ id, chars: word.slice(from, to) });
      from = to;
    }
    return found;
  }

  /** Merges of pairs, the first of the list and then the leftmost first (Sennrich et al. 2016). */
  private bytePairs(word: readonly Char[]): { id: number; chars: readonly Char[] }[] {
    const { unknown, ignore_merges } = this.config;
    const whole = ignore_merges ? this.ids.get(textOf(word)) : undefined;
    if (whole !== undefined) return [{ id: whole, chars: word }];
    const symbols: { id: number; chars: readonly Char[] }[] = [];
    for (const char of word) {
      const id = this.ids.get(char[0]) ?? unknown;
      if (id >= 0) symbols.push({ id, chars: [char] });
    }
    const previous = symbols.map((_, i) => i - 1);
    const next = symbols.map((_, i) => (i + 1 < symbols.length ? i + 1 : -1));
    const pairs = new Pairs();
    const add = (left: number, right: number) => {
      const merge = left < 0 || right < 0 ? undefined : this.merges.get(this.key(symbols[left].id, symbols[right].id));
      if (merge) pairs.push({ left, right, score: -merge[0], merged: merge[1] });
    };
    for (let i = 1; i < symbols.length; i++) add(i - 1, i);
    for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
      const { left, right, merged } = pair;
      const [a, b] = [symbols[left], symbols[right]];
      if (!a.chars.length || next[left] !== right || this.merges.get(this.key(a.id, b.id))?.[1] !== merged) continue; // merged elsewhere
      symbols[left] = { id: merged, chars: [...a.chars, ...b.chars] };
      symbols[right] = { id: -1, chars: [] };
      next[left] = next[right];
      if (next[right] >= 0) previous[next[right]] = left;
      add(previous[left], left);
      add(left, next[left]);
    }
    return symbols.filter(({ chars }) => chars.length);
  }

  /** The characters of the text that a piece covers. */
  private span(id: number, chars: readonly Char[], of: number): [number, number] {
    let [start, end] = [chars[0][1], chars[chars.length - 1][2]];
    const { trim_offsets, pieces } = this.config;
    if (!trim_offsets) return [start, end];
    const letters = [...pieces[id]];
    const isSpace = (c: string) => c === BYTE_LETTERS[32] || SPACES.test(c);
    let before = letters.findIndex((c) => !isSpace(c));
    if (before < 0) before = letters.length;
    let after = letters.toReversed().findIndex((c) => !isSpace(c));
    if (after < 0) after = letters.length;
    if (before && (of === 0 || start === 0) && trim_offsets === "trim_inserted") before--;
    start = Math.min(start + before, end);
    if (after && end >= after) end = Math.max(end - after, start);
    return [start, end];
  }
}

const UTF8 = new TextEncoder();

/** The letter of each byte in byte-level pieces (Radford et al. 2019): itself if it is visible, else one from U+0100 on. */
const BYTE_LETTERS: readonly string[] = (() => {
  let more = 256;
  const visible = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(visible(byte) ? byte : more++));
})();
const LETTER_BYTES: ReadonlyMap<string, number> = new Map(BYTE_LETTERS.map((letter, byte) => [letter, byte]));

function decodeBytes(pieces: readonly string[]): string {
  const bytes = pieces.flatMap((piece) => {
    const own = [...piece].map((letter) => LETTER_BYTES.get(letter));
    return own.includes(undefined) ? [...UTF8.encode(piece)] : (own as number[]);
  });
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
}

/** The text of pieces of WordPiece. */
function joined(pieces: readonly string[]): string {
  return pieces.map((piece, i) => cleanUp(i === 0 ? piece : piece.startsWith(INSIDE_WORD) ? piece.slice(INSIDE_WORD.length) : ` ${piece}`)).join("");
}

/** A text without the spaces before English punctuation. */
function cleanUp(text: string): string {
  for (const spaced of [" .", " ?", " !", " ,"]) text = text.replaceAll(spaced, spaced.slice(1));
  text = text.replaceAll(" ' ", "'");
  for (const spaced of [" n't", " 'm", " 's", " 've", " 're"]) text = text.replaceAll(spaced, spaced.slice(1));
  return text;
}

function toChars(text: string): Char[] {
  return Array.from(text, (character, i): Char => [character, i, i + 1]);
}

function textOf(chars: readonly Char[]): string {
  return chars.length === 1 ? chars[0][0] : chars.map(([character]) => character).join("");
}

/** Whether a character is in one of the ranges: first and last code points, in order. */
function inRanges(ranges: readonly number[]): (character: string) => boolean {
  return (character) => {
    const code = character.codePointAt(0)!;
    let [low, high] = [0, ranges.length / 2];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranges[2 * middle + 1] < code) low = middle + 1;
      else high = middle;
    }
    return 2 * low < ranges.length && ranges[2 * low] <= code;
  };
}

/** The characters in a normalization form; each is of the character with the first part of its decomposition. */
function inForm(form: "NFC" | "NFD" | "NFKC" | "NFKD", chars: readonly Char[]): readonly Char[] {
  const text = textOf(chars);
  const normal = text.normalize(form);
  if (normal === text) return chars;
  const decomposition = form.length === 4 ? "NFKD" : "NFD";
  const owners = chars.flatMap((char) => Array.from(char[0].normalize(decomposition), () => char));
  let at = 0;
  return Array.from(normal, (character): Char => {
    const [, start, end] = owners[at];
    at += [...character.normalize(decomposition)].length;
    return [character, start, end];
  });
}

const UTF8_TEXT = new TextDecoder("utf-8", { ignoreBOM: true });
const BREAKS = /^[\p{Cc}\p{Zl}\p{Zp}\p{Cf}]$/u;
const JOINERS = ["\u200c", "\u200d"];

/** The precompiled table of SentencePiece, a double array, as the library applies it: to grapheme clusters below 6 bytes, then to characters. */
class Charsmap {
  private readonly units: Uint32Array;
  private readonly texts: Uint8Array;

  constructor(
    base64: string,
    private readonly isAttached: (character: string) => boolean, // to the character before it
    private readonly isPrepended: (character: string) => boolean, // to the one after it
  ) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const size = new DataView(bytes.buffer).getUint32(0, true);
    this.units = new Uint32Array(bytes.slice(4, 4 + size).buffer);
    this.texts = bytes.subarray(4 + size);
  }

  apply(chars: readonly Char[]): Char[] {
    const found: Char[] = [];
    for (let at = 0; at < chars.length; ) {
      const end = this.clusterEnd(chars, at);
      const whole = textOf(chars.slice(at, end));
      const value = UTF8.encode(whole).length < 6 ? this.find(whole) : undefined;
      const parts = value === undefined ? chars.slice(at, end).map((char) => [[char], this.find(char[0]) ?? char[0]] as const) : [[chars.slice(at, end), value] as const];
      for (const [old, text] of parts) [...text].forEach((c, i) => found.push([c, ...(old[Math.min(i, old.length - 1)].slice(1) as [number, number])]));
      at = end;
    }
    return found;
  }

  private clusterEnd(chars: readonly Char[], from: number): number {
    if (chars[from][0] === "\r" && chars[from + 1]?.[0] === "\n") return from + 2;
    const breaks = ([c]: Char) => BREAKS.test(c) && !JOINERS.includes(c) && !this.isPrepended(c);
    let at = from;
    while (this.isPrepended(chars[at][0]) && at + 1 < chars.length && !breaks(chars[at + 1])) at++;
    if (breaks(chars[at++])) return at;
    while (at < chars.length && this.isAttached(chars[at][0])) at++;
    return at;
  }

  /** What the shortest entry is replaced with that a text begins with. */
  private find(text: string): string | undefined {
    const offset = (unit: number) => (unit >>> 10) << ((unit & 512) >>> 6);
    let at = offset(this.units[0]);
    for (const byte of UTF8.encode(text)) {
      at ^= byte;
      const unit = this.units[at];
      if ((unit & 0x800000ff) !== byte) return undefined;
      at ^= offset(unit);
      if (!((unit >>> 8) & 1)) continue;
      const from = this.units[at] & 0x7fffffff;
      return UTF8_TEXT.decode(this.texts.subarray(from, this.texts.indexOf(0, from)));
    }
    return undefined;
  }
}

/** The matches of a pattern replaced with a text. */
function replaced(pattern: string, content: string, chars: readonly Char[]): readonly Char[] {
  const text = textOf(chars);
  const found: Char[] = [];
  let [at, done] = [0, 0]; // characters, and UTF-16
  const keep = (to: number) => {
    for (; done < to; at++) {
      found.push(chars[at]);
      done += chars[at][0].length;
    }
  };
  for (const match of text.matchAll(regularExpression(pattern))) {
    keep(match.index);
    for (; done < match.index + match[0].length; at++) done += chars[at][0].length;
    if (match[0]) for (const c of content) found.push([c, chars[at - 1][1], chars[at - 1][2]]);
  }
  keep(text.length);
  return found;
}

/** A word with ▁ for its spaces and before it, divided before each ▁. */
function metaspaced(prefix: "always" | "first" | "never", split: boolean, word: readonly Char[]): (readonly Char[])[] {
  const chars = word.map(([c, start, end]): Char => [c === " " ? SPACE : c, start, end]);
  const [first] = chars;
  if (first && first[0] !== SPACE && (prefix === "always" || (prefix === "first" && first[1] === 0))) chars.unshift([SPACE, first[1], first[2]]);
  if (!split) return [chars];
  const found: Char[][] = [];
  for (const char of chars) {
    if (char[0] === SPACE || !found.length) found.push([char]);
    else found[found.length - 1].push(char);
  }
  return found;
}

function lowerCase(chars: readonly Char[]): readonly Char[] {
  return chars.flatMap(([character, start, end]) => Array.from(character.toLowerCase(), (lower): Char => [lower, start, end]));
}

/** A word divided at characters that are left out, or a word each. */
function divide(word: readonly Char[], kind: (character: string) => "" | "removed" | "alone"): (readonly Char[])[] {
  const found: Char[][] = [];
  let open = false;
  for (const char of word) {
    const its = kind(char[0]);
    if (its === "removed") open = false;
    else if (its === "" && open) found[found.length - 1].push(char);
    else {
      found.push([char]);
      open = its === "";
    }
  }
  return found;
}

/** The matches of a pattern in a word, and what is between them, or one of both. */
function matches(pattern: string, word: readonly Char[], removed: boolean, invert: boolean): (readonly Char[])[] {
  const found: (readonly Char[])[] = [];
  const text = textOf(word);
  let [at, done] = [0, 0]; // characters, and UTF-16
  const push = (to: number, isMatch: boolean) => {
    const from = at;
    for (; done < to; at++) done += word[at][0].length;
    if (at > from && !(removed && isMatch !== invert)) found.push(word.slice(from, at));
  };
  for (const match of text.matchAll(regularExpression(pattern))) {
    push(match.index, false);
    push(match.index + match[0].length, true);
  }
  push(text.length, false);
  return found;
}

const EXPRESSIONS = new Map<string, RegExp>();

function regularExpression(pattern: string): RegExp {
  const found = EXPRESSIONS.get(pattern) ?? new RegExp(pattern, "gu");
  EXPRESSIONS.set(pattern, found);
  return found;
}
