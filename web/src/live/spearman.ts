/** Spearman's correlation, as jumok/evaluation/regression.py. */

/** 0 where one list is constant. */
export function spearman(a: readonly number[], b: readonly number[]): number {
  const [x, y] = [ranks(a), ranks(b)];
  const mean = (x.length + 1) / 2;
  const product = (u: readonly number[], v: readonly number[]) => u.reduce((sum, value, i) => sum + (value - mean) * (v[i] - mean), 0);
  const scale = Math.sqrt(product(x, x) * product(y, y));
  return scale ? product(x, y) / scale : 0;
}

/** The rank of each number, from 1; equal numbers have the mean of theirs. */
function ranks(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((i, j) => values[i] - values[j]);
  const found = new Array<number>(values.length);
  for (let from = 0; from < order.length; ) {
    let end = from + 1;
    while (end < order.length && values[order[end]] === values[order[from]]) end++;
    for (let i = from; i < end; i++) found[order[i]] = (from + end + 1) / 2;
    from = end;
  }
  return found;
}
