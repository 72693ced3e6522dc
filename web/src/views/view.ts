/** What a view is: what its tab says, when it has something to show, and what draws it. */

import type { FunctionComponent } from "preact";
import type { TraceInfo } from "../trace/format";
import type { Trace } from "../trace/trace";
import type { Message } from "../i18n/i18n";

export interface StageProps {
  readonly trace: Trace;
}

/** What is known of a view before it is drawn. */
export interface ViewInfo {
  readonly id: string; // in the URL
  readonly title: Message;
  /** One sentence: what the picture says and how to read it. */
  readonly description: Message;
  /** Whether this trace has what the view draws; if not, `why` tells what is missing. */
  readonly supports: (info: TraceInfo) => boolean;
  readonly missing: Message;
}

/** What draws a view. */
export interface ViewRenderer {
  readonly Stage: FunctionComponent<StageProps>;
  /** The locked state as a picture of its own, for SVG and PNG export. */
  readonly svg?: (trace: Trace) => Promise<string>;
  /** The numbers of the picture, for CSV export: a header line, then rows. */
  readonly table?: (trace: Trace) => Promise<readonly (readonly (string | number)[])[]>;
}

export type View = ViewInfo & ViewRenderer;
