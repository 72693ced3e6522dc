"""Generation in one call: sources to targets, prompts to continuations.

Shapes: N texts, S source tokens, P prompt tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from torch import Tensor

from jumok.decoding.build import build_stopping_and_processors, continues_text
from jumok.decoding.callbacks import OnToken, StepCallback
from jumok.decoding.config import DecodingConfig
from jumok.decoding.generate import generate
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import (
    AttentionRecordingDecoder,
    CausalLMDecoder,
    GenerativeModel,
    IncrementalDecoder,
    Seq2SeqDecoder,
    left_pad,
)
from jumok.decoding.incremental.ensemble import EnsembleDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import Processor
from jumok.decoding.random_numbers import text_key
from jumok.decoding.speculative import DraftModel
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel
from jumok.text.tokenizer import Tokenizer

MakeSeq2SeqDecoder = Callable[[EncoderDecoder, Tensor, Tensor | None, int], IncrementalDecoder]
"""model, source (N, S), source mask (N, S) or None, capacity -> a decoder that has read it."""

MakeLMDecoder = Callable[[LanguageModel, Tensor | None, int], IncrementalDecoder]
"""model, padding (N) or None, capacity -> a decoder for prompts that are padded on the left."""


@dataclass(frozen=True)
class GenerationRequest:
    """How to generate, whatever the inputs are.

    With an `ensemble` all models generate together (`EnsembleDecoder`). A `draft` proposes tokens
    for speculative decoding of a single text; it is not used with a `callback`, because there are
    no single steps then. A `callback` is for a single text.

    >>> request = GenerationRequest(DecodingConfig(beam=4, length_penalty=0.6), end_id=3)
    >>> request.config.beam, request.end_id
    (4, 3)
    """

    config: DecodingConfig
    end_id: int
    more_end_ids: tuple[int, ...] = ()  # further tokens that end a text
    tokenizer: Tokenizer | None = None  # of the outputs; required if the config contains text
    constraints: Sequence[Processor] = ()  # in addition to those of the config
    ensemble: Sequence[GenerativeModel] = ()  # further models of the same kind
    draft: DraftModel | None = None
    on_token: OnToken | None = None
    callback: StepCallback | None = None


def generate_seq2seq(
    model: EncoderDecoder,
    source: Tensor,
    source_mask: Tensor | None,
    request: GenerationRequest,
    *,
    bos_id: int,
    make_decoder: MakeSeq2SeqDecoder | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` targets of each source.

    source (N, S) int64; source_mask (N, S) bool, True = real token, None without padding, which
    may be left or right. `make_decoder` replaces `default_decoder`.

    >>> from jumok.models import TransformerConfig
    >>> _ = torch.manual_seed(0)
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, source = EncoderDecoder(small).eval(), torch.tensor([[4, 5, 6]])
    >>> request = GenerationRequest(DecodingConfig(beam=3, max_length=4), end_id=3)
    >>> [[best]] = generate_seq2seq(model, source, None, request, bos_id=2)
    >>> len(best.log_probabilities)
    4
    """
    if not len(source):
        return []
    texts = _token_rows(source, source_mask)
    stopping, processors = build_stopping_and_processors(
        request.config,
        request.end_id,
        [request.config.limit(len(text)) for text in texts],
        request.tokenizer,
        request.constraints,
        more_end_ids=request.more_end_ids,
    )
    inputs = GenerationInputs(
        prompt_ids=torch.full((len(source), 1), bos_id, device=source.device),
        stopping=stopping,
        sample_keys=[text_key(text) for text in texts] if request.config.sample else [],
    )
    make = make_decoder or default_decoder(request.config)

    def start(each: GenerativeModel) -> IncrementalDecoder:
        assert isinstance(each, EncoderDecoder)
        return make(each, source, source_mask, inputs.max_new_tokens)

    return _generate(model, start, inputs, processors, request)


def generate_lm(
    model: LanguageModel,
    prompts: Tensor,
    prompt_mask: Tensor | None,
    request: GenerationRequest,
    *,
    make_decoder: MakeLMDecoder | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` continuations of each prompt, without the prompt.

    prompts (N, P) int64, at least one token each; prompt_mask (N, P) bool, True = real token, None
    without padding, which may be left or right. `make_decoder` replaces `CausalLMDecoder`. Raises
    InputError where some prompts decode to text and others do not, and the config constrains how
    an output starts: the tokens of a first word differ from those of a later one.

    >>> from jumok.models import TransformerConfig
    >>> _ = torch.manual_seed(0)
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, prompts = LanguageModel(small).eval(), torch.tensor([[4, 5], [6, 7]])
    >>> request = GenerationRequest(DecodingConfig(max_length=3), end_id=3)
    >>> [len(best.log_probabilities) for [best] in generate_lm(model, prompts, None, request)]
    [3, 3]
    """
    if not len(prompts):
        return []
    texts = _token_rows(prompts, prompt_mask)
    stopping, processors = build_stopping_and_processors(
        request.config,
        request.end_id,
        [request.config.max_length] * len(texts),
        request.tokenizer,
        request.constraints,
        more_end_ids=request.more_end_ids,
        prompts=texts,
        continues_text=continues_text(request.config, texts, request.tokenizer),
    )
    prompt_ids, padding = left_pad(prompts, prompt_mask)
    sample_keys = [text_key(text) for text in texts] if request.config.sample else []
    inputs = GenerationInputs(prompt_ids, stopping, sample_keys, padding)
    capacity = prompt_ids.shape[1] + inputs.max_new_tokens - 1  # the last token is never an input
    make = make_decoder or _causal_lm_decoder

    def start(each: GenerativeModel) -> IncrementalDecoder:
        assert isinstance(each, LanguageModel)
        return make(each, padding, capacity)

    return _generate(model, start, inputs, processors, request)


def default_decoder(config: DecodingConfig) -> MakeSeq2SeqDecoder:
    """The torch decoder that the config needs: coverage reads the cross-attention weights."""

    def make(
        model: EncoderDecoder, source: Tensor, source_mask: Tensor | None, capacity: int
    ) -> IncrementalDecoder:
        kind = AttentionRecordingDecoder if config.coverage else Seq2SeqDecoder
        return kind(model, source, source_mask, capacity=capacity)

    return make


def _causal_lm_decoder(
    model: LanguageModel, padding: Tensor | None, capacity: int
) -> IncrementalDecoder:
    return CausalLMDecoder(model, padding, capacity=capacity)


def _generate(
    model: GenerativeModel,
    start: Callable[[GenerativeModel], IncrementalDecoder],
    inputs: GenerationInputs,
    processors: Sequence[Processor],
    request: GenerationRequest,
) -> list[list[Hypothesis]]:
    """Generation with one model, an ensemble, or a target and its draft."""
    decoders = [start(each) for each in (model, *request.ensemble)]
    decoder = EnsembleDecoder(decoders) if request.ensemble else decoders[0]
    config, on_token, draft = request.config, request.on_token, request.draft
    if draft is not None and request.callback is None:
        return draft.generate(decoder, start(draft.model), inputs, config, processors, on_token)
    return generate(decoder, inputs, config, processors, on_token, request.callback)


def _token_rows(ids: Tensor, mask: Tensor | None) -> list[list[int]]:
    """The tokens of each row without padding."""
    masks = torch.ones_like(ids) if mask is None else mask
    pairs = zip(ids.tolist(), masks.tolist(), strict=True)
    return [list(compress(row, real)) for row, real in pairs]
