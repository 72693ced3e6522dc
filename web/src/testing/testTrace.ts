/** A synthetic trace for tests: one block of 2 layers and 2 heads over "나는 봄" and a padding token. */

import { MemoryByteSource } from "../trace/safetensors";
import type { CircuitGraph, GraphNode, TraceInfo } from "../trace/format";
import { Trace } from "../trace/trace";

const PIECES = ["[CLS]", "▁나", "는", "▁봄", "[PAD]"];
const [L, H, N, K] = [2, 2, 5, 4];

export const INFO: TraceInfo = {
  title: "small",
  task: null,
  model: {
    kind: "encoder",
    family: "jumok",
    d_model: 8,
    d_ff: 16,
    parameters: 100,
    positions: "sinusoidal",
    norm: "layer",
    norm_eps: 1e-5,
    norm_first: true,
    gated: false,
    activation: "relu",
    weights_sha256: null,
    implementation: "jumok",
    tokenizer: null,
    embedding_scale: null,
    bias: null,
    head_norm: null,
    sublayer_norm: null,
    layer_kinds: null,
    sliding_window: null,
  },
  made: {},
  blocks: [
    {
      name: "encoder",
      queries: "source",
      keys: "source",
      layers: L,
      heads: H,
      key_heads: H,
      d_head: K,
      scale: 0.5,
      softcap: null,
      causal: false,
    },
  ],
  sides: {
    source: [
      {
        text: "나는 봄",
        pieces: PIECES,
        ids: [1, 10, 11, 12, 0],
        spans: [
          [0, 0],
          [0, 1],
          [1, 2],
          [3, 4],
          [4, 4],
        ],
        special: [1, 0, 0, 0, 1],
        real: [1, 1, 1, 1, 0],
        words: [-1, 0, 0, 1, -1],
        segments: null,
        truncated: 0,
      },
    ],
  },
  muted: [],
  classification: null,
  regression: null,
  next: null,
  lens: null,
  decoding: null,
  notes: [],
};

const NODE: GraphNode = { kind: "token", side: "source", layer: -1, token: 0, number: 1, value: 1, influence: 0.125, name: "source[0] [CLS]", answer: null };
const EDGE = { measured: 0.25, head: null, head_weight: null };

/** A circuit of it: two tokens, two features and an error, and the logit of a label. */
export const CIRCUIT: CircuitGraph = {
  nodes: [
    NODE,
    { ...NODE, token: 1, number: 10, name: "source[1] ▁나" },
    { ...NODE, kind: "feature", layer: 0, token: 1, number: 7, value: 2, influence: 0.5, name: "source[1] ▁나 L0 #7" },
    { ...NODE, kind: "error", layer: 0, token: 1, number: 0, name: "source[1] ▁나 L0 error" },
    { ...NODE, kind: "feature", layer: 1, token: 0, number: 9, name: "source[0] [CLS] L1 #9" },
    { ...NODE, kind: "logit", layer: 2, token: 0, number: 1, value: 4, influence: 1, name: "logit 긍정", answer: "긍정" },
  ],
  edges: [
    { ...EDGE, source: 2, target: 5, weight: 3, measured: 2.5, head: ["encoder", 1, 0], head_weight: 2 },
    { ...EDGE, source: 1, target: 2, weight: 2 },
    { ...EDGE, source: 4, target: 5, weight: -1.5 },
    { ...EDGE, source: 1, target: 4, weight: 1 },
    { ...EDGE, source: 3, target: 5, weight: 0.5 },
  ],
  features: [{ side: "source", layer: 0, number: 7, peaks: [{ pieces: ["▁세", "▁시"], at: 1, value: 2.5 }] }],
  replacement: 0.875,
  completeness: 0.75,
  total_nodes: 40,
  total_edges: 300,
};

/** Opens it; `info` and `tensors` override parts. */
export function testTrace(info: Partial<TraceInfo> = {}, tensors: Record<string, Tensor> = {}): Promise<Trace> {
  return Trace.open(new MemoryByteSource(safetensors({ ...INFO, ...info }, { ...tensorsOf(), ...tensors })));
}

export interface Tensor {
  readonly shape: readonly number[];
  readonly data: Float32Array | Uint8Array;
}

/** The bytes of a trace file: header and tensors. */
export function safetensors(info: TraceInfo, tensors: Record<string, Tensor>): ArrayBuffer {
  const header: Record<string, unknown> = { __metadata__: { format: "jumok.trace/3", trace: JSON.stringify(info) } };
  let end = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = {
      dtype: data instanceof Uint8Array ? "U8" : "F32",
      shape,
      data_offsets: [end, end + data.byteLength],
    };
    end += data.byteLength;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const file = new Uint8Array(8 + text.length + end);
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true);
  file.set(text, 8);
  let at = 8 + text.length;
  for (const { data } of Object.values(tensors)) {
    file.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return file.buffer;
}

function tensorsOf(): Record<string, Tensor> {
  const tensors: Record<string, Tensor> = {};
  const wave = (count: number, speed: number) =>
    Float32Array.from({ length: count }, (_, i) => Math.sin(i * speed + 1));
  for (let layer = 0; layer < L; layer++) {
    const q = wave(H * N * K, 1.3 + layer);
    const k = wave(H * N * K, 2.1 + layer);
    const weights = new Float32Array(H * N * N);
    for (let row = 0; row < H * N; row++) {
      const head = Math.floor(row / N);
      const powers = Array.from({ length: N }, (_, s) => {
        let dot = 0;
        for (let i = 0; i < K; i++) dot += q[row * K + i] * k[(head * N + s) * K + i];
        return s < N - 1 ? Math.exp(0.5 * dot) : 0; // padding is masked
      });
      const total = powers.reduce((sum, power) => sum + power);
      powers.forEach((power, s) => (weights[row * N + s] = power / total));
    }
    tensors[`encoder.${layer}.weights`] = { shape: [1, H, N, N], data: weights };
    tensors[`encoder.${layer}.q`] = { shape: [1, H, N, K], data: q };
    tensors[`encoder.${layer}.k`] = { shape: [1, H, N, K], data: k };
    tensors[`encoder.${layer}.v`] = { shape: [1, H, N, K], data: wave(H * N * K, 0.7) };
    tensors[`encoder.${layer}.value_norms`] = { shape: [1, H, N], data: wave(H * N, 0.9).map(Math.abs) };
  }
  tensors["encoder.mask"] = {
    shape: [1, N, N],
    data: Uint8Array.from({ length: N * N }, (_, i) => Number(i % N < N - 1)),
  };
  tensors["encoder.entropy"] = { shape: [1, L, H], data: wave(L * H, 1).map(Math.abs) };
  tensors["encoder.thumbnails"] = {
    shape: [1, L, H, N, N],
    data: Uint8Array.from({ length: L * H * N * N }, (_, i) => (i * 37) % 256),
  };
  return tensors;
}
