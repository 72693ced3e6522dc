/** How much of the mass of the weights a view draws, 0 … 1; null: it draws no weights, or does not say. */

import { signal } from "@preact/signals";

export const drawnFraction = signal<number | null>(null);
