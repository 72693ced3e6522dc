/** SVG as text, safe by construction: everything except `Markup` is escaped. */

import { type ComponentChild, Fragment, type VNode } from "preact";
import type { Matrix } from "../trace/matrix";

/** Font families of exported pictures; fonts with Hangul come first. */
export const FONTS =
  "'Jumok Hangul','Pretendard','Apple SD Gothic Neo','Malgun Gothic','Noto Sans KR','NanumGothic',sans-serif";

/** The colours of a drawing by role. */
export interface DrawingColours {
  readonly ground: string;
  readonly ink: string;
  readonly faint: string;
  readonly line: string;
  readonly edge: string; // bars of sums
  readonly hidden: string; // hatching of masked cells
  readonly accent: string;
  readonly focus: string;
  readonly bad: string;
  readonly mono: string; // font families of numbers
  // the boxes of figure 1 of the paper
  readonly raised: string;
  readonly attention: string;
  readonly norm: string;
  readonly forward: string;
  readonly embedding: string;
  readonly output: string;
}

/** Exported pictures: the light theme of shell/theme.css, whatever the theme of the page. */
export const PRINT_COLOURS: DrawingColours = {
  ground: "#fbfbf9",
  ink: "#17191d",
  faint: "#565b64",
  line: "#d9d9d3",
  edge: "#85888f",
  hidden: "#b4b4ac",
  accent: "#1d55a6",
  focus: "#c2410c",
  bad: "#b3261e",
  mono: 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", "Jumok Hangul", monospace',
  raised: "#f2f2ee",
  attention: "#fbe3c0",
  norm: "#eef0bd",
  forward: "#c8e4f2",
  embedding: "#f8dcdd",
  output: "#cfe6cf",
};

/** The page: CSS variables of the theme. */
export const PAGE_COLOURS: DrawingColours = {
  ground: "var(--paper)",
  ink: "var(--ink)",
  faint: "var(--soft)",
  line: "var(--line)",
  edge: "var(--edge)",
  hidden: "var(--hidden)",
  accent: "var(--accent)",
  focus: "var(--focus)",
  bad: "var(--bad)",
  mono: "var(--mono)",
  raised: "var(--raised)",
  attention: "var(--box-attention)",
  norm: "var(--box-norm)",
  forward: "var(--box-forward)",
  embedding: "var(--box-embedding)",
  output: "var(--box-output)",
};

/** Text that is already SVG. */
export class Markup {
  constructor(readonly source: string) {}
}

export type Child = Markup | string | number | null | undefined | false | readonly Child[];
export type Attributes = Readonly<Record<string, string | number | null | undefined | false>>;

const XML_ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

