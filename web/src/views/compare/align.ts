/** Which tokens of two texts correspond: the longest common subsequence. */

/** For each entry of b, the index of the same entry in a, in order; -1: it is in b only. */
export function alignTexts(a: readonly string[], b: readonly string[]): readonly number[] {
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width); // of the rests after i and j
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i * width + j] =
        a[i] === b[j]
          ? longest[(i + 1) * width + j + 1] + 1
          : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
  const found: number[] = [];
  for (let i = 0, j = 0; j < b.length; )
    if (i < a.length && a[i] === b[j]) {
      found.push(i++);
      j++;
    } else if (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
    else {
      found.push(-1);
      j++;
    }
  return found;
}

/** As `alignTexts`, but tokens at the same place between two common ones correspond too: an edited word is compared with the former one. */
export function alignTokens(a: readonly string[], b: readonly string[]): readonly number[] {
  const found = [...alignTexts(a, b)];
  for (let from = 0, to; from < found.length; from = to + 1) {
    for (to = from; to < found.length && found[to] < 0; to++);
    const before = from === 0 ? -1 : found[from - 1];
    const after = to === found.length ? a.length : found[to];
    if (to > from && after - before - 1 === to - from) for (let j = from; j < to; j++) found[j] = before + 1 + j - from;
  }
  return found;
}
