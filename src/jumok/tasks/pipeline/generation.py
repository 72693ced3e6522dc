"""Generation for many sources, and generated text as outputs with scores and alignments.

Sources of similar length form a batch; no output depends on the others in its batch.
"""

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.decoding import (
    DecodingConfig,
    GenerationRequest,
    Hypothesis,
    generate_seq2seq,
)
from jumok.decoding.alignment import align
from jumok.decoding.api import default_decoder
from jumok.decoding.build import build_stopping_and_processors
from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, PaddedBatch, batches_by_length, collate
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.distributed_map import Codec, distributed_map
from jumok.tasks.pipeline.generated import Generated, decoded_texts
from jumok.tasks.pipeline.generation_pipeline import as_generation
from jumok.tasks.pipeline.links import attention_links
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, piece_or_empty

if TYPE_CHECKING:
    from jumok.native.recorded_alignment import AligningDecoder

DECIMALS = 6  # of an alignment weight

_HYPOTHESES: Codec[list[list[Hypothesis]]] = Codec(
    lambda rows: json.dumps([[asdict(one) for one in row] for row in rows]).encode(),
    lambda data: [[Hypothesis(**one) for one in row] for row in json.loads(data)],
)


@dataclass(frozen=True)
class AlignedOutput:
    """The pieces of a source, and the attention weights of each generated token on them."""

    source: tuple[str, ...]  # (S)
    alignment: tuple[tuple[float, ...], ...]  # (T, S); each row sums to 1


def effective_config(config: DecodingConfig, model: EncoderDecoder) -> DecodingConfig:
    """The settings, limited to the number of positions of the decoder."""
    return config.capped_at(model.decoder.embedding.max_length)


def check_decoding(config: DecodingConfig, model: nn.Module, tokenizer: Tokenizer) -> None:
    """Raise InputError for [decoding] that the tokenizer or the model does not support.

    Called before a training, so that it does not fail at its first evaluation.
    """
    if not isinstance(model, EncoderDecoder | LanguageModel):
        return
    if isinstance(model, EncoderDecoder):
        config = effective_config(config, model)
    build_stopping_and_processors(
        config,
        tokenizer.eos_id,
        [config.max_length],
        tokenizer,
        continues_text=isinstance(model, LanguageModel),
    )


@torch.inference_mode()
def generate_all(
    model: EncoderDecoder,
    sources: Ragged,
    pad_id: int,
    request: GenerationRequest,
    *,
    backends: DecoderBackends | None = None,
    processes: ProcessGroup = SINGLE_PROCESS,
    keep_alignment: bool = False,
) -> list[list[Generated]]:
    """The `n_best` outputs of every source, the best first, in the order of the sources.

    `pad_id` pads sources; `request.tokenizer` is that of the targets. With a draft model the
    sources are decoded one by one. `backends` are those of the same settings; None creates them.
    With `keep_alignment` the C++ kernel keeps the cross-attention of each token.
    """
    tokenizer, config = request.tokenizer, effective_config(request.config, model)
    assert tokenizer is not None
    request = replace(request, config=config)
    backends = backends or DecoderBackends(config)
    device = next(model.parameters()).device
    aligning: list[AligningDecoder] = []  # of the batch that is being decoded

    def make_decoder(
        each: EncoderDecoder, source: Tensor, source_mask: Tensor | None, capacity: int
    ) -> IncrementalDecoder:
        if backends.is_native(each):
            if not keep_alignment or each is not model:
                return backends.start_seq2seq(each, source, source_mask, capacity)
            aligning.append(backends.start_aligning(each, source, source_mask, capacity))
            return aligning[-1]
        plain = backends.model_in_precision(each)
        return default_decoder(config)(plain, source, source_mask, capacity)

    def generate(batch: NDArray[np.int64]) -> list[list[Hypothesis]]:
        source = collate([sources[i] for i in batch], pad_id, device)
        aligning.clear()
        rows = generate_seq2seq(
            model,
            source.input_ids,
            source.attention_mask,
            request,
            bos_id=tokenizer.decoder_start_id,
            make_decoder=make_decoder,
        )
        return _with_attention(rows, aligning[0], source, request, tokenizer) if aligning else rows

    rows = config.n_best if config.sample else config.beam
    batch_tokens = 1 if request.draft is not None else EVAL_BATCH_TOKENS // rows
    index_batches = batches_by_length(sources, batch_tokens)
    results = distributed_map(index_batches, generate, processes, _HYPOTHESES)
    outputs: list[list[Generated]] = [[] for _ in range(len(sources))]
    for batch, rows_of_batch in zip(index_batches, results, strict=True):
        for i, hypotheses in zip(batch, rows_of_batch, strict=True):
            outputs[i] = decoded_texts(tokenizer, hypotheses, config.stop)
    return outputs


