import { describe, expect, it } from "vitest";
import { type ByteSource, float16ToFloat32, MemoryByteSource } from "./safetensors";
import { INFO, safetensors, type Tensor, testTrace } from "../testing/testTrace";
import { Trace } from "./trace";

const PLACE = { sequence: 0, block: "encoder", layer: 1, head: 1 } as const;

class Counted implements ByteSource {
  readonly reads: [number, number][] = [];
  constructor(private readonly bytes: ByteSource) {}
  read(start: number, end: number) {
    this.reads.push([start, end]);
    return this.bytes.read(start, end);
  }
}

describe("a trace", () => {
  it("reads a head once, and only its bytes", async () => {
    const data = Float32Array.from({ length: 2 * 25 }, (_, i) => i);
    const file = safetensors(INFO, { "encoder.1.weights": { shape: [1, 2, 5, 5], data } });
    const bytes = new Counted(new MemoryByteSource(file));
    const trace = await Trace.open(bytes);
    expect([...(await trace.weights(PLACE)).data]).toEqual([...data.subarray(25)]);
    await trace.weights(PLACE);
    expect(bytes.reads).toHaveLength(2);
    expect(bytes.reads[1]).toEqual([file.byteLength - 100, file.byteLength]);
  });

  it("reads a long header in two parts", async () => {
    const notes = Array.from({ length: 4000 }, (_, i) => `note ${i} of a long header`);
    const bytes = new Counted(new MemoryByteSource(safetensors({ ...INFO, notes }, {})));
    const trace = await Trace.open(bytes);
    expect(trace.info.notes).toEqual(notes);
    expect(bytes.reads.map(([start]) => start)).toEqual([0, 65536]);
  });

  it("computes scores from q and k if they were not recorded", async () => {
    const trace = await testTrace();
    const [q, k, { data }] = await Promise.all([trace.q(PLACE), trace.k(PLACE), trace.scores(PLACE)]);
    let sum = 0;
    for (let i = 0; i < 4; i++) sum += q.data[2 * 4 + i] * k.data[3 * 4 + i];
    expect(data[2 * 5 + 3]).toBeCloseTo(0.5 * sum, 6);
  });

  it("reads missing weights from thumbnails with one tile per weight only", async () => {
    const thumbnails: Tensor = { shape: [1, 1, 1, 5, 5], data: Uint8Array.from({ length: 25 }, (_, i) => 10 * i) };
    const first = { sequence: 0, block: "encoder", layer: 0, head: 0 } as const;
    const trace = await Trace.open(new MemoryByteSource(safetensors(INFO, { "encoder.thumbnails": thumbnails })));
    expect(trace.hasExactWeights(first)).toBe(false);
    expect((await trace.weights(first)).data[7]).toBeCloseTo((70 / 255) ** 2, 6);
    const pooled: Tensor = { shape: [1, 1, 1, 4, 4], data: new Uint8Array(16) };
    const coarse = await Trace.open(new MemoryByteSource(safetensors(INFO, { "encoder.thumbnails": pooled })));
    await expect(coarse.weights(first)).rejects.toThrow("only thumbnails");
  });

  it("reads vectors that were rounded to 8 bits with the scale of their row", async () => {
    const bytes: Tensor = { shape: [1, 2, 3], data: Uint8Array.of(255, 1, 128, 129, 128, 28) };
    const scale: Tensor = { shape: [1, 2], data: Float32Array.of(0.5, 2) };
    const trace = await Trace.open(new MemoryByteSource(safetensors(INFO, { "source.hidden.0": bytes, "source.hidden.0.scale": scale })));
    expect([...(await trace.hidden("source", 0, 0)).data]).toEqual([63.5, -63.5, 0, 2, 0, -200]);
    expect([trace.hasRounding, (await testTrace()).hasRounding]).toEqual([true, false]);
  });

  it("rejects files that are not traces", async () => {
    const open = (file: ArrayBuffer) => Trace.open(new MemoryByteSource(file));
    await expect(open(new ArrayBuffer(4))).rejects.toThrow("not a safetensors file");
    await expect(open(safetensors(INFO, {}).slice(0, 60))).rejects.toThrow("truncated");
    const long = new ArrayBuffer(16);
    new DataView(long).setBigUint64(0, 2n ** 40n, true);
    await expect(open(long)).rejects.toThrow("the header of a trace must be at most");
    await expect((await testTrace()).fullMatrix("encoder.9.weights")).rejects.toThrow("has no tensor encoder.9.weights");
  });
});

describe("float16", () => {
  it("is decoded exactly", () => {
    const bits = [0x0000, 0x8000, 0x3c00, 0xc000, 0x3555, 0x0001, 0x7bff, 0x7c00];
    expect([...float16ToFloat32(Uint16Array.from(bits))]).toEqual([0, -0, 1, -2, 0.333251953125, 2 ** -24, 65504, Infinity]);
    expect(float16ToFloat32(Uint16Array.of(0x7e00))[0]).toBeNaN();
  });
});
