/** The merges of byte-pair encoding in their order. */

/** Two neighbours that may become one piece. */
export interface Pair {
  readonly left: number;
  readonly right: number;
  readonly score: number;
  readonly merged: number; // what the neighbours become, by which a pair that changed since is left out
}

/** A binary heap of pairs, the next one to merge at the top. */
export class Pairs {
  private readonly heap: Pair[] = [];

  push(pair: Pair): void {
    let i = this.heap.push(pair) - 1;
    for (; i > 0 && isBefore(pair, this.heap[(i - 1) >> 1]); i = (i - 1) >> 1) this.heap[i] = this.heap[(i - 1) >> 1];
    this.heap[i] = pair;
  }

  pop(): Pair | undefined {
    const { heap } = this;
    const [top, last] = [heap[0], heap.pop()];
    if (!heap.length || !last) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1], heap[child])) child++;
      if (!isBefore(heap[child], last)) break;
      heap[i] = heap[child];
      i = child;
    }
    heap[i] = last;
    return top;
  }
}

function isBefore(a: Pair, b: Pair): boolean {
  return a.score > b.score || (a.score === b.score && a.left < b.left);
}
