/** The fraction of the attention weight that a view draws, 0 … 1; null: not applicable. */

import { signal } from "@preact/signals";

export const drawnFraction = signal<number | null>(null);
