import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { svgDocument } from "../draw/svg";
import type { TraceInfo } from "../trace/format";
import { csv } from "./csv";
import { fileName } from "./fileName";
import { bootConfig } from "../trace/source";
import { pageText, scriptJson, withEffects } from "./page";
import { embedFont } from "./png";
import { pythonSnippet, pythonString } from "./python";

describe("CSV", () => {
  test("a byte order mark, commas, CRLF, numbers as they are", () => {
    expect(csv([["질의", "weight"], ["겨울", -0.5]])).toBe("\ufeff질의,weight\r\n겨울,-0.5\r\n");
  });

  test.each(["=cmd|'/C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])("%j is not a formula", (text) => {
    expect(csv([[text]]).replace(/^\ufeff"?/, "")[0]).toBe("'");
  });

  test("every table survives a round trip", () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.string(), { minLength: 2, maxLength: 3 }), { minLength: 1, maxLength: 4 }), (rows) => {
        const expected = rows.map((row) => row.map((text) => (/^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text)));
        expect(parse(csv(rows))).toEqual(expected);
      }),
    );
  });
});

/** A strict RFC 4180 parser. */
function parse(text: string): string[][] {
  const rows: string[][] = [[]];
  const pattern = /\ufeff?(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/y;
  for (let found = pattern.exec(text); found; found = pattern.exec(text)) {
    rows[rows.length - 1].push(found[1]?.replaceAll('""', '"') ?? found[2]);
    if (found[3] !== ",") rows.push([]);
  }
  return rows.slice(0, -1);
}

describe("file names", () => {
  test("words are joined, other characters are removed", () => {
    expect(fileName(["nsmc", "lines", "encoder.0"], "svg")).toBe("nsmc-lines-encoder-0.svg");
    expect(fileName(["../../etc/passwd"], "csv")).toBe("etc-passwd.csv");
    expect(fileName(["\u1112\u1161\u11ab 영화"], "csv")).toBe("한-영화.csv");
    expect(fileName(["CON"], "png")).toBe("jumok.png");
    expect(fileName(["", "\u202e", "😀"], "png")).toBe("jumok.png");
  });

  test("only allowed characters, for any input", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" }), { maxLength: 3 }), (words) => {
        expect(fileName(words, "csv")).toMatch(/^[0-9A-Za-z가-힣_-]{1,60}\.csv$/);
      }),
    );
  });
});

describe("Python code", () => {
  const info = {
    title: "nsmc",
    model: { kind: "encoder" },
    sides: { source: [{ text: '"재미"\n\u202e' }] },
    muted: [["encoder", 0, 3]],
    decoding: null,
  } as unknown as TraceInfo;

  test("traces the text and draws the head", () => {
    const figure = { kind: "attention", options: { block: "encoder", layer: 1, head: 2, sequence: 1, unit: "word" } };
    expect(pythonSnippet({ ...info, sides: { source: [...(info.sides.source ?? []), ...(info.sides.source ?? [])] } }, 1, figure)).toBe(
      [
        "import jumok",
        "",
        'model = jumok.load("runs/nsmc")  # where the model lies',
        'trace = jumok.trace(model, "\\"재미\\"\\n\\u202e", mute=[("encoder", 0, 3)])',
        'figure = trace.figure("attention", block="encoder", layer=1, head=2, unit="word", width=3.3)',
        'figure.savefig("nsmc-attention.pdf")',
        "",
      ].join("\n"),
    );
  });

  test("a view without a figure shows the page; long calls have one line per argument", () => {
    const long = { ...info, muted: [], sides: { source: [{ text: "가".repeat(90) }] } } as unknown as TraceInfo;
    expect(pythonSnippet(long, 0, null)).toContain(`trace = jumok.trace(\n    model,\n    "${"가".repeat(90)}",\n)\ntrace.show()\n`);
  });

  test("a given target is given again, a generated one is generated again", () => {
    const writes = { ...info, model: { kind: "encoder_decoder" }, sides: { ...info.sides, target: [{ text: "a" }] } } as unknown as TraceInfo;
    expect(pythonSnippet(writes, 0, null)).toContain(', target="a", mute');
    const wrote = { ...writes, decoding: { method: "beam", settings: { beam: 4, early: true } } } as unknown as TraceInfo;
    expect(pythonSnippet(wrote, 0, null)).toContain('decode={"beam": 4, "early": True}');
  });

  test("a language model gets its prompt, not the generated text", () => {
    const target = [{ text: "옛날 옛적에", spans: [[0, 0], [0, 2], [3, 6]] }];
    const wrote = { ...info, model: { kind: "decoder" }, sides: { target }, decoding: { method: "greedy", prompt: 2, settings: {} } };
    expect(pythonSnippet(wrote as unknown as TraceInfo, 0, null)).toContain('(model, "옛날", mute');
  });

  test("a language model that only read gets an empty target, a teacher-forced one its target", () => {
    const target = [{ text: "옛날 옛적에", spans: [[0, 0], [0, 2], [3, 6]] }];
    const read = { ...info, model: { kind: "decoder" }, sides: { target } };
    expect(pythonSnippet(read as unknown as TraceInfo, 0, null)).toContain('(model, "옛날 옛적에", target="", mute');
    const led = { ...read, decoding: { method: "given", prompt: 2, settings: {}, text: "옛날", output: " 옛적에" } };
    expect(pythonSnippet(led as unknown as TraceInfo, 0, null)).toContain('(model, "옛날", target=" 옛적에", mute');
  });

  test("a prompt keeps its trailing blanks", () => {
    const target = [{ text: "ROMEO:\n겨울", spans: [[0, 0], [0, 6], [6, 7], [7, 9]] }];
    const wrote = { ...info, model: { kind: "decoder" }, sides: { target }, decoding: { method: "greedy", prompt: 3, settings: {} } };
    expect(pythonSnippet(wrote as unknown as TraceInfo, 0, null)).toContain('(model, "ROMEO:\\n", mute');
    const decoded = { ...wrote, decoding: { ...wrote.decoding, text: "ROMEO:\n " } };
    expect(pythonSnippet(decoded as unknown as TraceInfo, 0, null)).toContain('(model, "ROMEO:\\n ", mute');
  });

  test("no string escapes its quotes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (text) => {
        expect(pythonString(text)).toMatch(/^"(?:[^"\\\n\r]|\\["\\nt]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*"$/);
      }),
    );
    expect(pythonString("\ud800\u{e0001}")).toBe('"\\ud800\\U000e0001"');
  });
});

