/**
 * The forward pass of a model in double precision, from ids to every tensor of a trace.
 *
 * It follows src/jumok/nn/layer.py and attention.py; the weights are those of the packed file. The attention weights that it
 * records are the kernel's, and `difference` is how far its own are from them.
 *
 * T queries, S keys, H heads, G key heads, K width of a head, D d_model, A = H K.
 */

import { activations, normalise, type Numbers } from "../views/calculation/arithmetic";
import { keep, meanEntropy, type Recorded, thumbnails } from "./record";
import type { Dims, LinearMap, Weights } from "./weights";

export type BlockName = "encoder" | "decoder" | "cross";

/** The attention weights that the kernel computed, (L, H, T, S) of each block. */
export type KernelAttention = Readonly<Record<string, Float32Array>>;

/** Muted heads, as `block.layer.head`. */
export type Muted = ReadonlySet<string>;

export class ForwardPass {
  readonly recorded: Recorded = new Map();
  /** The largest difference of an attention weight from that of the kernel. */
  difference = 0;

  constructor(
    private readonly dims: Dims,
    private readonly weights: Weights,
    private readonly attention: KernelAttention,
    private readonly muted: Muted,
    private readonly keepsParameters: boolean,
  ) {}

  /** One side: the last hidden states (T, D). `memory` are those of the encoder, which a decoder attends to. */
  run(side: "encoder" | "decoder", ids: readonly number[], memory: Numbers | null = null): Numbers {
    const { dims, recorded } = this;
    const name = side === "encoder" ? "source" : "target";
    const layers = side === "encoder" ? dims.encoder_layers : dims.decoder_layers;
    let x = this.embed(side, name, ids);
    for (let layer = 0; layer < layers; layer++) {
      this.keepMatrix(`${name}.hidden.${layer}`, x);
      x = this.layer(side, name, layer, x, memory);
    }
    const last = this.norm(x, `${side}.norm`, `parameters.${name}.norm`, dims.norm_first) ?? x;
    this.keepMatrix(`${name}.hidden.${layers}`, last);
    for (const block of memory ? [side, "cross"] : [side]) this.summarize(block, layers, ids.length, block === "cross" ? memory!.rows : ids.length);
    if (side === "encoder" || !recorded.has("rotary")) this.keepRotary(side);
    return last;
  }

  /** norm(token · scale + position + segment), projected to D. */
  private embed(side: string, name: string, ids: readonly number[]): Numbers {
    const { dims, weights } = this;
    const table = ["tokens", side === "encoder" ? "source" : "target", "output"].find((each) => weights.has(each))!;
    const { inputs: E, weight } = weights.linear(table);
    const scaled = numbers(ids.length, E, (row, i) => weight[ids[row] * E + i] * dims.embedding_scale);
    this.keepMatrix(`${name}.embedding`, scaled);
    const unique = [...new Set(ids)].sort((a, b) => a - b);
    keep(this.recorded, `parameters.${name}.embedding.tokens`, [unique.length, E], unique.flatMap((id) => [...weight.subarray(id * E, (id + 1) * E)]));
    let x = scaled;
    const positions = weights.vectorOrNull(`${side}.positions`);
    if (positions) {
      keep(this.recorded, `${name}.positions`, [ids.length, E], positions.subarray(0, ids.length * E));
      x = numbers(x.rows, E, (row, i) => scaled.data[row * E + i] + positions[row * E + i]);
    }
    const segments = weights.vectorOrNull(`${side}.segments`);
    if (segments) {
      keep(this.recorded, `${name}.segments`, [segments.length / E, E], segments);
      const placed = x;
      x = numbers(x.rows, E, (row, i) => placed.data[row * E + i] + segments[i]);
    }
    x = this.norm(x, `${side}.embedding_norm`, `parameters.${name}.embedding.norm`, dims.embedding_norm) ?? x;
    if (!weights.has("encoder.projection")) return x;
    const projection = weights.linear("encoder.projection");
    this.keepLinear(`parameters.${name}.embedding.projection`, projection);
    return apply(projection, x);
  }

