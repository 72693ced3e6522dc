"""Texts that go on: a language model writes what follows each of them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jumok.decoding import (
    DraftModel,
    GenerationRequest,
    Hypothesis,
    OnToken,
    TextStreamer,
    generate_lm,
    truncate_at_stop,
)
from jumok.decoding.callbacks import StepCallback
from jumok.decoding.incremental.decoder import CausalLMDecoder, IncrementalDecoder
from jumok.decoding.incremental.sliding_window import SlidingWindowDecoder
from jumok.models import LanguageModel
from jumok.tasks.inputs.batches import collate
from jumok.tasks.inputs.special_tokens import decoder_start_id
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.generation import Generated
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.told import to_generated_text
from jumok.text.streaming import common_prefix_length

if TYPE_CHECKING:
    from jumok.tasks.pipeline.pipeline import Pipeline

BATCH_SIZE = 32  # written at once


def generate(loaded: "Pipeline", texts: Sequence[str]) -> list[GeneratedText]:
    """The continuation alone of each text, as the recipe's [decoding] says.

    Texts of like length are written together; those that say nothing apart from the others where
    words are set, for their answers begin a text. Where the model's window would slide they are of
    equally many tokens, so that it slides where it would alone; the C++ kernel asks for that too.
    """
    config = loaded.recipe.decoding
    at_once = max(BATCH_SIZE // (config.n_best if config.sample else config.beam), 1)
    if loaded.draft_model is not None:
        at_once = 1  # of several texts each would keep another number of guesses
    prompts = [prompt_ids(loaded, text) for text in texts]
    behind = [True] * len(texts)
    if config.constrains_start:
        behind = [bool(said) for said in loaded.vocabulary.decode_batch(prompts)]
    order = sorted(range(len(texts)), key=lambda i: (behind[i], len(prompts[i])))
    answers: dict[int, GeneratedText] = {}
    while order:
        part = [i for i in order[:at_once] if behind[i] == behind[order[0]]]
        if not _pads(loaded, prompts[part[-1]]):  # the longest of them
            part = [i for i in part if len(prompts[i]) == len(prompts[part[0]])]
        order = order[len(part) :]
        found = generate_from_ids(loaded, [prompts[i] for i in part])
        for i, several in zip(part, found, strict=True):
            answers[i] = to_generated_text(loaded, texts[i], several)
    return [answers[i] for i in range(len(texts))]


def stream(loaded: "Pipeline", text: str, on_text: Callable[[str], None]) -> GeneratedText:
    """The continuation of one text, its parts given out as soon as they are certain."""
    ids = prompt_ids(loaded, text)
    stops = loaded.recipe.decoding.stop
    streams = TextStreamer(loaded.vocabulary, lambda _, part: on_text(part), stops)
    streams.set_prompt(0, ids)
    (several,) = generate_from_ids(loaded, [ids], streams.push)
    streams.finish()
    return to_generated_text(loaded, text, several)


def prompt_ids(loaded: "Pipeline", text: str) -> list[int]:
    """[BOS] and the text; of one stream of documents the text alone, which may stand anywhere."""
    ids = loaded.vocabulary.encode(text)
    if ids and loaded.recipe.windows.across_documents:
        return ids
    return [decoder_start_id(loaded.vocabulary), *ids]


@torch.inference_mode()
def generate_from_ids(
    loaded: "Pipeline",
    prompts: Sequence[list[int]],
    on_token: OnToken | None = None,
    callback: StepCallback | None = None,
) -> list[list[Generated]]:
    """The `n_best` continuations of some prompts; an `callback` looks on at one alone.

    They are of one length, or fit the model's window with all that may follow.
    """
    model, *others = _models(loaded)
    box = collate(prompts, 0, loaded.device, left=True)
    found = generate_lm(
        model,
        box.input_ids,
        box.attention_mask,
        GenerationRequest(
            loaded.recipe.decoding,
            end_id=loaded.vocabulary.eos_id,
            tokenizer=loaded.vocabulary,
            constraints=loaded.processors,
            ensemble=others,
            on_token=on_token,
            callback=callback,
            draft=_draft(loaded, box.input_ids.shape[1]),
        ),
        make_decoder=partial(_begin, loaded.backends),
    )
    return [_outputs(loaded, *pair) for pair in zip(prompts, found, strict=True)]


def _models(loaded: "Pipeline") -> list[LanguageModel]:
    """The model, and those that write along."""
    return [m for m in (loaded.model, *loaded.ensemble_models) if isinstance(m, LanguageModel)]


def _begin(
    kernels: DecoderBackends, model: LanguageModel, padding: Tensor | None, room: int
) -> IncrementalDecoder:
    """One that goes on without an end from prompts of one length; from padded ones up to theirs."""
    model = kernels.model_in_precision(model)
    if padding is not None:
        return CausalLMDecoder(model, padding, capacity=room)
    return SlidingWindowDecoder(model, partial(kernels.start_lm, model) if kernels.native else None)


def _pads(loaded: "Pipeline", longest: Sequence[int]) -> bool:
    """Whether prompts up to this one may be padded: no window slides, and the writer knows how."""
    window = min(model.decoder.embedding.max_length for model in _models(loaded))
    most = len(longest) + loaded.recipe.decoding.max_length - 1
    return not loaded.backends.native and most <= window


def _draft(loaded: "Pipeline", n_given: int) -> DraftModel | None:
    """Who guesses, where so many tokens and all that may follow fit its window and the model's.

    Where a window would slide, a guess more or less would slide it elsewhere: nothing is guessed.
    """
    draft = loaded.draft_model
    if draft is None:
        return None
    assert isinstance(draft.model, LanguageModel)
    models = (*_models(loaded), draft.model)
    windows = (model.decoder.embedding.max_length for model in models)
    return draft if n_given + loaded.recipe.decoding.max_length <= min(windows) else None


def _outputs(
    loaded: "Pipeline", ids: Sequence[int], several: Sequence[Hypothesis]
) -> list[Generated]:
    """What each continuation adds to the prompt: a space before its first word is its own."""
    before, *wholes = loaded.vocabulary.decode_batch([ids, *([*ids, *w.ids] for w in several)])
    stops = loaded.recipe.decoding.stop
    return [
        Generated(truncate_at_stop(whole[common_prefix_length(before, whole) :], stops), written)
        for whole, written in zip(wholes, several, strict=True)
    ]