describe("the export of an exported page", () => {
  test("is the original document with the current state", () => {
    document.documentElement.innerHTML =
      '<head><title>a</title><style data-unpacked="">b</style></head><body><div id="app">drawn</div><div>stray</div>' +
      '<noscript>no</noscript><script id="boot" type="application/json">{"mode":"embedded","state":""}</script>' +
      '<script id="trace" type="text/plain">AAAA</script></body>';
    document.documentElement.dataset.theme = "dark";
    const text = pageText("v=matrix&q=</script>");
    expect(text.startsWith("<!doctype html>\n<html")).toBe(true);
    expect(text).not.toMatch(/drawn|stray|data-|<style/);
    expect(text).toContain('<div id="app"></div>');
    expect(text).toContain('{"mode":"embedded","state":"v=matrix&q=\\u003c/script>"}');
    expect(document.getElementById("app")?.textContent).toBe("drawn");
  });

  test("contains the effects of heads that were measured", () => {
    const effects = { intervention: "mute", measure: "probability", answer: "</script>", value: 0.9, other_value: null, values: { encoder: [[0.5]] } } as const;
    const page = '<script id="boot" type="application/json">{"mode":"embedded","state":"v=heads"}</script><script id="trace" type="text/plain">AAAA</script>';
    const saved = withEffects(page, effects);
    document.body.innerHTML = saved;
    expect(bootConfig()).toEqual({ mode: "embedded", state: "v=heads", effects });
    expect(document.getElementById("trace")?.textContent).toBe("AAAA");
    expect(withEffects(page, null)).toBe(page);
  });

  test("JSON cannot close its script element", () => {
    expect(scriptJson("</script>\u2028<!--")).toBe('"\\u003c/script>\\u2028\\u003c!--"');
  });
});

describe("a complete picture", () => {
  const pack = async (text: string) => {
    const zipped = await new Response(new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"))).arrayBuffer();
    return btoa(String.fromCharCode(...new Uint8Array(zipped)));
  };

  test("embeds the font if it contains Hangul", async () => {
    document.body.innerHTML = `<script id="packed-font" type="text/plain">${await pack("font")}</script>`;
    const drawn = await embedFont(svgDocument(10, 10, "가 > b"));
    expect(drawn).toMatch(/^<svg [^>]*><style>@font-face\{font-family:'Jumok Hangul';src:url\(data:font\/ttf;base64,Zm9udA==\)\}<\/style>/);
    const latin = svgDocument(10, 10, "a > b");
    expect(await embedFont(latin)).toBe(latin);
  });
});
