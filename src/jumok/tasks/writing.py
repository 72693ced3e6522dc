"""What a model writes for many sources, by the settings in force.

Sources of like length are written for together; no answer depends on its neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from jumok.data.ragged import Ragged
from jumok.decoding import DecodingConfig, OnToken, Written, cut, write_targets
from jumok.decoding.processors import Processor
from jumok.models import EncoderDecoder
from jumok.tasks.batches import in_order_of_length, padded
from jumok.tasks.frames import target_begin
from jumok.tasks.kernels import Kernels
from jumok.text.vocabulary import Vocabulary

ANSWERING_TOKENS = 4_096  # source tokens of a batch, each counted once for every row written of it


@dataclass(frozen=True)
class Output:
    """One text that was written, and how."""

    text: str
    written: Written


def in_force(config: DecodingConfig, model: EncoderDecoder) -> DecodingConfig:
    """The settings as they apply to a model, which holds no more than its positions."""
    return config.within(model.decoder.embedding.max_length)


@torch.inference_mode()
def write_all(
    model: EncoderDecoder,
    sources: Ragged,
    pad_id: int,
    vocabulary: Vocabulary,
    config: DecodingConfig,
    device: torch.device,
    others: Sequence[EncoderDecoder] = (),
    on_token: OnToken | None = None,
    kernels: Kernels | None = None,
    constraints: Sequence[Processor] = (),
) -> list[list[Output]]:
    """The `n_best` outputs for every source, the best first, in the order of the sources.

    `pad_id` fills sources, `vocabulary` is that of the targets. `others` write along, by the mean
    of all probabilities. `on_token` is for a single source. `kernels` are those of the same
    settings, None: made here. `constraints` hold beside what the settings say.
    """
    kernels = kernels or Kernels(config)
    config = in_force(config, model)
    rows = config.n_best if config.sample else config.beam
    outputs: list[list[Output]] = [[] for _ in range(len(sources))]
    for batch in in_order_of_length(sources, ANSWERING_TOKENS // rows):
        source = padded([sources[i] for i in batch], pad_id, device)
        answers = write_targets(
            model,
            source.ids,
            source.real,
            config,
            bos_id=target_begin(vocabulary),
            end_id=vocabulary.eos_id,
            vocabulary=vocabulary,
            constraints=constraints,
            others=others,
            on_token=on_token,
            begin=kernels.begin_target if kernels.native else None,
        )
        for i, several in zip(batch, answers, strict=True):
            texts = vocabulary.decode_batch([written.ids for written in several])
            outputs[i] = [
                Output(cut(text, config.stop), written)
                for text, written in zip(texts, several, strict=True)
            ]
    return outputs


def greedily(config: DecodingConfig) -> DecodingConfig:
    """The same settings without a search: quick enough for every epoch.

    >>> print(greedily(DecodingConfig(beam=5, length_penalty=0.6, max_ratio=1.5)))
    max_length=256 max_ratio=1.5
    """
    return replace(
        config,
        beam=1,
        n_best=1,
        sample=False,
        temperature=1.0,
        length_penalty=1.0,
        coverage=0.0,
        kernel="plain",
        precision="float32",
    )
