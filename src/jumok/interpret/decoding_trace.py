"""Playback: a model writes as it always does, or is led through a given target, step by step.

Shapes: T tokens of a target, V vocabulary.
"""

import dataclasses
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from jumok.decoding import DecodingConfig, Hypothesis, StepResult
from jumok.errors import InputError
from jumok.interpret.schema import Decoding, Method
from jumok.interpret.step_recorder import StepRecorder
from jumok.tasks.causal_lm import CausalLMTask
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.pipeline.causal_generation import generate_from_ids, prompt_ids
from jumok.tasks.pipeline.pipeline import GenerativeTask, Pipeline
from jumok.tasks.seq2seq import Seq2SeqTask


def trace_generation(
    loaded: Pipeline, text: str, words: Sequence[str] = ()
) -> tuple[list[int], Decoding]:
    """What a model writes for a text, [BOS] and [EOS] aside, and how it came to each token.

    It is what `loaded(text)` answers, or what `loaded.with_decoding(words)(text)` does:

        ids, decoding = write(jumok.load("runs/koen"), "겨울은 춥다.", ["beam=4"])
        [step.chosen.piece for step in decoding.steps if step.chosen]

    Where several answers are asked for it is the first. Raises InputError for a model that writes
    nothing, and for settings that are not known.
    """
    if words:
        loaded = loaded.with_decoding(words)
    _refuse_silent(loaded)
    assert isinstance(loaded.task, GenerativeTask)  # what is silent was refused
    seen, config = StepRecorder(), loaded.task.effective_decoding(loaded)
    if isinstance(loaded.task, Seq2SeqTask):
        ((best, *_),) = loaded.task.generate(loaded, [text], callback=seen)
        n_given = 1
    else:
        ids = prompt_ids(loaded, text)
        ((best, *_),) = generate_from_ids(loaded, [ids], callback=seen)
        n_given = len(ids)
    return best.hypothesis.ids, Decoding(
        method=_method(config),
        settings=dataclasses.asdict(config),
        prompt=n_given,
        steps=seen.steps(best.hypothesis, loaded.target_vocabulary),
        output=best.text,
        text=text,
    )


def trace_forced(loaded: Pipeline, text: str, target: str) -> Decoding:
    """How likely a model finds each token of a target it did not choose, by one forward pass.

    The target of a sequence-to-sequence model ends with [EOS], its last step; that of a language
    model goes on from the text. Steps tell as `cache` what a writer would have kept. Raises
    InputError for a model that writes nothing, and for a target without tokens or longer than the
    model holds.
    """
    _refuse_silent(loaded)
    if isinstance(loaded.task, Seq2SeqTask):
        log_p, tokens, n_given = _translated(loaded, text, target)
    else:
        log_p, tokens, n_given = _continued(loaded, text, target)
    gains = [float(log_p[t, token]) for t, token in enumerate(tokens)]
    seen, last = StepRecorder(), len(tokens) - 1
    for t, (token, score) in enumerate(zip(tokens, accumulate(gains), strict=True)):
        row = log_p[t : t + 1]  # (1, V)
        seen.on_scores(n_given + t - 1 if t else 0, row, row)
        seen.on_step(_only(token, score, ended=t == last))
    answer = Hypothesis(tokens, sum(gains), finished=True, log_probabilities=gains)
    return Decoding(
        method="given",
        settings={},
        prompt=n_given,
        steps=seen.steps(answer, loaded.target_vocabulary),
        output=target,
        text=text,
    )


Forced = tuple[Tensor, list[int], int]
"""Log-probabilities (T, V) before each token of a target, its tokens, how many were given first."""


def _translated(loaded: Pipeline, text: str, target: str) -> Forced:
    """The target of a sequence-to-sequence model: [BOS] is given, [EOS] wanted."""
    vocabulary, room = loaded.target_vocabulary, loaded.recipe.model.max_length
    encode = Seq2SeqEncoder(loaded.vocabulary, vocabulary, room)
    begin, *tokens = encode.targets([target])[0].tolist()
    source = encode.sources([text])[0].tolist()
    logits = loaded.logits(_batch(source), decoder_input_ids=_batch([begin, *tokens[:-1]]))
    return logits[0].log_softmax(-1).cpu(), tokens, 1


def _continued(loaded: Pipeline, text: str, target: str) -> Forced:
    """The target of a language model: what goes on from the text."""
    ids, tokens = prompt_ids(loaded, text), loaded.vocabulary.encode(target)
    read = [*ids, *tokens[:-1]]
    room = loaded.recipe.model.max_length
    if not tokens:
        raise InputError("a target without tokens came; give some text, or let the model write")
    if len(read) > room:
        raise InputError(
            f"the text and its target take {len(read)} positions and the model holds {room}; "
            "give shorter ones"
        )
    logits = loaded.logits(_batch(read))
    return logits[0, len(ids) - 1 :].log_softmax(-1).cpu(), tokens, len(ids)


def _batch(ids: Sequence[int]) -> Tensor:
    return torch.tensor([ids], dtype=torch.int64)


def _only(token: int, score: float, *, ended: bool) -> StepResult:
    """The one token that goes on from the one row."""
    return StepResult(
        row=torch.tensor([0]),
        token=torch.tensor([token]),
        score=torch.tensor([score]),
        ended=torch.tensor([ended]),
    )


def _method(config: DecodingConfig) -> Method:
    if config.sample:
        return "sampling"
    return "beam" if config.beam > 1 else "greedy"


def _refuse_silent(loaded: Pipeline) -> None:
    """Raises InputError for a model that writes nothing."""
    if not isinstance(loaded.task, Seq2SeqTask | CausalLMTask):
        raise InputError(
            f"a model of the task {loaded.recipe.task} writes nothing; give one of "
            "sequence_to_sequence or language_modeling"
        )
    if not loaded.has_logits:
        raise InputError(f"a {loaded.architecture} has no head that writes; give a model with one")
