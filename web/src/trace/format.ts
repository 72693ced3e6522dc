/** The header of a trace, as specified in docs/trace.md. */

export type Side = "source" | "target";
export type BlockName = "encoder" | "decoder" | "cross";

/** A stack of attention layers of one kind. */
export interface Block {
  readonly name: BlockName;
  readonly queries: Side;
  readonly keys: Side;
  readonly layers: number;
  readonly heads: number;
  readonly key_heads: number;
  readonly d_head: number;
  readonly scale: number;
  readonly softcap: number | null; // c: scores are c·tanh(q·k·scale / c)
  readonly causal: boolean;
}

/** The tokens of one text; all lists have the same length. */
export interface Sequence {
  readonly text: string;
  readonly pieces: readonly string[];
  readonly ids: readonly number[];
  readonly spans: readonly (readonly [number, number])[];
  readonly special: readonly number[];
  readonly real: readonly number[];
  readonly words: readonly number[];
  readonly segments: readonly number[] | null;
  readonly truncated: number; // pieces that the model did not read
}

export type NormKind = "layer" | "rms" | "rms_offset" | "unknown"; // rms_offset: the weight is relative to 1 (Gemma)

export interface Model {
  readonly kind: "encoder" | "decoder" | "encoder_decoder";
  readonly family: string;
  readonly d_model: number;
  readonly d_ff: number;
  readonly parameters: number;
  readonly positions: string;
  readonly norm: NormKind;
  readonly norm_eps: number;
  readonly norm_first: boolean;
  readonly gated: boolean;
  readonly activation: string;
  readonly weights_sha256: string | null;
  // null: not known
  readonly implementation: "jumok" | "transformers" | null;
  readonly tokenizer: "sentencepiece" | "tokenizers" | "marian" | null;
  readonly embedding_scale: number | null;
  readonly bias: boolean | null;
  readonly head_norm: boolean | null;
  readonly sublayer_norm: boolean | null;
  readonly layer_kinds: string | null; // of each layer: G, L (local: a window), N (no rotation)
  readonly sliding_window: number | null;
  readonly first_norm?: boolean | null; // false: the first layer of a pre-norm stack begins without a norm
}

export interface Candidate {
  readonly id: number;
  readonly piece: string;
  readonly probability: number;
}

export interface Beam {
  readonly id: number;
  readonly parent: number;
  readonly token: number;
  readonly piece: string;
  readonly score: number;
  readonly ended: boolean;
  readonly best: boolean;
}

export interface Step {
  readonly cache: number;
  readonly before: readonly Candidate[];
  readonly after: readonly Candidate[];
  /** null after the end of the answer, while the search continued. */
  readonly chosen: { readonly id: number; readonly piece: string; readonly log_probability: number } | null;
  readonly beams: readonly Beam[];
}

export interface Decoding {
  readonly method: "greedy" | "beam" | "sampling" | "given";
  readonly settings: Readonly<Record<string, unknown>>;
  readonly text: string | null; // the prompt; null: the target was given
  readonly prompt: number; // negative: the prompt and that many generated tokens have left the window
  readonly steps: readonly Step[];
  readonly output: string;
}

export interface ExplainedWord {
  readonly text: string;
  readonly span: readonly [number, number];
  readonly without: readonly number[];
}

export interface Classification {
  readonly labels: readonly string[];
  readonly sequences: readonly {
    readonly probabilities: readonly number[];
    readonly words: readonly ExplainedWord[];
    readonly agreement: number | null;
  }[];
}

/** A checkpoint: its step, and its score on the development split; null: it was not evaluated. */
export interface Frame {
  readonly step: number;
  readonly metric: string;
  readonly score: number | null;
}

/** A node of a circuit. Its layer is -1 for a token, the number of layers for a logit. */
export interface GraphNode {
  readonly kind: "token" | "feature" | "error" | "logit";
  readonly side: Side;
  readonly layer: number;
  readonly token: number;
  readonly number: number;
  readonly value: number;
  readonly influence: number; // its share of all paths to the logits
  readonly name: string; // with ids and pieces, for tables
  readonly answer: string | null; // the piece or label of a logit
}

/** What a node adds to another: predicted, measured without it, and the head that carries most of it. */
export interface GraphEdge {
  readonly source: number;
  readonly target: number;
  readonly weight: number;
  readonly measured: number;
  readonly head: readonly [BlockName, number, number] | null;
  readonly head_weight: number | null;
}

/** A feature and the texts in which it is most active, as the pieces around its token. */
export interface GraphFeature {
  readonly side: Side;
  readonly layer: number;
  readonly number: number;
  readonly peaks: readonly { readonly pieces: readonly string[]; readonly at: number; readonly value: number }[];
}

export interface CircuitGraph {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[]; // by their share of the influence
  readonly features: readonly GraphFeature[];
  readonly replacement: number;
  readonly completeness: number;
  readonly total_nodes: number;
  readonly total_edges: number;
}

export interface TraceInfo {
  readonly title: string;
  readonly task: string | null;
  readonly model: Model;
  readonly made: Readonly<Record<string, string>>;
  readonly blocks: readonly Block[];
  readonly sides: Readonly<Partial<Record<Side, readonly Sequence[]>>>;
  readonly muted: readonly (readonly [BlockName, number, number])[];
  readonly classification: Classification | null;
  /** The predictions of a regression model, one per sequence. */
  readonly regression: readonly number[] | null;
  readonly next: readonly (readonly Candidate[])[] | null;
  /** The logit lens of sequence 0: candidates after each layer, for each token; 0: before the first layer. */
  readonly lens: readonly (readonly (readonly Candidate[])[])[] | null;
  readonly decoding: Decoding | null;
  /** The decodings of the sequences after the first. */
  readonly more_decodings?: readonly Decoding[];
  /** One per sequence, where each is the text with the weights of one checkpoint of a training. */
  readonly frames?: readonly Frame[];
  /** Of sequence 0, from `jumok circuit`. */
  readonly circuit?: CircuitGraph | null;
  readonly notes: readonly string[];
}

/** One head of one layer, of one sequence of the batch. */
export interface HeadLocation {
  readonly sequence: number;
  readonly block: BlockName;
  readonly layer: number;
  readonly head: number;
}

/** The effect of each head or hidden state on the answer, as `Effects.to_table` in jumok.interpret.interventions. */
export interface Effects {
  readonly intervention: "mute" | "patch_heads" | "patch_hidden";
  readonly measure: "probability" | "log_probability" | "score";
  readonly answer: string;
  readonly value: number;
  readonly other_value: number | null;
  /** (layers, heads) by block; of hidden states (layers, tokens) by side. */
  readonly values: Readonly<Partial<Record<BlockName | Side, readonly (readonly number[])[]>>>;
}
