/** File names of letters, digits, - and _ only, whatever the model or the text is called. */

const MAX_LENGTH = 60;
const WINDOWS_DEVICES = /^(con|prn|aux|nul|com\d|lpt\d)$/i; // reserved by Windows

/** `fileName(["nsmc", "lines", "encoder"], "svg")` is "nsmc-lines-encoder.svg". */
export function fileName(words: readonly string[], extension: string): string {
  const stem = words
    .map((word) => word.normalize("NFC").replace(/[^0-9A-Za-z가-힣_]+/g, "-").replace(/^-+|-+$/g, ""))
    .filter(Boolean)
    .join("-")
    .slice(0, MAX_LENGTH);
  return `${!stem || WINDOWS_DEVICES.test(stem) ? "jumok" : stem}.${extension}`;
}
