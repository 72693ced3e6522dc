/**
 * jumok.js: a model of `jumok export --to web` in one's own page.
 *
 *     import { load } from "./jumok.js";
 *     const model = await load("model.safetensors", "kernel.wasm");
 *     console.log(model.predict("재미있어요"));
 */

import { Model } from "./model";

export type { Answer, Candidate, Check, Decoding, Entity, Example, Filled, Filling, Generated, Input, Model, Task, Warning } from "./model";
export { similarity } from "./model";
export { Tokenizer, type TokenizerConfig } from "./tokenizer";

/** The model in the bytes of model.safetensors, in the kernel in the bytes of kernel.wasm. */
export function open(model: ArrayBuffer, kernel: BufferSource): Promise<Model> {
  return Model.create(model, kernel);
}

/** The model at an address, in the kernel at another one. */
export async function load(model: string | URL, kernel: string | URL): Promise<Model> {
  const [file, wasm] = await Promise.all([model, kernel].map(bytes));
  return open(file, wasm);
}

async function bytes(address: string | URL): Promise<ArrayBuffer> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address} must be readable, got status ${response.status}; check the address`);
  return response.arrayBuffer();
}
