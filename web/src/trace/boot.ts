/** How the page was started. */

import type { Effects } from "./format";

/** The response of `/api/model`: the live model of the server. */
export interface LiveModel {
  readonly title: string;
  readonly task: string | null;
  readonly kind: string;
  readonly pairs: boolean;
  readonly writes: boolean;
  readonly traces: boolean;
  readonly max_length: number;
  readonly examples?: readonly string[]; // inputs to try; those of a pair are separated by TAB
  readonly decode?: Readonly<Record<string, unknown>> | null; // the decoding settings
  readonly checkpoints?: readonly string[]; // of the run, oldest first
  readonly in_page?: boolean; // computed by the page itself: without activation patching and PDF
}

/** The data of the page. */
export interface BootConfig {
  readonly mode: "embedded" | "file" | "live";
  readonly trace?: string | null;
  readonly model?: LiveModel | null;
  readonly effects?: Effects | null; // measured before the page was saved
}

/** The content of `<script id="boot">`. */
export function bootConfig(): BootConfig {
  const text = document.getElementById("boot")?.textContent;
  if (!text) throw new Error("the page has no boot data; open it with jumok view, or export it again");
  return JSON.parse(text) as BootConfig;
}
