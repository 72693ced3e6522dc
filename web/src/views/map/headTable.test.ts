/** The table of heads: the scores are those of the trace; sorting and searching. */

import { expect, it } from "vitest";
import { testTrace } from "../../testing/testTrace";
import { patternScores } from "../../trace/headPatterns";
import type { Effects } from "./effects";
import { type HeadRow, loadRows, selectRows, withEffects } from "./headTable";

const EFFECTS: Effects = {
  intervention: "mute",
  measure: "probability",
  answer: "긍정",
  value: 0.5,
  other_value: null,
  values: { encoder: [[0.5, 0.1], [0.6, 0.45]] },
};

it("every head has the scores of the patterns", async () => {
  const trace = await testTrace();
  const rows = await loadRows(trace, 0);
  expect(rows.map(({ layer, head }) => [layer, head])).toEqual([[0, 0], [0, 1], [1, 0], [1, 1]]);
  const separator = await patternScores(trace, trace.block("encoder"), 0, "separator");
  expect(rows.map(({ scores }) => scores.separator)).toEqual([...separator.data]);
  expect(rows[0].scores.effect).toBeNull();
});

it("heads are sorted by the largest effect of either sign, and searched", async () => {
  const rows = withEffects(await loadRows(await testTrace(), 0), EFFECTS);
  const heads = (found: readonly HeadRow[]) => found.map(({ layer, head }) => `${layer}.${head}`);
  expect(heads(selectRows(rows, "effect", 0))).toEqual(["0.1", "1.0", "1.1", "0.0"]);
  expect(heads(selectRows(rows, "effect", 0.08))).toEqual(["0.1", "1.0"]);
  expect(heads(selectRows(rows, "head", 0.9))).toEqual(["0.0", "0.1", "1.0", "1.1"]);
  const sorted = selectRows(rows, "separator", 0).map(({ scores }) => scores.separator ?? 0);
  expect(sorted).toEqual([...sorted].sort((a, b) => b - a));
  const entropy = rows.map(({ scores }) => scores.entropy ?? 0);
  expect(selectRows(rows, "entropy", Math.min(...entropy) || 1e-9).length).toBeGreaterThan(0);
});
