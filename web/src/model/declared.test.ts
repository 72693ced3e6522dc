import { expect, test } from "vitest";
import type * as declared from "./jumok";
import * as built from "./module";

test("jumok.d.ts declares what the module exports", () => {
  const exports: typeof declared = built; // checked by tsc
  expect(Object.keys(exports).sort()).toEqual(["Tokenizer", "load", "open", "similarity"]);
});
