"""Whole requests: sources to targets, prompts to continuations.

Shapes: N texts, S source tokens, P prompt tokens.
"""

from collections.abc import Callable, Sequence
from itertools import compress

import torch
from torch import Tensor

from jumok.decoding.build import build_stopping_and_processors, continues_text
from jumok.decoding.callbacks import StepCallback
from jumok.decoding.config import DecodingConfig
from jumok.decoding.draft import DraftModel
from jumok.decoding.generate import OnToken, generate
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import (
    AttentionRecordingDecoder,
    CausalLMDecoder,
    IncrementalDecoder,
    Seq2SeqDecoder,
    left_pad,
)
from jumok.decoding.incremental.ensemble import EnsembleDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import Processor
from jumok.decoding.sampling import text_key
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel
from jumok.text.tokenizer import Tokenizer

MakeSeq2SeqDecoder = Callable[[EncoderDecoder, Tensor, Tensor | None, int], IncrementalDecoder]
"""model, source (N, S), real (N, S) or None, room: a writer that has read the source."""

MakeLMDecoder = Callable[[LanguageModel, Tensor | None, int], IncrementalDecoder]
"""model, padding (N) or None, room: a writer of what follows prompts padded on the left."""


def generate_seq2seq(
    model: EncoderDecoder,
    source: Tensor,
    source_mask: Tensor | None,
    config: DecodingConfig,
    *,
    bos_id: int,
    end_id: int,
    vocabulary: Tokenizer | None = None,
    constraints: Sequence[Processor] = (),
    ensemble: Sequence[EncoderDecoder] = (),
    on_token: OnToken | None = None,
    make_decoder: MakeSeq2SeqDecoder | None = None,
    callback: StepCallback | None = None,
    draft: DraftModel | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` targets of each source.

    source (N, S) int64; real (N, S) bool, None without padding, which may stand left or right.
    The vocabulary is that of the targets, asked for when the config holds words. With `others` all
    models write together, as an `EnsembleDecoder` does. `begin` makes the writer of a model; None
    takes the plain one. An `callback` looks on at a single source; a `draft` guesses for one, but
    where it is looked on, for then there are no single steps to see.

    >>> from jumok.models import TransformerConfig
    >>> _ = torch.manual_seed(0)
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, source = EncoderDecoder(small).eval(), torch.tensor([[4, 5, 6]])
    >>> config = DecodingConfig(beam=3, max_length=4)
    >>> [[best]] = generate_seq2seq(model, source, None, config, bos_id=2, end_id=3)
    >>> len(best.log_probabilities)
    4
    """
    if not len(source):
        return []
    lengths = (
        [source.shape[1]] * len(source) if source_mask is None else source_mask.sum(-1).tolist()
    )
    limits = [config.limit(length) for length in lengths]
    stopping, processors = build_stopping_and_processors(
        config, end_id, limits, vocabulary, constraints
    )
    opening = GenerationInputs(
        prompt_ids=torch.full((len(source), 1), bos_id, device=source.device),
        stopping=stopping,
        sample_keys=[text_key(row) for row in _rows(source, source_mask)],
    )
    make_decoder = make_decoder or default_decoder(config)
    writers = [
        make_decoder(each, source, source_mask, opening.max_new_tokens)
        for each in (model, *ensemble)
    ]
    writer = EnsembleDecoder(writers) if ensemble else writers[0]
    if draft is not None and callback is None:
        assert isinstance(draft.model, EncoderDecoder)
        guesser = make_decoder(draft.model, source, source_mask, opening.max_new_tokens)
        return draft.generate(writer, guesser, opening, config, processors, on_token)
    return generate(writer, opening, config, processors, on_token, callback)


def generate_lm(
    model: LanguageModel,
    prompts: Tensor,
    prompt_mask: Tensor | None,
    config: DecodingConfig,
    *,
    end_id: int,
    vocabulary: Tokenizer | None = None,
    constraints: Sequence[Processor] = (),
    ensemble: Sequence[LanguageModel] = (),
    on_token: OnToken | None = None,
    make_decoder: MakeLMDecoder | None = None,
    callback: StepCallback | None = None,
    draft: DraftModel | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` continuations of each prompt, the prompt itself left out.

    prompts (N, P) int64, at least one token each; real (N, P) bool, None without padding, which
    may stand left or right. All else is as in `generate_seq2seq`. Raises InputError where some prompts
    are texts and others none, and the config says what answers begin with or match: a first word
    is spelled otherwise.
    """
    if not len(prompts):
        return []
    texts = _rows(prompts, prompt_mask)
    stopping, processors = build_stopping_and_processors(
        config,
        end_id,
        [config.max_length] * len(texts),
        vocabulary,
        constraints,
        prompts=texts,
        continues_text=continues_text(config, texts, vocabulary),
    )
    first, padding = left_pad(prompts, prompt_mask)
    opening = GenerationInputs(first, stopping, [text_key(text) for text in texts], padding)
    room = first.shape[1] + opening.max_new_tokens - 1  # the last token is written, never read
    make_decoder = make_decoder or _going_on
    writers = [make_decoder(each, padding, room) for each in (model, *ensemble)]
    writer = EnsembleDecoder(writers) if ensemble else writers[0]
    if draft is not None and callback is None:
        assert isinstance(draft.model, LanguageModel)
        guesser = make_decoder(draft.model, padding, room)
        return draft.generate(writer, guesser, opening, config, processors, on_token)
    return generate(writer, opening, config, processors, on_token, callback)


def default_decoder(config: DecodingConfig) -> MakeSeq2SeqDecoder:
    """How a plain model begins to write as the config says: coverage looks at its attention."""
    return _attentive if config.coverage else _plain


def _plain(
    model: EncoderDecoder, source: Tensor, real: Tensor | None, room: int
) -> IncrementalDecoder:
    return Seq2SeqDecoder(model, source, real, capacity=room)


def _attentive(
    model: EncoderDecoder, source: Tensor, real: Tensor | None, room: int
) -> IncrementalDecoder:
    return AttentionRecordingDecoder(model, source, real, capacity=room)


def _going_on(model: LanguageModel, padding: Tensor | None, room: int) -> IncrementalDecoder:
    return CausalLMDecoder(model, padding, capacity=room)


def _rows(ids: Tensor, real: Tensor | None) -> list[list[int]]:
    """The real tokens of each text."""
    masks = torch.ones_like(ids) if real is None else real
    pairs = zip(ids.tolist(), masks.tolist(), strict=True)
    return [list(compress(row, mask)) for row, mask in pairs]
