/** The views in the order of their tabs, and the bundle of each. */

import { alignment, calculation, compare, explanation, flow, generation, map, masks, neuron, positions } from "./viewInfo";
import { lines } from "./lines/lines";
import { matrix } from "./matrix/matrix";
import { type Bundle, registerViews } from "./bundles";
import type { ViewInfo } from "./view";
// The styles of the bundles: app.css is one file, so the bundles contain no styles.
import "./alignment/alignment.css";
import "./calculation/calculation.css";
import "./choice.css";
import "./compare/compare.css";
import "./explanation/explanation.css";
import "./flow/flow.css";
import "./generation/generation.css";
import "./map/map.css";
import "./masks/masks.css";
import "./neuron/neuron.css";
import "./positions/positions.css";

export interface Tab extends ViewInfo {
  readonly bundle: Bundle | null; // null: part of app.js
}

export const views: readonly Tab[] = [
  { ...flow, bundle: "flow" },
  { ...lines, bundle: null },
  { ...matrix, bundle: null },
  { ...neuron, bundle: "neuron" },
  { ...calculation, bundle: "lesson" },
  { ...alignment, bundle: "reading" },
  { ...generation, bundle: "reading" },
  { ...positions, bundle: "lesson" },
  { ...masks, bundle: "lesson" },
  { ...explanation, bundle: "reading" },
  { ...compare, bundle: "bench" },
  { ...map, bundle: "bench" },
];

registerViews({ lines, matrix });
