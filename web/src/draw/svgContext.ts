/** A drawing context that writes SVG, so that a drawing on a canvas is also its exported picture. */

import { type Child, element, FONTS, Markup, shortNumber, textWidth } from "./svg";

/** The part of a canvas context that drawings use here. */
export type Context = Pick<
  CanvasRenderingContext2D,
  "beginPath" | "clip" | "fillRect" | "fillStyle" | "fillText" | "font" | "globalAlpha" | "lineTo" | "lineWidth" | "measureText" | "moveTo" | "rect" | "restore" | "rotate" | "save" | "stroke" | "strokeRect" | "strokeStyle" | "textAlign" | "textBaseline" | "translate"
>;

interface Style {
  fillStyle: CanvasRenderingContext2D["fillStyle"];
  strokeStyle: CanvasRenderingContext2D["strokeStyle"];
  globalAlpha: number;
  lineWidth: number;
  font: string;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
}

let clips = 0; // ids of clip paths are unique within the page

export class SvgContext implements Context, Style {
  fillStyle: Style["fillStyle"] = "#000";
  strokeStyle: Style["strokeStyle"] = "#000";
  globalAlpha = 1;
  lineWidth = 1;
  font = `12px ${FONTS}`;
  textAlign: CanvasTextAlign = "left";
  textBaseline: CanvasTextBaseline = "alphabetic";
  private readonly ruler = document.createElement("canvas").getContext("2d"); // measures texts
  private readonly parts: string[] = [];
  private readonly saved: { readonly style: Style; readonly groups: number }[] = [];
  private groups = 0; // open <g> elements
  private path = "";

  /** What was drawn. */
  markup(): Markup {
    return new Markup(this.parts.join(""));
  }

  add(child: Markup): void {
    this.parts.push(child.source);
  }

  save(): void {
    const { fillStyle, strokeStyle, globalAlpha, lineWidth, font, textAlign, textBaseline } = this;
    this.saved.push({ style: { fillStyle, strokeStyle, globalAlpha, lineWidth, font, textAlign, textBaseline }, groups: this.groups });
  }

  restore(): void {
    const last = this.saved.pop();
    if (!last) return;
    Object.assign(this, last.style);
    for (; this.groups > last.groups; this.groups--) this.parts.push("</g>");
  }

  beginPath(): void {
    this.path = "";
  }

  moveTo(x: number, y: number): void {
    this.path += `M${shortNumber(x)} ${shortNumber(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.path += `L${shortNumber(x)} ${shortNumber(y)}`;
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.path += `M${shortNumber(x)} ${shortNumber(y)}h${shortNumber(width)}v${shortNumber(height)}h${shortNumber(-width)}z`;
  }

  clip(): void {
    const id = `clip${clips++}`;
    this.add(element("clipPath", { id }, element("path", { d: this.path })));
    this.open(`clip-path="url(#${id})"`);
  }

  translate(x: number, y: number): void {
    this.open(`transform="translate(${shortNumber(x)} ${shortNumber(y)})"`);
  }

  rotate(angle: number): void {
    this.open(`transform="rotate(${shortNumber((180 * angle) / Math.PI)})"`);
  }

  stroke(): void {
    this.draw("path", { d: this.path, fill: "none", stroke: String(this.strokeStyle), "stroke-width": this.lineWidth });
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.draw("rect", { x, y, width, height, fill: String(this.fillStyle) });
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    this.draw("rect", { x, y, width, height, fill: "none", stroke: String(this.strokeStyle), "stroke-width": this.lineWidth });
  }

  measureText(text: string): TextMetrics {
    if (!this.ruler) return { width: textWidth(text, Number.parseFloat(/[\d.]+px/.exec(this.font)?.[0] ?? "12")) } as TextMetrics;
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  fillText(text: string, x: number, y: number): void {
    const [, italic, bold, size, family] = /^(italic )?(bold )?([\d.]+)px (.*)$/.exec(this.font) ?? [];
    this.draw(
      "text",
      {
        x,
        y: y + (this.textBaseline === "middle" ? this.middle() : 0),
        fill: String(this.fillStyle),
        "font-size": size,
        "font-family": family !== FONTS && family,
        "font-style": italic && "italic",
        "font-weight": bold && 700,
        "text-anchor": this.textAlign === "right" ? "end" : this.textAlign === "center" && "middle",
      },
      text,
    );
  }

  /** From the middle of the letters to their baseline: not all programs know dominant-baseline. */
  private middle(): number {
    const g = this.ruler;
    if (!g) return 4;
    g.font = this.font;
    const above = (baseline: CanvasTextBaseline) => {
      g.textBaseline = baseline;
      return g.measureText("x").actualBoundingBoxAscent;
    };
    return above("alphabetic") - above("middle");
  }

  private open(attributes: string): void {
    this.parts.push(`<g ${attributes}>`);
    this.groups++;
  }

  private draw(name: string, attributes: Readonly<Record<string, string | number | false | undefined>>, child?: Child): void {
    this.add(element(name, { ...attributes, opacity: this.globalAlpha < 1 && this.globalAlpha }, child));
  }
}