  private layer(side: "encoder" | "decoder", name: string, layer: number, x: Numbers, memory: Numbers | null): Numbers {
    const { n_heads, n_kv_heads, d_head, d_ff, gated } = this.dims;
    const [A, G] = [n_heads * d_head, n_kv_heads * d_head];
    const [own, parameters, steps] = [`${side}.${layer}`, `parameters.${name}.${layer}`, `${name}.steps.${layer}`];
    const maps = (first: string, names: readonly string[], widths: readonly number[], attention: string) => {
      let from = 0;
      return names.map((each, i) => {
        const map = this.weights.rows(`${own}.${first}`, from, widths[i]);
        from += widths[i];
        this.keepLinear(`${parameters}.${attention}.${each}`, map);
        return map;
      });
    };
    x = this.sublayer(x, own, "self_attention", parameters, steps, (input) => {
      const [query, key, value] = maps("query_key_value", ["query", "key", "value"], [A, G, G], "self_attention");
      return this.attend(side, layer, `${own}.output`, parameters, side, apply(query, input), apply(key, input), apply(value, input));
    });
    if (memory)
      x = this.sublayer(x, own, "cross_attention", parameters, steps, (input) => {
        const [query] = maps("cross_query", ["query"], [A], "cross_attention");
        const [key, value] = maps("cross_key_value", ["key", "value"], [G, G], "cross_attention");
        return this.attend("cross", layer, `${own}.cross_output`, parameters, null, apply(query, input), apply(key, memory), apply(value, memory));
      });
    return this.sublayer(x, own, "feed_forward", parameters, steps, (input) => {
      const linear = (each: string) => {
        const map = this.weights.linear(`${own}.${each}`);
        this.keepLinear(`${parameters}.feed_forward.${each}`, map);
        return map;
      };
      const up = apply(linear("up"), input);
      const gate = gated ? apply(linear("gate"), input) : null;
      const activation = activations[this.dims.activation];
      const hidden = numbers(up.rows, d_ff, (row, i) => activation(up.data[row * d_ff + i]) * (gate ? gate.data[row * d_ff + i] : 1));
      this.keepMatrix(`${steps}.hidden`, hidden);
      return apply(linear("down"), hidden);
    });
  }

  /** x + f(norm(x)), or norm(x + f(x)) (section 3.1). */
  private sublayer(x: Numbers, own: string, name: string, parameters: string, steps: string, compute: (input: Numbers) => Numbers): Numbers {
    const { norm_first } = this.dims;
    const [norm, kept] = [`${own}.${name}_norm`, `${parameters}.${name}_norm.norm`];
    const input = norm_first ? this.norm(x, norm, kept)! : x;
    if (norm_first) this.keepMatrix(`${steps}.${name}_input`, input);
    const y = compute(input);
    this.keepMatrix(`${steps}.${name}`, y);
    const sum = numbers(x.rows, x.columns, (row, i) => x.data[row * x.columns + i] + y.data[row * x.columns + i]);
    const after = norm_first ? sum : this.norm(sum, norm, kept)!;
    this.keepMatrix(`${steps}.after_${name}`, after);
    return after;
  }

