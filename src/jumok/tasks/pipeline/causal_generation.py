"""Text continuation: a causal language model generates what follows each text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from jumok.decoding import (
    DraftModel,
    OnToken,
    TextStreamer,
    generate_lm,
)
from jumok.decoding.callbacks import StepCallback
from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder
from jumok.decoding.incremental.sliding_window import SlidingWindowDecoder
from jumok.errors import InputError
from jumok.models import LanguageModel
from jumok.tasks.inputs.batches import collate
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.generated import Generated, added_texts, to_generated_text
from jumok.tasks.pipeline.generation import generation_request
from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline, as_generation
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline

BATCH_SIZE = 32  # hypotheses in a batch
MAX_LOGITS = 2**22  # of the tokens that are scored together


def generate(pipeline: Pipeline, texts: Sequence[str]) -> list[GeneratedText]:
    """The continuation of each text, without the text, as the recipe's [decoding] specifies.

    Prompts of similar length form a batch. Prompts that decode to no text are separate where the
    settings constrain how outputs start, because their outputs start a text. Where the window of
    the model would slide, a batch has prompts of one length only.
    """
    generation = as_generation(pipeline)
    config = pipeline.recipe.decoding
    batch_size = max(BATCH_SIZE // (config.n_best if config.sample else config.beam), 1)
    if generation.draft_model is not None:
        batch_size = 1  # each text would accept a different number of draft tokens
    prompts = [prompt_ids(pipeline, text) for text in texts]
    continues_text = [True] * len(texts)
    if config.constrains_start:
        continues_text = [bool(text) for text in pipeline.vocabulary.decode_batch(prompts)]
    order = sorted(range(len(texts)), key=lambda i: (continues_text[i], len(prompts[i])))
    outputs: dict[int, GeneratedText] = {}
    while order:
        batch = [i for i in order[:batch_size] if continues_text[i] == continues_text[order[0]]]
        if not _can_pad(generation, prompts[batch[-1]]):  # the longest of them
            batch = [i for i in batch if len(prompts[i]) == len(prompts[batch[0]])]
        order = order[len(batch) :]
        found = generate_from_ids(pipeline, [prompts[i] for i in batch])
        for i, candidates in zip(batch, found, strict=True):
            outputs[i] = to_generated_text(texts[i], candidates, pipeline.vocabulary, config.n_best)
    return [outputs[i] for i in range(len(texts))]


def stream(pipeline: Pipeline, text: str, on_text: Callable[[str], None]) -> GeneratedText:
    """Continue one text; pass each part to `on_text` as soon as it is final."""
    return continue_prompt(pipeline, prompt_ids(pipeline, text), on_text, text=text)


def continue_prompt(
    pipeline: Pipeline,
    ids: list[int],
    on_text: Callable[[str], None],
    *,
    text: str = "",
    end_ids: tuple[int, ...] = (),
) -> GeneratedText:
    """Continue the ids of a prompt, which spell `text`; each final part goes to `on_text`.

    `end_ids` are tokens that end a text besides those of the model's files.
    """
    stop = pipeline.recipe.decoding.stop
    streamer = TextStreamer(pipeline.vocabulary, lambda _, part: on_text(part), stop)
    streamer.set_prompt(0, ids)
    (candidates,) = generate_from_ids(pipeline, [ids], streamer.push, end_ids=end_ids)
    streamer.finish()
    return to_generated_text(text, candidates, pipeline.vocabulary, pipeline.recipe.decoding.n_best)


@dataclass(frozen=True)
class TokenScore:
    """log p of a token after those before it, and of the most probable ones in its place."""

    log_probability: float
    top: tuple[tuple[int, float], ...]  # ids and log p, the best first


@torch.inference_mode()
def score_ids(pipeline: Pipeline, ids: Sequence[int], n_top: int) -> list[TokenScore | None]:
    """The score of each id by the model that decodes, None for the first one.

    Neither temperature nor other settings of decoding change it. Raises InputError for more ids
    than the model reads at once.
    """
    generation = as_generation(pipeline)
    model, *_ = _models(generation)
    limit = model.decoder.embedding.max_length
    if len(ids) > limit:
        raise InputError(
            "pipeline.scored_text_too_long",
            "log-probabilities need at most {limit:,} tokens with the generated ones, got {n:,}; "
            "shorten the prompt",
            limit=limit,
            n=len(ids),
        )
    decoder = _make_decoder(generation.backends, model, None, limit)
    scores: list[TokenScore | None] = [None]
    size = max(MAX_LOGITS // decoder.vocabulary_size, 1)
    for start in range(0, len(ids) - 1, size):
        part = torch.tensor([ids[start : min(start + size, len(ids) - 1)]], device=pipeline.device)
        log_p = decoder.step_all(part)[0].log_softmax(-1)  # (T, V)
        following = torch.tensor(ids[start + 1 : start + 1 + len(log_p)], device=pipeline.device)
        own = log_p.gather(1, following[:, None])[:, 0].tolist()
        top = log_p.topk(min(n_top, log_p.shape[1]), sorted=True)
        rows = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        scores += [
            TokenScore(one, tuple(zip(*row, strict=True)))
            for one, row in zip(own, rows, strict=True)
        ]
    return scores


def prompt_ids(pipeline: Pipeline, text: str) -> list[int]:
    """The ids of a text as the model reads it before it continues the text.

    An imported model reads what its tokenizer's own template adds (the ids of AutoTokenizer), one
    trained with jumok [BOS] and the text, or the text alone after one stream of documents.
    """
    ids = pipeline.vocabulary.encode(text)
    before, after = special_ids_around(pipeline, ids)
    return [*before, *ids, *after]


def special_ids_around(pipeline: Pipeline, ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """The special ids before and after the ids of a prompt; an empty row becomes [BOS]."""
    tokenizer = pipeline.vocabulary
    if pipeline.origin is not None:
        special = tokenizer.input_template.apply_one((), None, None).ids
        n_before, _ = tokenizer.input_template.n_before_and_after()
        if ids or special:
            return special[:n_before], special[n_before:]
    elif ids and pipeline.recipe.windows.across_documents:
        return [], []
    return [tokenizer.decoder_start_id], []


@torch.inference_mode()
def generate_from_ids(
    pipeline: Pipeline,
    prompts: Sequence[list[int]],
    on_token: OnToken | None = None,
    callback: StepCallback | None = None,
    *,
    end_ids: tuple[int, ...] = (),
) -> list[list[Generated]]:
    """The `n_best` continuations of some prompts; a `callback` needs a single prompt.

    The prompts are of one length, or fit the window of the model with all generated tokens.
    `end_ids` are tokens that end a text besides those of the model's files.
    """
    generation = as_generation(pipeline)
    model, *ensemble = _models(generation)
    request = generation_request(pipeline)
    batch = collate(prompts, 0, pipeline.device, left=True)
    found = generate_lm(
        model,
        batch.input_ids,
        batch.attention_mask,
        replace(
            request,
            more_end_ids=(*request.more_end_ids, *end_ids),
            ensemble=ensemble,
            on_token=on_token,
            callback=callback,
            draft=_draft_model(generation, batch.input_ids.shape[1]),
        ),
        make_decoder=partial(_make_decoder, generation.backends),
    )
    tokenizer, stop = pipeline.vocabulary, pipeline.recipe.decoding.stop
    return [
        added_texts(tokenizer, prompt, hypotheses, stop)
        for prompt, hypotheses in zip(prompts, found, strict=True)
    ]


def _models(pipeline: GenerationPipeline) -> list[LanguageModel]:
    """The model, and the others of the ensemble."""
    models = (pipeline.model, *pipeline.ensemble_models)
    return [model for model in models if isinstance(model, LanguageModel)]


def _make_decoder(
    backends: DecoderBackends, model: LanguageModel, padding: Tensor | None, capacity: int
) -> IncrementalDecoder:
    """A decoder with a sliding window for prompts of one length; a fixed window for padded ones."""
    native = backends.is_native(model)
    if padding is not None and native:
        return backends.start_lm(model, capacity, padding)
    model = backends.model_in_precision(model)
    if padding is not None:
        return CausalLMDecoder(model, padding, capacity=capacity)
    return SlidingWindowDecoder(model, partial(backends.start_lm, model) if native else None)


def _can_pad(pipeline: GenerationPipeline, longest: Sequence[int]) -> bool:
    """Whether prompts up to this one may be padded: no window slides."""
    window = min(model.decoder.embedding.max_length for model in _models(pipeline))
    n_tokens = len(longest) + pipeline.recipe.decoding.max_length - 1
    return n_tokens <= window


def _draft_model(pipeline: GenerationPipeline, prompt_length: int) -> DraftModel | None:
    """The draft model, where prompt and output fit its window and the model's.

    Where a window would slide, the number of draft tokens would change where it slides.
    """
    draft = pipeline.draft_model
    if draft is None:
        return None
    assert isinstance(draft.model, LanguageModel)
    models = (*_models(pipeline), draft.model)
    window = min(model.decoder.embedding.max_length for model in models)
    return draft if prompt_length + pipeline.recipe.decoding.max_length <= window else None
