/**
 * The tokenizer of a packed file: text to input ids with special tokens, for one text or a pair.
 *
 * `tests/formats/test_web_tokenizer.py` and `test_web_pretrained.py` compare the ids with Python. Positions are those of UTF-16.
 */

import type { Algorithm, Piece } from "./algorithm";
import { Pretrained, type PretrainedConfig } from "./pretrained";
import { SentencePiece, type SentencePieceConfig } from "./sentencePiece";

/** The special tokens around texts, and how texts are shortened: jumok/text/template.py. */
export interface TemplateConfig {
  readonly before: readonly number[]; // special tokens before and after the pieces
  readonly after: readonly number[];
  readonly pair: readonly (readonly number[])[] | null; // before, between and after two texts
  readonly truncation: "longest_first" | "longest_first_python" | "first_keeps_more";
  readonly separator: number; // after which token types are 1; -1: the model reads none
  readonly max_length: number; // tokens, special ones included
  readonly side: "left" | "right"; // which loses the pieces of a text that is too long
}

/** Written by `jumok.formats.web_tokenizer`. */
export type TokenizerConfig = TemplateConfig & (SentencePieceConfig | PretrainedConfig);

export class Tokenizer {
  private readonly algorithm: Algorithm;

  /** SentencePiece needs the scores and types of its pieces, Unigram of imported models the scores. */
  constructor(
    readonly config: TokenizerConfig,
    scores = new Float32Array(),
    types = new Uint8Array(),
  ) {
    this.algorithm = "merges" in config ? new Pretrained(config, scores) : new SentencePiece(config, scores, types);
  }

  /** The input ids of a text, or of two: pieces, truncated, and the special tokens. */
  inputs(text: string, pair: string | null = null): number[] {
    return this.row(this.encode(text), pair === null ? null : this.encode(pair));
  }

  /** The input ids of the ids of a text, or of two. */
  row(ids: readonly number[], others: readonly number[] | null = null): number[] {
    const { before, after, pair } = this.config;
    const room = this.room(others !== null);
    if (others === null) return [...before, ...this.cut(ids, room), ...after];
    const [first, second] = ids.length + others.length > room ? this.shares(ids.length, others.length, room) : [ids.length, others.length];
    return [...pair![0], ...this.cut(ids, first), ...pair![1], ...this.cut(others, second), ...pair![2]];
  }

  /** The type of each token: 1 after the first separator, else 0; null for a model that reads none. */
  types(row: readonly number[]): number[] | null {
    const { separator } = this.config;
    const end = row.indexOf(separator);
    return separator < 0 ? null : row.map((_, i) => Number(end >= 0 && i > end));
  }

  /** The number of pieces of a text, or of two, that the model does not read. */
  unreadTokens(text: string, pair: string | null = null): number {
    const read = this.encode(text).length + (pair === null ? 0 : this.encode(pair).length);
    return Math.max(0, read - this.room(pair !== null));
  }

  /** The text of ids; special pieces, [UNK] among them, are left out. */
  decode(ids: readonly number[]): string {
    return this.algorithm.decode(ids);
  }

  /** The ids of a text. Throws for NUL and for lone surrogates. */
  encode(text: string): number[] {
    return this.algorithm.encode(text).map(({ id }) => id);
  }

  /** The ids of a text with the characters of each. */
  encodeWithPieces(text: string): Piece[] {
    return this.algorithm.encode(text);
  }

  /** Whether an id has no text. */
  isSpecial(id: number): boolean {
    return this.algorithm.isSpecial(id);
  }

  /** Whether an id is a byte of a character. */
  isByte(id: number): boolean {
    return this.algorithm.isByte(id);
  }

  /** The ids of one text, or of two, that fit. */
  private room(paired: boolean): number {
    const { before, after, pair, max_length } = this.config;
    if (paired && !pair) throw new Error("this tokenizer has no template for pairs of texts; give one text");
    const special = paired ? pair!.flat().length : before.length + after.length;
    return Math.max(0, max_length - special);
  }

  private cut(ids: readonly number[], most: number): readonly number[] {
    return this.config.side === "right" ? ids.slice(0, most) : ids.slice(Math.max(0, ids.length - most));
  }

  /** How many pieces of two texts that are too long are kept. */
  private shares(first: number, second: number, room: number): [number, number] {
    const { truncation } = this.config;
    if (truncation === "first_keeps_more") {
      const kept = Math.min(first, Math.max(room - second, room - Math.floor(room / 2)));
      return [kept, room - kept];
    }
    if (truncation === "longest_first_python") {
      const removed = first + second - room;
      const difference = Math.min(Math.abs(first - second), removed);
      const half = Math.floor((removed - difference) / 2);
      const rest = removed - difference - half;
      const kept = first > second ? [first - difference - half, second - rest] : [first - half, second - difference - rest];
      return [Math.max(kept[0], 0), Math.max(kept[1], 0)];
    }
    const short = Math.min(first, second);
    let [keptShort, keptLong] = [short, short > room ? short : Math.max(short, room - short)];
    if (keptShort + keptLong > room) [keptShort, keptLong] = [Math.floor(room / 2), Math.ceil(room / 2)];
    return first > second ? [keptLong, keptShort] : [keptShort, keptLong];
  }
}
