/** Masked words: every [MASK] of a text is replaced by the most probable piece that fits (jumok/tasks/pipeline/fill_mask.py). */

import type { Tokenizer } from "./tokenizer";
import { isBlank } from "./warnings";

/** Written by `jumok.formats.web_encoder`. */
export interface MaskSettings {
  readonly id: number;
  readonly typed: string; // the piece of the tokenizer, such as <mask>
  readonly imported: boolean; // whether the tokenizer is that of an imported model
  readonly keeps_spaces: boolean; // whether a space is a piece of its own
  readonly starts_text: boolean; // whether the first piece of a text starts a word
  readonly excluded: readonly number[]; // ids that fill no mask
}

/** A piece that fits a mask, without the space before it. */
export interface Filling {
  readonly piece: string;
  readonly id: number;
  readonly logProbability: number;
}

export interface Filled {
  readonly text: string;
  readonly score: number; // the sum of the log-probabilities of the pieces
  readonly masks: readonly (readonly Filling[])[]; // the best pieces of each mask that was read
}

const MASK = "[MASK]"; // as typed in a text
const INSIDE_WORD = "##";
const WORD_START = /^[▁Ġ]/;
const BOUNDARY = /[\p{P}\p{Script=Han}!-/:-@[-`{-~]$/u;
const CANDIDATES = 5;

export class MaskFiller {
  private readonly excluded: ReadonlySet<number>;

  constructor(
    readonly settings: MaskSettings,
    private readonly tokenizer: Tokenizer,
  ) {
    this.excluded = new Set(settings.excluded);
  }

  /** The input ids of a text. */
  row(text: string): number[] {
    const { imported, keeps_spaces, id } = this.settings;
    const parts = this.parts(text);
    const ids: number[] = [];
    parts.forEach((part, number) => {
      let stripped = number === parts.length - 1 || keeps_spaces ? part : part.replace(/ +$/, "");
      if (number) {
        ids.push(id);
        if (!imported && !keeps_spaces) stripped = stripped.replace(/^ +/, "");
      }
      const own = stripped ? this.tokenizer.encode(stripped) : [];
      const attached = number > 0 && !part.startsWith(" ") && !imported;
      ids.push(...(attached ? this.withoutSpace(own) : own));
    });
    return this.tokenizer.row(ids);
  }

  /** The text with its masks filled, from log p (V) of each mask that was read. */
  fill(text: string, logP: readonly Float64Array[]): Filled {
    const parts = this.parts(text);
    const unread = this.tokenizer.config.side === "left" ? parts.length - 1 - logP.length : 0;
    const masks: Filling[][] = [];
    let [filled, score] = [parts[0], 0];
    parts.slice(1).forEach((after, i) => {
      const number = i - unread;
      let piece = MASK;
      if (number >= 0 && number < logP.length) {
        const afterMask = !parts[i] && i > 0;
        const starts = !afterMask && this.wordStartsAfter(parts[i]) && !this.settings.keeps_spaces;
        const best = this.candidates(logP[number], starts);
        masks.push(best);
        piece = best[0].piece;
        score += best[0].logProbability;
      }
      filled += piece + after;
    });
    return { text: filled, score, masks };
  }

  /** Whether a text has a mask. */
  hasMask(text: string): boolean {
    return this.parts(text).length > 1;
  }

  private parts(text: string): string[] {
    const { typed } = this.settings;
    return (typed ? text.replaceAll(typed, MASK) : text).split(MASK);
  }

  private candidates(logP: Float64Array, starts: boolean): Filling[] {
    const ids: number[] = [];
    for (let id = 0; id < logP.length; id++) if (!this.excluded.has(id) && this.startsWord(id) === starts) ids.push(id);
    ids.sort((a, b) => logP[b] - logP[a] || a - b);
    const found: Filling[] = [];
    for (const id of ids) {
      const piece = this.surface(id);
      if (!isBlank(piece) && !piece.includes("\ufffd")) found.push({ piece, id, logProbability: logP[id] });
      if (found.length === CANDIDATES) break;
    }
    if (!found.length) throw new Error("a mask needs a vocabulary with pieces inside words and at their beginning; train one on more texts");
    return found;
  }

  private startsWord(id: number): boolean {
    const { kind, pieces } = this.tokenizer.config;
    return kind === "wordpiece" ? !pieces[id].startsWith(INSIDE_WORD) : WORD_START.test(pieces[id]);
  }

  private surface(id: number): string {
    const { kind, pieces } = this.tokenizer.config;
    if (kind === "wordpiece") return pieces[id].startsWith(INSIDE_WORD) ? pieces[id].slice(INSIDE_WORD.length) : pieces[id];
    return kind === "byte_bpe" ? this.tokenizer.decode([id]).trim() : pieces[id].replace(/^▁/, "");
  }

  private wordStartsAfter(text: string): boolean {
    if (!text) return this.settings.starts_text;
    if (this.tokenizer.config.kind !== "wordpiece") return text.endsWith(" ");
    return isBlank([...text].at(-1)!) || BOUNDARY.test(text);
  }

  /** The ids of a text without the space before it, if the vocabulary has such a piece. */
  private withoutSpace(ids: number[]): number[] {
    if (!ids.length) return ids;
    const { pieces } = this.tokenizer.config;
    const piece = pieces[ids[0]].replace(/^▁/, "");
    if (!piece) return ids.slice(1);
    const id = pieces.indexOf(piece);
    return id < 0 ? ids : [id, ...ids.slice(1)];
  }
}