/** Text for XML; characters that XML forbids become U+FFFD. */
export function escapeXml(text: string): string {
  return text
    .replace(/[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu, "\u{FFFD}")
    .replace(/[&<>"']/g, (character) => XML_ENTITIES[character]);
}

/** `element("rect", { x: 1, width: 2 })`; attributes that are null, undefined or false are omitted. */
export function element(name: string, attributes: Attributes = {}, ...children: readonly Child[]): Markup {
  const head = Object.entries(attributes)
    .filter(([, value]) => value !== null && value !== undefined && value !== false)
    .map(([key, value]) => ` ${key}="${escapeXml(typeof value === "number" ? shortNumber(value) : String(value))}"`)
    .join("");
  const inside = source(children);
  return new Markup(inside ? `<${name}${head}>${inside}</${name}>` : `<${name}${head}/>`);
}

function source(child: Child): string {
  if (child === null || child === undefined || child === false) return "";
  if (child instanceof Markup) return child.source;
  if (typeof child === "object") return child.map(source).join("");
  return escapeXml(String(child));
}

/** Converts JSX of plain elements (no components) to markup, so that one drawing serves the page and the file. */
export function markup(drawing: ComponentChild): Markup {
  return new Markup(source(children(drawing)));
}

function children(child: ComponentChild): Child {
  if (Array.isArray(child)) return child.map(children);
  if (typeof child === "bigint" || child === true) return null;
  if (typeof child !== "object" || child === null) return child as Child;
  const { type, props } = child as VNode<Readonly<Record<string, unknown>> & { readonly children?: ComponentChild }>;
  const inside = children(props.children);
  if (type === Fragment) return inside;
  const attributes = Object.entries(props).filter(([name, value]) => name !== "children" && typeof value !== "function");
  return element(type as string, Object.fromEntries(attributes) as Attributes, inside);
}

/** A number with at most two decimals. */
export function shortNumber(value: number): string {
  return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : "0";
}

export interface LabelStyle {
  readonly size?: number;
  readonly anchor?: "start" | "middle" | "end";
  readonly fill?: string;
  readonly bold?: boolean;
  readonly italic?: boolean;
  /** Degrees, clockwise around (x, y). */
  readonly turn?: number;
}

/** A text whose baseline starts, is centred or ends at (x, y). */
export function label(x: number, y: number, text: string, style: LabelStyle = {}): Markup {
  const { size = 12, anchor, fill = PRINT_COLOURS.ink, bold, italic, turn } = style;
  return element(
    "text",
    {
      x,
      y,
      fill,
      "font-size": size,
      "text-anchor": anchor === "start" ? null : anchor,
      "font-weight": bold && 700,
      "font-style": italic && "italic",
      transform: turn ? `rotate(${shortNumber(turn)} ${shortNumber(x)} ${shortNumber(y)})` : null,
    },
    text,
  );
}

export function line(x1: number, y1: number, x2: number, y2: number, stroke: string = PRINT_COLOURS.line, width = 1): Markup {
  return element("line", { x1, y1, x2, y2, stroke, "stroke-width": width });
}

export function rect(x: number, y: number, width: number, height: number, fill: string, more: Attributes = {}): Markup {
  return element("rect", { x, y, width, height, fill, ...more });
}

/** A matrix as squares of `size`; cells of one colour share one path, which keeps the file small. */
export function matrixCells(matrix: Matrix, x: number, y: number, size: number, colour: (value: number) => string): Markup {
  return element(
    "g",
    { transform: `translate(${shortNumber(x)} ${shortNumber(y)}) scale(${shortNumber(size)})`, "shape-rendering": "crispEdges" },
    cellPaths(matrix, colour).map(([fill, d]) => element("path", { fill, d })),
  );
}

/** One path of unit squares per colour; neighbouring cells in a row are merged. */
export function cellPaths(matrix: Matrix, colour: (value: number) => string): readonly (readonly [fill: string, d: string])[] {
  const found = new Map<string, string[]>();
  for (let row = 0; row < matrix.rows; row++)
    for (let from = 0, to; from < matrix.columns; from = to) {
      const fill = colour(matrix.data[row * matrix.columns + from]);
      for (to = from + 1; to < matrix.columns; to++)
        if (colour(matrix.data[row * matrix.columns + to]) !== fill) break;
      let path = found.get(fill);
      if (!path) found.set(fill, (path = []));
      path.push(`M${from} ${row}h${to - from}v1h${from - to}z`);
    }
  return [...found].map(([fill, path]) => [fill, path.join("")]);
}

const HATCHING_GAP = 6;

/** The pattern of `hatchedCells`, once in a document. */
export const HATCHING = element(
  "pattern",
  { id: "hidden", width: HATCHING_GAP, height: HATCHING_GAP, patternUnits: "userSpaceOnUse" },
  element("path", { d: `M0 0L${HATCHING_GAP} ${HATCHING_GAP}`, stroke: PRINT_COLOURS.hidden }),
);

/** The masked cells of a matrix, hatched; neighbours in a row are merged. */
export function hatchedCells({ rows, columns }: Pick<Matrix, "rows" | "columns">, masked: (index: number) => boolean, left: number, top: number, size: number): Markup {
  const path: string[] = [];
  for (let row = 0; row < rows; row++)
    for (let from = 0, to; from < columns; from = to) {
      for (to = from + 1; to < columns; to++) if (masked(row * columns + to) !== masked(row * columns + from)) break;
      if (!masked(row * columns + from)) continue;
      const width = shortNumber((to - from) * size);
      path.push(`M${shortNumber(left + from * size)} ${shortNumber(top + row * size)}h${width}v${shortNumber(size)}h-${width}z`);
    }
  return element("path", { d: path.join(""), fill: "url(#hidden)" });
}

/** The approximate width of a text in pixels; a Hangul syllable is as wide as it is high. */
export function textWidth(text: string, size = 12): number {
  let width = 0;
  for (const character of text) width += character >= "\u{1100}" ? 1 : character >= "A" && character <= "Z" ? 0.76 : 0.58;
  return width * size;
}

/** Truncates a text to a width. */
export function fitText(text: string, width: number): string {
  const letters = [...text];
  while (letters.length > 1 && textWidth(letters.join(""), 13) > width) letters.pop();
  return letters.length < [...text].length ? `${letters.join("")}…` : text;
}

/** A complete SVG document, as `svg()` of a view returns it. */
export function svgDocument(width: number, height: number, title: string, ...children: readonly Child[]): string {
  return element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      width: Math.ceil(width),
      height: Math.ceil(height),
      viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
      "font-family": FONTS,
      role: "img",
    },
    element("title", {}, title),
    rect(0, 0, Math.ceil(width), Math.ceil(height), PRINT_COLOURS.ground),
    children,
  ).source;
}