  /** softmax(Q Kᵀ scale) V of all heads, and W_O (equation 1, section 3.2.2). */
  private attend(block: BlockName, layer: number, output: string, parameters: string, rotated: string | null, q: Numbers, k: Numbers, v: Numbers): Numbers {
    const { n_heads: H, n_kv_heads: G, d_head: K, attention_scale } = this.dims;
    const [T, S, prefix] = [q.rows, k.rows, `${block}.${layer}`];
    const [queries, keys, values] = [split(q, H, K), split(k, G, K), split(v, G, K)];
    if (rotated) for (const each of [queries, keys]) this.rotate(rotated, each, K);
    const map = this.weights.linear(output);
    this.keepLinear(`${parameters}.${block === "cross" ? "cross" : "self"}_attention.output`, map);
    const recorded = this.attention[block].subarray(layer * H * T * S, (layer + 1) * H * T * S);
    const scores = new Float64Array(H * T * S);
    const mixed = new Float64Array(H * T * K);
    const joined = new Float64Array(T * H * K);
    const norms = new Float64Array(H * S);
    for (let h = 0; h < H; h++) {
      const shared = Math.floor((h * G) / H);
      const isMuted = this.muted.has(`${prefix}.${h}`);
      for (let t = 0; t < T; t++) {
        const row = (h * T + t) * S;
        const allowed = block === "decoder" ? t + 1 : S;
        let largest = -Infinity;
        for (let s = 0; s < S; s++) {
          let sum = 0;
          for (let i = 0; i < K; i++) sum += queries[(h * T + t) * K + i] * keys[(shared * S + s) * K + i];
          scores[row + s] = sum * attention_scale;
          if (s < allowed) largest = Math.max(largest, scores[row + s]);
        }
        let total = 0;
        for (let s = 0; s < allowed; s++) total += Math.exp(scores[row + s] - largest);
        for (let s = 0; s < allowed && !isMuted; s++) {
          const weight = Math.exp(scores[row + s] - largest) / total;
          this.difference = Math.max(this.difference, Math.abs(weight - recorded[row + s]));
          for (let i = 0; i < K; i++) mixed[(h * T + t) * K + i] += weight * values[(shared * S + s) * K + i];
        }
        for (let i = 0; i < K; i++) joined[(t * H + h) * K + i] = mixed[(h * T + t) * K + i];
      }
      if (isMuted) recorded.fill(0, h * T * S, (h + 1) * T * S);
      for (let s = 0; s < S; s++) norms[h * S + s] = valueNorm(map, values, shared * S + s, h, K);
    }
    keep(this.recorded, `${prefix}.q`, [1, H, T, K], queries);
    keep(this.recorded, `${prefix}.k`, [1, G, S, K], keys);
    keep(this.recorded, `${prefix}.v`, [1, G, S, K], values);
    keep(this.recorded, `${prefix}.scores`, [1, H, T, S], scores);
    keep(this.recorded, `${prefix}.weights`, [1, H, T, S], recorded);
    keep(this.recorded, `${prefix}.mixed`, [1, H, T, K], mixed);
    keep(this.recorded, `${prefix}.value_norms`, [1, H, S], norms);
    return apply(map, { rows: T, columns: H * K, data: joined });
  }

  /** Rotates each pair (i, i + K/2) of (heads, T, K) by its angle. */
  private rotate(side: string, x: Float64Array, K: number): void {
    const [cosine, sine] = [this.weights.vectorOrNull(`${side}.cosine`), this.weights.vectorOrNull(`${side}.sine`)];
    if (!cosine || !sine) return;
    const [half, T] = [K / 2, this.recorded.get(`${side === "encoder" ? "source" : "target"}.hidden.0`)!.shape[1]];
    for (let row = 0; row * K < x.length; row++)
      for (let i = 0, at = (row % T) * K; i < half; i++, at++) {
        const [first, second] = [x[row * K + i], x[row * K + i + half]];
        x[row * K + i] = first * cosine[at] - second * sine[at];
        x[row * K + i + half] = second * cosine[at + half] + first * sine[at + half];
      }
  }

  /** The angle of each pair per position: that of position 1. */
  private keepRotary(side: string): void {
    const [cosine, sine] = [this.weights.vectorOrNull(`${side}.cosine`), this.weights.vectorOrNull(`${side}.sine`)];
    const K = this.dims.d_head;
    if (cosine && sine) keep(this.recorded, "rotary", [K / 2], Array.from({ length: K / 2 }, (_, i) => Math.atan2(sine[K + i], cosine[K + i])));
  }

  /** The norm of a name; null where the model has none. */
  private norm(x: Numbers, name: string, parameters: string, exists = true): Numbers | null {
    if (!exists || !this.weights.has(`${name}.weight`)) return null;
    const [weight, bias] = [this.weights.vector(`${name}.weight`), this.weights.vectorOrNull(`${name}.bias`)];
    if (this.keepsParameters) {
      keep(this.recorded, `${parameters}.weight`, [weight.length], weight);
      if (bias) keep(this.recorded, `${parameters}.bias`, [bias.length], bias);
    }
    const row = (data: Float32Array): Numbers => ({ rows: 1, columns: data.length, data });
    return normalise(x, this.dims.rms ? "rms" : "layer", this.dims.norm_eps, row(weight), bias && row(bias));
  }

  /** The logits of hidden states (T, D), (T, V); `normed`: the stack has applied its final norm. */
  logits(x: Numbers, normed: boolean): Numbers {
    const hidden = normed ? x : (this.norm(x, "decoder.norm", "parameters.target.norm", this.dims.norm_first) ?? x);
    return apply(this.weights.linear("output"), hidden);
  }

