/** Opens the small trace files in this folder; `web/scripts/make_test_traces.py` writes them. */

import { readFile } from "node:fs/promises";
import { MemoryByteSource } from "../trace/safetensors";
import { Trace } from "../trace/trace";

export const FIXTURES = ["small", "small-bert", "small-t5", "small-llama"] as const;

type Name = (typeof FIXTURES)[number];

export async function openFixture(name: Name): Promise<Trace> {
  return opened(await readFile(`${import.meta.dirname}/${name}.safetensors`));
}

/** The same without the tensors whose names start with `beginning`. */
export async function openFixtureWithout(name: Name, beginning: string): Promise<Trace> {
  const file = await readFile(`${import.meta.dirname}/${name}.safetensors`);
  return opened(Buffer.from(file.toString("latin1").replaceAll(`"${beginning}`, `"${"_".repeat(beginning.length)}`), "latin1"));
}

function opened(file: Buffer): Promise<Trace> {
  return Trace.open(new MemoryByteSource(file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer));
}
