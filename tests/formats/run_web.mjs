// Runs jumok.js (copied to the file MODULE) in Node: JSON on stdin, JSON on stdout.
//
//     node run_web.mjs MODULE < {"tokenizers": [{config, scores, types, texts}], "models": [{file, kernel, rows, texts}]}

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { open, Tokenizer } = await import(pathToFileURL(process.argv[2]));
const { tokenizers = [], models = [] } = JSON.parse(readFileSync(0, "utf8"));

const ids = tokenizers.map(({ config, scores, types, texts }) => {
  const tokenizer = new Tokenizer(config, Float32Array.from(scores), Uint8Array.from(types));
  return texts.map((text) => tokenizer.inputs(text));
});

const bytes = (path) => Uint8Array.from(readFileSync(path)).buffer;
const answers = [];
for (const { file, kernel, texts } of models) {
  const model = await open(bytes(file), bytes(kernel));
  answers.push({
    outputs: texts.map((text) => Array.from(model.outputs(text))),
    predictions: texts.map((text) => model.predict(text)),
    truncated: texts.map((text) => model.isTruncated(text)),
    check: model.check(),
  });
  model.free();
}
console.log(JSON.stringify({ ids, answers }));
