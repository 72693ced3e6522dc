/** The views in the order of their tabs, and the script that each comes in. */

import { alignment, calculation, explanation, generation, masks, neuron, positions } from "./viewInfo";
import { lines } from "./lines/lines";
import { matrix } from "./matrix/matrix";
import { add, type Part } from "./bundles";
import "./styles";
import type { About } from "./view";

export interface Tab extends About {
  readonly part: Part | null; // null: app.js itself
}

export const views: readonly Tab[] = [
  { ...lines, part: null },
  { ...matrix, part: null },
  { ...neuron, part: "neuron" },
  { ...calculation, part: "lesson" },
  { ...alignment, part: "story" },
  { ...generation, part: "story" },
  { ...positions, part: "lesson" },
  { ...masks, part: "lesson" },
  { ...explanation, part: "story" },
];

add({ lines, matrix });
