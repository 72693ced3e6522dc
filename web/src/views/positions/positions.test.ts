/** The export of the positions view: the matrix of an encoding, or the encoding of the model. */

import { afterEach, describe, expect, it } from "vitest";
import { block } from "../../state/state";
import { setting } from "../../state/settings";
import { openFixture } from "../../testing/fixtures";
import { testTrace } from "../../testing/testTrace";
import { positions } from "./positions";
import { ENCODINGS } from "./encodings";

const [encoding, n, d] = ["encoding", "n", "d"].map((name) => setting<number>("positions", name, 4));
const OWN = ENCODINGS.length;

afterEach(() => {
  [encoding.value, n.value, d.value, block.value] = [4, 64, 128, "encoder"];
});

describe("an encoding", () => {
  it.each([
    [0, [["", 0], ["0", 0], ["1", 1], ["2", 2]]],
    [1, [["", 0], ["0", 0], ["1", 0.5], ["2", 1]]],
    [2, [["", 0, 1], ["0", 0, 0], ["1", 1, 0], ["2", 0, 1]]],
  ] as const)("%i has its own matrix", async (number, rows) => {
    [encoding.value, n.value] = [number, 3];
    expect(await positions.table?.(await testTrace())).toEqual(rows);
  });

  it.each([[3, 3, 3], [4, 3, 4], [5, 3, 3], [6, 4, 4]])("%i has %i rows of %i", async (number, rows, columns) => {
    [encoding.value, n.value, d.value] = [number, 3, 4];
    const found = (await positions.table?.(await testTrace())) ?? [];
    expect([found.length - 1, found[0].length - 1]).toEqual([rows, columns]);
  });
});

describe("this model", () => {
  it("exports its table", async () => {
    encoding.value = OWN;
    const trace = await openFixture("small");
    const { rows, columns } = await trace.fullMatrix("source.positions");
    const found = (await positions.table?.(trace)) ?? [];
    expect([found.length - 1, found[0].length - 1]).toEqual([rows, columns]);
  });

  it("exports its angles", async () => {
    [encoding.value, block.value] = [OWN, "decoder"];
    const trace = await openFixture("small-llama");
    const found = (await positions.table?.(trace)) ?? [];
    expect(found[0]).toEqual(["", "θ"]);
    expect(found.slice(1).map(([, angle]) => angle)).toEqual([...(await trace.fullMatrix("rotary")).data]);
  });

  it("exports its biases, one row per distance and one column per head", async () => {
    encoding.value = OWN;
    const trace = await openFixture("small-t5");
    const found = (await positions.table?.(trace)) ?? [];
    const tokens = trace.queries({ sequence: 0, block: "encoder" }).pieces.length;
    expect(found.length - 1).toBe(2 * tokens - 1);
    expect(found[0].slice(1)).toEqual(Array.from({ length: trace.block("encoder").heads }, (_, head) => `H${head}`));
  });

  it("without an encoding is not exported, and the error says why", async () => {
    encoding.value = OWN;
    const none = testTrace({ model: { ...(await testTrace()).info.model, positions: "none" } });
    await expect(positions.svg?.(await none)).rejects.toThrow(/위치 인코딩이 없습니다|no positional encoding/);
  });
});
