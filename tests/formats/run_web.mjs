// Runs jumok.js (copied to the file MODULE) in Node: JSON on stdin, JSON on stdout.
//
//     node run_web.mjs MODULE < {"tokenizers": [{config, scores, types, texts, rows, pairs, spans}], "models": [{file, kernel, texts, decoding, wrong: [[text, decoding]]}]}

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { open, Tokenizer } = await import(pathToFileURL(process.argv[2]));
const { tokenizers = [], models = [] } = JSON.parse(readFileSync(0, "utf8"));

const opened = tokenizers.map(({ config, scores, types }) => new Tokenizer(config, Float32Array.from(scores), Uint8Array.from(types)));
const ids = tokenizers.map(({ texts }, i) => texts.map((text) => opened[i].inputs(text)));
const pairs = tokenizers.map(({ pairs = [] }, i) => pairs.map(([text, pair]) => opened[i].inputs(text, pair)));
const spans = tokenizers.map(({ spans = [] }, i) => spans.map((text) => opened[i].encodeWithPieces(text).map(({ span }) => span)));
const texts = tokenizers.map(({ rows = [] }, i) => rows.map((row) => opened[i].decode(row)));

const bytes = (path) => Uint8Array.from(readFileSync(path)).buffer;
const answers = [];
const message = async (call) => {
  try {
    return `answered ${JSON.stringify(await call())}`;
  } catch (error) {
    return String(error);
  }
};
for (const { file, kernel, texts, decoding = {}, wrong = [] } of models) {
  const model = await open(bytes(file), bytes(kernel));
  answers.push({
    outputs: texts.map((text) => Array.from(model.outputs(text))),
    predictions: texts.map((text) => model.predict(text, decoding)),
    truncated: texts.map((text) => model.isTruncated(text)),
    check: model.check(),
    refused: await Promise.all(wrong.map((each) => message(() => model.predict(...each)))),
    refusedStreams: await Promise.all(wrong.map(([text, changes]) => message(() => model.stream(text, () => true, changes)))),
  });
  model.free();
}
console.log(JSON.stringify({ ids, pairs, spans, texts, answers }));
