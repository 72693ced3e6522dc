/** The settings of the matrix: how far it is zoomed, where to, and what the darkest colour means. */

import { setting } from "../../state/settings";

export const RANGES = { one: { ko: "0 … 1", en: "0 … 1" }, most: { ko: "0 … 가장 큰 값", en: "0 … the largest" } };

export const zoom = setting("matrix", "zoom", 1);
export const left = setting("matrix", "x", 0); // the first column that is seen
export const top = setting("matrix", "y", 0);
export const range = setting<keyof typeof RANGES>("matrix", "range", "one");
export const asTable = setting("matrix", "table", false);
