/** The views in the order of their tabs, and the bundle of each. */

import { alignment, calculation, circuit, compare, explanation, flow, generation, heads, masks, neuron, positions } from "./viewInfo";
import { lines } from "./lines/lines";
import { matrix } from "./matrix/matrix";
import { type Bundle, registerViews } from "./bundles";
import * as state from "../state/state";
import type { Message } from "../i18n/i18n";
import type { ViewInfo } from "./view";
// The styles of the bundles: app.css is one file, so the bundles contain no styles.
import "./alignment/alignment.css";
import "./calculation/calculation.css";
import "./choice.css";
import "./circuit/circuit.css";
import "./compare/compare.css";
import "./explanation/explanation.css";
import "./flow/flow.css";
import "./generation/generation.css";
import "./map/map.css";
import "./masks/masks.css";
import "./neuron/neuron.css";
import "./positions/positions.css";

/** The questions that the views answer; a tab belongs to one. */
export type Group = "read" | "compute" | "generate" | "explain" | "compare";

export const GROUPS: Readonly<Record<Group, Message>> = {
  read: { ko: "읽기", en: "read" },
  compute: { ko: "계산", en: "compute" },
  generate: { ko: "생성", en: "generate" },
  explain: { ko: "설명", en: "explain" },
  compare: { ko: "비교", en: "compare" },
};

export interface Tab extends ViewInfo {
  readonly bundle: Bundle | null; // null: part of app.js
  readonly group: Group;
}

export const views: readonly Tab[] = [
  { ...flow, bundle: "flow", group: "read" },
  { ...alignment, bundle: "reading", group: "read" },
  { ...lines, bundle: null, group: "read" },
  { ...matrix, bundle: null, group: "read" },
  { ...calculation, bundle: "lesson", group: "compute" },
  { ...neuron, bundle: "neuron", group: "compute" },
  { ...positions, bundle: "lesson", group: "compute" },
  { ...masks, bundle: "lesson", group: "compute" },
  { ...generation, bundle: "reading", group: "generate" },
  { ...explanation, bundle: "reading", group: "explain" },
  { ...circuit, bundle: "reading", group: "explain" },
  { ...heads, bundle: "bench", group: "compare" },
  { ...compare, bundle: "bench", group: "compare" },
];

/** The current view; lines, if the address has none. */
export function chosenView(): Tab {
  return viewOf(state.view.value) ?? (viewOf("lines") as Tab);
}

export function viewOf(id: string): Tab | undefined {
  return views.find((each) => each.id === id);
}

registerViews({ lines, matrix });
