/** The definition of a view: its tab, when it is available, and its renderer. */

import type { FunctionComponent } from "preact";
import type { TraceInfo } from "../trace/format";
import type { Trace } from "../trace/trace";
import type { Message } from "../i18n/i18n";

export interface StageProps {
  readonly trace: Trace;
}

/** The description of a view, available before its script is loaded. */
export interface ViewInfo {
  readonly id: string; // in the URL
  readonly title: Message;
  /** One sentence: what the picture shows and how to read it. */
  readonly description: Message;
  /** Whether this trace has the data of the view; if not, `missing` says which data is missing. */
  readonly supports: (info: TraceInfo) => boolean;
  readonly missing: Message;
  /** Whether the tab is left out where the trace has no data for it. */
  readonly optional?: boolean;
}

/** The renderer of a view. */
export interface ViewRenderer {
  readonly Stage: FunctionComponent<StageProps>;
  /** The locked state as a complete picture, for SVG and PNG export. */
  readonly svg?: (trace: Trace) => Promise<string>;
  /** The numbers of the picture, for CSV export: a header row, then data rows. */
  readonly table?: (trace: Trace) => Promise<readonly (readonly (string | number)[])[]>;
}

export type View = ViewInfo & ViewRenderer;