def _with_attention(
    rows: list[list[Hypothesis]],
    decoder: "AligningDecoder",
    source: PaddedBatch,
    request: GenerationRequest,
    tokenizer: Tokenizer,
) -> list[list[Hypothesis]]:
    """The hypotheses with the attention (T, S) that the decoder has kept of their tokens."""
    mask = source.attention_mask
    widths = [source.input_ids.shape[1]] * len(rows) if mask is None else mask.sum(1).tolist()

    def attention(n: int, one: Hypothesis) -> list[list[float]] | None:
        tokens = [*one.ids, request.end_id][: len(one.log_probabilities)]
        found = decoder.alignment(n, [tokenizer.decoder_start_id, *tokens[:-1]])
        return None if found is None else _rounded(found[:, : widths[n]])

    return [
        [replace(one, attention=attention(n, one)) for one in row] for n, row in enumerate(rows)
    ]


def greedy_config(config: DecodingConfig) -> DecodingConfig:
    """These settings with greedy search, fast enough for every evaluation of a training.

    >>> print(greedy_config(DecodingConfig(beam=5, length_penalty=0.6, max_ratio=1.5)))
    max_length=256 max_ratio=1.5 max_extra=10 kernel='torch'
    """
    return replace(
        config,
        beam=1,
        n_best=1,
        sample=False,
        temperature=1.0,
        typical_p=1.0,
        length_penalty=1.0,
        coverage=0.0,
        kernel="torch",
        precision="float32",
    )


def generation_request(pipeline: Pipeline) -> GenerationRequest:
    """The request of a pipeline's recipe, ensemble, draft model and generation_config.json."""
    generation = as_generation(pipeline)
    return GenerationRequest(
        pipeline.recipe.decoding,
        end_id=pipeline.target_vocabulary.eos_id,
        more_end_ids=generation.more_end_ids,
        tokenizer=pipeline.target_vocabulary,
        constraints=generation.processors,
        ensemble=generation.ensemble_models,  # type: ignore[arg-type]  # checked by .ensemble
        draft=generation.draft_model,
    )


def align_output(pipeline: Pipeline, output: GeneratedText) -> AlignedOutput:
    """The cross-attention of each token of the best output, averaged over layers and heads.

    As the C++ kernel has kept it (`Pipeline.with_alignment`), else computed by one more forward
    pass of the run itself, also in an ensemble. Raises InputError for a model without a source.
    """
    if not isinstance(pipeline.model, EncoderDecoder):
        raise InputError(
            "pipeline.no_alignments",
            "alignments need a run of sequence_to_sequence, got {task}, which has no "
            "cross-attention",
            task=pipeline.recipe.task,
        )
    tokenizer, target_tokenizer = pipeline.vocabulary, pipeline.target_vocabulary
    encode = Seq2SeqEncoder(tokenizer, target_tokenizer, pipeline.recipe.model.max_length)
    source = encode.sources([output.text])[0]
    weights = output.attention
    if weights is None:
        (found,) = align(
            pipeline.model,
            torch.tensor([source.tolist()], device=pipeline.device),
            None,
            [[token.id for token in output.tokens]],
            bos_id=target_tokenizer.decoder_start_id,
        )
        weights = _rounded(found.weights.cpu().numpy())
    return AlignedOutput(
        tuple(piece_or_empty(tokenizer, id_) for id_ in source), tuple(map(tuple, weights))
    )


def linked_output(pipeline: Pipeline, output: GeneratedText) -> GeneratedText:
    """An output with the links of its tokens, from `align_output`."""
    aligned = align_output(pipeline, output)
    pieces = [token.piece for token in output.tokens]
    weights = np.array(aligned.alignment, np.float32).reshape(len(pieces), len(aligned.source))
    least = pipeline.recipe.decoding.alignment
    links = attention_links(output.text, aligned.source, output.output, pieces, weights, least)
    return replace(output, links=links)


def _rounded(weights: NDArray[np.float32]) -> list[list[float]]:
    """Weights (T, S) as lists of numbers with few digits."""
    return np.round(weights.astype(np.float64), DECIMALS).tolist()  # type: ignore[no-any-return]
