/** Refuses a run of an address that the model in a saved page cannot make, as the server does. */

import { type Message, t } from "../i18n/i18n";
import type { Decoding } from "../model/search";
import type { Run } from "../state/session";
import type { TraceInfo } from "../trace/format";

/** Throws an Error for a checkpoint, a head or a setting that the page does not have. */
export function checkRun({ checkpoint, mute, decode }: Run, { blocks }: TraceInfo, settings: Decoding | null): void {
  if (checkpoint !== null) refuse({ ko: `이 페이지에는 최종 가중치만 있습니다. cp=${checkpoint}를 지우십시오.`, en: `This page has the final weights only; leave out cp=${checkpoint}.` });
  for (const each of mute) {
    const [name, layer, head] = each.split(".");
    const found = blocks.find((block) => block.name === name);
    if (!found || Number(layer) >= found.layers || Number(head) >= found.heads) refuse({ ko: `끌 헤드 ${each}이(가) 이 모델에 없습니다.`, en: `This model has no head ${each} to mute.` });
  }
  if (decode === null || Object.keys(decode).length === 0) return;
  if (settings === null) refuse({ ko: "이 모델은 텍스트를 생성하지 않습니다. d=를 지우십시오.", en: "This model generates no text; leave out d=." });
  const changed = { ...settings, ...decode };
  for (const [name, value] of Object.entries(decode)) {
    const range = Object.hasOwn(RANGES, name) ? RANGES[name as keyof typeof RANGES] : null;
    if (!Object.hasOwn(settings, name)) refuse({ ko: `생성 설정 ${name}이(가) 이 페이지에 없습니다.`, en: `This page has no decoding setting ${name}.` });
    if (range ? typeof value !== "number" || !range.accepts(value) : name !== "early_stopping" && typeof value !== typeof settings[name as keyof Decoding])
      refuse({ ko: `생성 설정 ${name}=${value}은(는) ${range?.ko ?? "쓸 수 없습니다"}.`, en: `The decoding setting ${name}=${value} ${range?.en ?? "has the wrong type"}.` });
  }
  if (changed.sample && changed.beam > 1) refuse({ ko: "샘플링의 빔 크기는 1이어야 합니다.", en: "Sampling needs a beam of 1." });
  if (!changed.sample && changed.n_best > changed.beam) refuse({ ko: "n_best는 빔 크기 이하여야 합니다.", en: "n_best must be at most the beam." });
  if (changed.min_length > changed.max_length) refuse({ ko: "min_length는 max_length 이하여야 합니다.", en: "min_length must be at most max_length." });
}

function refuse(message: Message): never {
  throw new Error(t(message));
}

interface Range extends Message {
  readonly accepts: (value: number) => boolean;
}

function integer(from: number, to = 1e6): Range {
  return { accepts: (x) => Number.isInteger(x) && x >= from && x <= to, ko: `${from} 이상 ${to} 이하의 정수여야 합니다`, en: `must be an integer from ${from} to ${to}` };
}

const PART: Range = { accepts: (x) => x > 0 && x <= 1, ko: "0보다 크고 1 이하여야 합니다", en: "must be more than 0 and at most 1" };
const POSITIVE: Range = { accepts: (x) => x > 0, ko: "0보다 커야 합니다", en: "must be more than 0" };
const NOT_NEGATIVE: Range = { accepts: (x) => x >= 0, ko: "0 이상이어야 합니다", en: "must be at least 0" };

/** As `DecodingConfig` of jumok/decoding/config.py. */
const RANGES: Readonly<Partial<Record<keyof Decoding, Range>>> = {
  beam: integer(1, 1000),
  n_best: integer(1, 10_000),
  max_length: integer(1),
  min_length: integer(0),
  max_extra: integer(0),
  max_ratio: NOT_NEGATIVE,
  length_penalty: { accepts: (x) => Math.abs(x) <= 10, ko: "-10 이상 10 이하여야 합니다", en: "must be between -10 and 10" },
  seed: integer(0, 2 ** 53 - 1),
  temperature: { accepts: (x) => x >= 1e-6, ko: "0.000001 이상이어야 합니다", en: "must be at least 0.000001" },
  top_k: integer(0),
  top_p: PART,
  typical_p: PART,
  min_p: { accepts: (x) => x >= 0 && x < 1, ko: "0 이상 1 미만이어야 합니다", en: "must be at least 0 and less than 1" },
  repetition_penalty: POSITIVE,
  no_repeat_ngram: integer(0),
};
