/** What the options of generated text must be, with the ranges and sentences of jumok/decoding/config.py. */

import type { Decoding } from "./search";

/** What a value must be; empty for one that is. */
type Rule = (value: unknown) => string;

const COUNT = inRange("[0,inf)", true);
const FRACTION = inRange("(0,1]");

const OPTIONS: Readonly<Record<keyof Decoding, Rule>> = {
  beam: inRange("[1,1000]", true),
  early_stopping: choice(true, false, "never"),
  length_norm: choice("power", "gnmt"),
  length_penalty: inRange("[-10,10]"),
  max_extra: COUNT,
  max_length: inRange("[1,1048576]", true),
  max_ratio: inRange("[0,1e6]"),
  min_length: COUNT,
  min_p: inRange("[0,1)"),
  n_best: inRange("[1,10000]", true),
  no_repeat_ngram: COUNT,
  repetition_penalty: inRange("(0,inf)"),
  sample: choice(true, false),
  seed: (value) => (value === null || Number.isInteger(value) ? "" : "an integer"),
  stop: (value) => (Array.isArray(value) && value.every(isString) ? "" : "a list of strings"),
  temperature: inRange("[1e-6,inf)"),
  top_k: COUNT,
  top_p: FRACTION,
  typical_p: FRACTION,
};

/** The settings with changes; throws for an unknown option, a wrong value, and settings that contradict each other. */
export function changed(settings: Decoding, changes: Partial<Decoding>): Decoding {
  const decoding = { ...settings };
  const check = (name: string, must: string | false) => mustBe(`decoding.${name}`, must, decoding[name as keyof Decoding]);
  for (const [name, value] of Object.entries(changes)) {
    const known = Object.keys(OPTIONS);
    if (!known.includes(name)) throw new Error(`decoding.${name} is not known; known: ${known.join(", ")}`);
    if (value === undefined) continue;
    Object.assign(decoding, { [name]: value });
    check(name, OPTIONS[name as keyof Decoding](value));
  }
  const { beam, n_best, sample, max_length } = decoding;
  check("sample", sample && beam > 1 && `false with beam ${beam}`);
  check("n_best", !sample && n_best > beam && `at most beam ${beam}`);
  check("typical_p", !sample && decoding.typical_p < 1 && "1 without sampling");
  check("min_length", decoding.min_length > max_length && `at most max_length ${max_length}`);
  check("stop", decoding.stop.length > 0 && (beam > 1 || n_best > 1) && "empty with several hypotheses");
  return decoding;
}

/** Throws if there is something that a value must be. */
export function mustBe(name: string, must: string | false, value: unknown): void {
  if (must) throw new Error(`${name} must be ${must}, got ${shown(value)}`);
}

export function isString(value: unknown): value is string {
  return typeof value === "string";
}

/** A finite number of an interval: "[0,1)" has 0 and not 1. */
function inRange(interval: string, whole = false): Rule {
  const [low, high] = interval.slice(1, -1).split(",");
  const [isPositive, isClosed] = [interval[0] === "(", interval.endsWith("]")];
  const last = isClosed ? ` and at most ${high}` : high === "1" ? " and below 1" : "";
  return (value) => {
    if (!Number[whole ? "isInteger" : "isFinite"](value)) return whole ? "an integer" : "a finite number";
    const x = value as number;
    const isOutside = (isPositive ? x <= 0 : x < +low) || (isClosed ? x > +high : x >= +high); // "inf" is NaN
    return isOutside ? (isPositive ? "positive" : `at least ${low}`) + last : "";
  };
}

function choice(...choices: readonly unknown[]): Rule {
  return (value) => (choices.includes(value) ? "" : choices.map(shown).join(" or "));
}

/** The value in a message; a list or an object only by its kind. */
function shown(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (value instanceof Object) return "an object";
  return (isString(value) ? JSON.stringify(value) : String(value)).slice(0, 80);
}
