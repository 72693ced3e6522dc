import { describe, expect, test } from "vitest";
import { readFileSync } from "node:fs";
import { type DrawingColours, element, escapeXml, label, markup, matrixCells, PAGE_COLOURS, PRINT_COLOURS, svgDocument, textWidth } from "./svg";

const HOSTILE = [
  "</text></svg><script>alert(1)</script>",
  `"'><svg onload=alert(1)>`,
  "]]><!--",
  "&lt;",
  "\u0000\u0001\u001b[31m",
  "\ud800",
  "\u202eabc",
  "\ufffe",
  "\u2028",
];

function parse(svg: string): Document {
  return new DOMParser().parseFromString(svg, "image/svg+xml");
}

describe("svg", () => {
  test("pictures have the colours of the light theme", () => {
    const theme = Object.fromEntries(Array.from((/:root \{([^}]*)\}/.exec(readFileSync("src/shell/theme.css", "utf8")) ?? [])[1].matchAll(/(--[\w-]+): ([^;]*);/g), ([, name, colour]) => [`var(${name})`, colour]));
    for (const [role, variable] of Object.entries(PAGE_COLOURS)) expect(PRINT_COLOURS[role as keyof DrawingColours]).toBe(theme[variable]);
  });

  test("text and attributes are escaped, elements are not", () => {
    expect(element("g", { id: `a"<` }, "1 < 2", element("path", { d: "M0 0" }), null, [3]).source).toBe(
      `<g id="a&quot;&lt;">1 &lt; 2<path d="M0 0"/>3</g>`,
    );
  });

  test("missing attributes are omitted, numbers are rounded", () => {
    expect(element("a", { b: null, c: undefined, d: false, e: 1 / 3, f: 0, g: Number.NaN }).source).toBe(
      `<a e="0.33" f="0" g="0"/>`,
    );
  });

  test("characters that XML forbids are replaced, all others are kept", () => {
    expect(escapeXml("\u0000a\ud800b\ufffe")).toBe("\ufffda\ufffdb\ufffd");
    expect(escapeXml("겨울 𝒳 😀 \t")).toBe("겨울 𝒳 😀 \t");
  });

  test.each(HOSTILE)("hostile text %j stays text", (text) => {
    const svg = svgDocument(10, 10, text, label(1, 2, text), element("g", { "data-x": text }));
    const document = parse(svg);
    expect(document.querySelector("parsererror, script, [onload]")).toBeNull();
    expect(document.querySelectorAll("text")).toHaveLength(1);
    expect(svg.match(/<script|onload=(?!alert)|href/g)).toBeNull();
  });

  test("cells of one colour share a path, neighbours are merged", () => {
    const matrix = { rows: 2, columns: 3, data: Float32Array.of(0, 0, 1, 1, 0, 0) };
    const drawn = matrixCells(matrix, 5, 6, 2, (value) => (value ? "#000" : "#fff")).source;
    expect(drawn).toContain(`<path fill="#fff" d="M0 0h2v1h-2zM1 1h2v1h-2z"/>`);
    expect(drawn).toContain(`<path fill="#000" d="M2 0h1v1h-1zM0 1h1v1h-1z"/>`);
  });

  test("JSX becomes the same markup, without class-only and event attributes", () => {
    const texts = ["<b>", "겨울"];
    const drawing = (
      <g class="a" onClick={() => 0}>
        {texts.map((text) => (
          <text key={text} x={1 / 3}>
            {text}
          </text>
        ))}
        <>{false}</>
        {null}
      </g>
    );
    expect(markup(drawing).source).toBe(`<g class="a"><text x="0.33">&lt;b&gt;</text><text x="0.33">겨울</text></g>`);
  });

  test("Hangul is as wide as it is high", () => {
    expect(textWidth("가나", 10)).toBe(20);
    expect(textWidth("ab", 10)).toBeCloseTo(11.6);
    expect(textWidth("AB", 10)).toBeCloseTo(15.2); // capitals are wider
  });
});
