"""What a model writes for many sources, by the settings in force.

Sources of like length are written for together; no answer depends on its neighbours.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.decoding import (
    DecodingConfig,
    DraftModel,
    GenerationRequest,
    Hypothesis,
    OnToken,
    generate_seq2seq,
    truncate_at_stop,
)
from jumok.decoding.api import default_decoder
from jumok.decoding.build import build_stopping_and_processors
from jumok.decoding.callbacks import StepCallback
from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.decoding.processors import Processor
from jumok.models import EncoderDecoder
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, batches_by_length, collate
from jumok.tasks.inputs.special_tokens import decoder_start_id
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.distributed_map import Codec, distributed_map
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

_WRITTEN: Codec[list[list[Hypothesis]]] = Codec(
    lambda rows: json.dumps([[asdict(one) for one in row] for row in rows]).encode(),
    lambda data: [[Hypothesis(**one) for one in row] for row in json.loads(data)],
)


@dataclass(frozen=True)
class Generated:
    """One text that was written, and how."""

    text: str
    hypothesis: Hypothesis


def effective_config(config: DecodingConfig, model: EncoderDecoder) -> DecodingConfig:
    """The settings as they apply to a model, which holds no more than its positions."""
    return config.capped_at(model.decoder.embedding.max_length)


def check_decoding(recipe: Recipe, model: nn.Module, vocabulary: Tokenizer) -> None:
    """Raises InputError for [decoding] that the vocabulary or the model cannot carry out.

    Before a training, that is, and not when its first answers are to be scored.
    """
    if recipe.task not in GENERATIVE_TASKS:
        return
    config, behind = recipe.decoding, recipe.task == "language_modeling"
    if isinstance(model, EncoderDecoder):
        config = effective_config(config, model)
    limits = [config.max_length]
    build_stopping_and_processors(
        config, vocabulary.eos_id, limits, vocabulary, continues_text=behind
    )


@torch.inference_mode()
def generate_all(
    model: EncoderDecoder,
    sources: Ragged,
    pad_id: int,
    vocabulary: Tokenizer,
    config: DecodingConfig,
    device: torch.device,
    *,
    others: Sequence[EncoderDecoder] = (),
    draft: DraftModel | None = None,
    kernels: DecoderBackends | None = None,
    constraints: Sequence[Processor] = (),
    on_token: OnToken | None = None,
    callback: StepCallback | None = None,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> list[list[Generated]]:
    """The `n_best` outputs for every source, the best first, in the order of the sources.

    `pad_id` fills sources, `vocabulary` is that of the targets. `others` write along, by the mean
    of all probabilities. With a `draft` sources are written for one by one. `kernels` are those of
    the same settings, None: made here. `constraints` hold beside what the settings say. `on_token`
    and `callback` are for a single source.
    """
    kernels = kernels or DecoderBackends(config)
    config = effective_config(config, model)
    rows = config.n_best if config.sample else config.beam

    def begin(
        each: EncoderDecoder, source: Tensor, real: Tensor | None, room: int
    ) -> IncrementalDecoder:
        if kernels.native:
            return kernels.start_seq2seq(each, source, real, room)
        return default_decoder(config)(kernels.model_in_precision(each), source, real, room)

    def write(batch: NDArray[np.int64]) -> list[list[Hypothesis]]:
        source = collate([sources[i] for i in batch], pad_id, device)
        return generate_seq2seq(
            model,
            source.input_ids,
            source.attention_mask,
            GenerationRequest(
                config,
                end_id=vocabulary.eos_id,
                tokenizer=vocabulary,
                constraints=constraints,
                ensemble=others,
                on_token=on_token,
                callback=callback,
                draft=draft,
            ),
            bos_id=decoder_start_id(vocabulary),
            make_decoder=begin,
        )

    at_once = 1 if draft is not None else EVAL_BATCH_TOKENS // rows  # tokens of sources
    plan = batches_by_length(sources, at_once)
    outputs: list[list[Generated]] = [[] for _ in range(len(sources))]
    for batch, answers in zip(plan, distributed_map(plan, write, processes, _WRITTEN), strict=True):
        for i, several in zip(batch, answers, strict=True):
            texts = vocabulary.decode_batch([written.ids for written in several])
            outputs[i] = [
                Generated(truncate_at_stop(text, config.stop), written)
                for text, written in zip(texts, several, strict=True)
            ]
    return outputs


def greedy_config(config: DecodingConfig) -> DecodingConfig:
    """The same settings without a search: quick enough for every epoch.

    >>> print(greedily(DecodingConfig(beam=5, length_penalty=0.6, max_ratio=1.5)))
    max_length=256 max_ratio=1.5 max_extra=10
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
