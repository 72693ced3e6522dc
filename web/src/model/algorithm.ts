/** What a tokenizer does without special tokens: text to pieces and back. */

/** An id of a text. `piece` are the normalized characters, those of several bytes or unknown characters together. */
export interface Piece {
  readonly id: number;
  piece: string;
  readonly of: number; // the number of its piece: that of several bytes is the same
  readonly span?: readonly [number, number]; // the characters (code points) of the text, where the tokenizer knows them
}

export interface Algorithm {
  /** The pieces of a text; no special one comes from the text. Throws for NUL and for lone surrogates. */
  encode(text: string): Piece[];
  /** The text of ids, special ones left out. */
  decode(ids: readonly number[]): string;
  /** Whether an id has no text. */
  isSpecial(id: number): boolean;
  /** Whether an id is a byte of a character. */
  isByte(id: number): boolean;
}

/** Throws for a text that Python refuses. */
export function checkText(text: string): void {
  if (text.includes("\0")) throw new Error("a text must not contain U+0000 (NUL); remove it");
  if (/\p{Surrogate}/u.test(text)) throw new Error("a text must not contain a lone surrogate; remove it");
}
