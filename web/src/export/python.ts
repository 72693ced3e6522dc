/** The current picture as a few lines of Python. */

import { promptText } from "../trace/prompt";
import type { TraceInfo } from "../trace/format";
import type { Figure } from "./figures";
import { fileName } from "./fileName";

/** Code that traces the text and draws the figure; without a figure it shows the page. */
export function pythonSnippet(info: TraceInfo, sequence: number, figure: Figure | null): string {
  const { text, target } = traceInputs(info, sequence);
  const callArguments = [
    "model",
    pythonString(text),
    ...(target === null ? [] : [`target=${pythonString(target)}`]),
    ...(target === null && info.decoding ? decodingArgument(info.decoding.settings) : []),
    ...(info.muted.length ? [`mute=${pythonLiteral(info.muted)}`] : []),
  ];
  const lines = ["import jumok", "", `model = jumok.load(${pythonString(`runs/${info.title}`)})  # where the model lies`];
  lines.push(formatCall("trace = jumok.trace", callArguments));
  if (figure) {
    const options = Object.entries({ ...figure.options, width: 3.3 })
      .filter(([name]) => name !== "sequence") // the traced text is the only one
      .map(([name, value]) => `${name}=${pythonLiteral(value)}`);
    lines.push(formatCall("figure = trace.figure", [pythonString(figure.kind), ...options]));
    lines.push(`figure.savefig("${fileName([info.title, figure.kind], "pdf")}")`);
  } else lines.push("trace.show()");
  return `${lines.join("\n")}\n`;
}

/** A call on one line if it is short, else one line per argument. */
function formatCall(head: string, callArguments: readonly string[]): string {
  const line = `${head}(${callArguments.join(", ")})`;
  return line.length <= 100 ? line : `${head}(\n${callArguments.map((each) => `    ${each},\n`).join("")})`;
}

/** The input of the model: the text, and the target unless the model generated it; an empty target makes a language model only read. */
function traceInputs(info: TraceInfo, sequence: number): { text: string; target: string | null } {
  const source = info.sides.source?.[sequence];
  const target = info.sides.target?.[sequence];
  const { decoding } = info;
  const generated = decoding !== null && decoding.method !== "given";
  if (source) return { text: source.text, target: generated || info.model.kind !== "encoder_decoder" || !target?.text ? null : target.text };
  if (!target) return { text: "", target: null };
  if (!decoding || (sequence && !generated)) return { text: target.text, target: "" }; // decoding belongs to the first sequence
  return { text: promptText(target, decoding), target: generated ? null : decoding.output };
}

function decodingArgument(settings: Readonly<Record<string, unknown>>): string[] {
  const named = Object.entries(settings).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  return named.length ? [`decode={${named.map(([name, value]) => `${pythonString(name)}: ${pythonLiteral(value)}`).join(", ")}}`] : [];
}

function pythonLiteral(value: unknown): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map((head) => `(${head.map(pythonLiteral).join(", ")})`).join(", ")}]`;
  return typeof value === "string" ? pythonString(value) : String(value);
}

/** A Python string literal; invisible characters are escaped, so that pasted code equals executed code. */
export function pythonString(text: string): string {
  const inside = text.replace(/["\\\p{C}\p{Zl}\p{Zp}]/gu, (letter) => {
    if (letter === '"' || letter === "\\") return `\\${letter}`;
    if (letter === "\n") return "\\n";
    if (letter === "\t") return "\\t";
    const code = letter.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  return `"${inside}"`;
}