  private summarize(block: string, layers: number, T: number, S: number): void {
    const { n_heads: H } = this.dims;
    const weights = this.attention[block];
    const { shape, data } = thumbnails(weights, layers * H, T, S);
    this.recorded.set(`${block}.thumbnails`, { shape: [1, layers, H, ...shape], data });
    keep(this.recorded, `${block}.entropy`, [1, layers, H], Array.from({ length: layers * H }, (_, i) => meanEntropy(weights, i * T * S, T, S)));
    const mask = Uint8Array.from({ length: T * S }, (_, i) => Number(block !== "decoder" || i % S <= Math.floor(i / S)));
    this.recorded.set(`${block}.mask`, { shape: [1, T, S], data: mask });
  }

  private keepMatrix(name: string, { rows, columns, data }: Numbers): void {
    keep(this.recorded, name, [1, rows, columns], data);
  }

  private keepLinear(name: string, { outputs, inputs, weight, bias }: LinearMap): void {
    if (!this.keepsParameters) return;
    keep(this.recorded, `${name}.weight`, [outputs, inputs], weight);
    if (bias) keep(this.recorded, `${name}.bias`, [outputs], bias);
  }
}

function numbers(rows: number, columns: number, cell: (row: number, column: number) => number): Numbers {
  const data = new Float64Array(rows * columns);
  for (let row = 0, i = 0; row < rows; row++) for (let column = 0; column < columns; column++) data[i++] = cell(row, column);
  return { rows, columns, data };
}

const ROWS = 4; // of a tile, next to each other in memory

/** x Wᵀ + b, in tiles of 4 rows and 2 outputs: each number that is read takes part in several products. */
function apply({ outputs, inputs, weight, bias }: LinearMap, x: Numbers): Numbers {
  const data = new Float64Array(x.rows * outputs);
  const tile = new Float64Array(inputs * ROWS);
  for (let row = 0; row < x.rows; row += ROWS) {
    const rows = Math.min(ROWS, x.rows - row);
    for (let i = 0; i < inputs; i++) for (let r = 0; r < rows; r++) tile[i * ROWS + r] = x.data[(row + r) * inputs + i];
    for (let o = 0; o < outputs; o += 2) {
      const other = Math.min(o + 1, outputs - 1);
      multiplyTile(tile, weight, o * inputs, other * inputs, inputs);
      for (let r = 0; r < rows; r++) {
        data[(row + r) * outputs + o] = sums[r] + (bias ? bias[o] : 0);
        data[(row + r) * outputs + other] = sums[(other - o) * ROWS + r] + (bias ? bias[other] : 0);
      }
    }
  }
  return { rows: x.rows, columns: outputs, data };
}

const sums = new Float64Array(2 * ROWS);

/** The sums of a tile: n products of each of 4 rows with the weights from `at` and from `to`. */
function multiplyTile(tile: Float64Array, weight: Float32Array, at: number, to: number, n: number): void {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let e = 0;
  let f = 0;
  let g = 0;
  let h = 0;
  for (let i = 0, from = 0; i < n; i++, from += ROWS) {
    const x = tile[from];
    const y = tile[from + 1];
    const z = tile[from + 2];
    const w = tile[from + 3];
    const u = weight[at + i];
    const v = weight[to + i];
    a += x * u;
    b += y * u;
    c += z * u;
    d += w * u;
    e += x * v;
    f += y * v;
    g += z * v;
    h += w * v;
  }
  sums[0] = a;
  sums[1] = b;
  sums[2] = c;
  sums[3] = d;
  sums[4] = e;
  sums[5] = f;
  sums[6] = g;
  sums[7] = h;
}

/** (T, heads K) -> (heads, T, K). */
function split(x: Numbers, heads: number, K: number): Float64Array {
  const data = new Float64Array(x.rows * heads * K);
  for (let h = 0, at = 0; h < heads; h++) for (let t = 0; t < x.rows; t++) for (let i = 0; i < K; i++) data[at++] = x.data[t * x.columns + h * K + i];
  return data;
}

/** ‖v W_O‖ of one head and key (Kobayashi et al. 2020). */
function valueNorm({ outputs, inputs, weight }: LinearMap, values: Float64Array, row: number, head: number, K: number): number {
  let square = 0;
  for (let o = 0; o < outputs; o++) {
    let sum = 0;
    for (let i = 0; i < K; i++) sum += values[row * K + i] * weight[o * inputs + head * K + i];
    square += sum * sum;
  }
  return Math.sqrt(square);
}
