"""The decoding part of a trace: every step of a generation, or of teacher forcing.

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
    pipeline: Pipeline, text: str, overrides: Sequence[str] = ()
) -> tuple[list[int], Decoding]:
    """The generated tokens for a text, without [BOS] and [EOS], and every step.

    The same as `pipeline.with_decoding(overrides)(text)` generates; the best of several hypotheses.

        ids, decoding = trace_generation(jumok.load("runs/koen"), "겨울은 춥다.", ["beam=4"])
        [step.chosen.piece for step in decoding.steps if step.chosen]

    >>> import jumok
    >>> ids, decoding = trace_generation(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> decoding.method, decoding.output, len(decoding.steps) - len(ids)  # the last step is [EOS]
    ('greedy', 'Winter is cold.', 1)

    Raises InputError for a model that generates no text, and for unknown settings.
    """
    if overrides:
        pipeline = pipeline.with_decoding(overrides)
    _check_generative(pipeline)
    assert isinstance(pipeline.task, GenerativeTask)  # checked above
    recorder, config = StepRecorder(), pipeline.task.effective_decoding(pipeline)
    if isinstance(pipeline.task, Seq2SeqTask):
        ((best, *_),) = pipeline.task.generate(pipeline, [text], callback=recorder)
        n_prompt = 1
    else:
        ids = prompt_ids(pipeline, text)
        ((best, *_),) = generate_from_ids(pipeline, [ids], callback=recorder)
        n_prompt = len(ids)
    return best.hypothesis.ids, Decoding(
        method=_method(config),
        settings=dataclasses.asdict(config),
        prompt=n_prompt,
        steps=recorder.steps(best.hypothesis, pipeline.target_vocabulary),
        output=best.text,
        text=text,
    )


def trace_forced(pipeline: Pipeline, text: str, target: str) -> Decoding:
    """The probabilities of a given target's tokens, by one teacher-forced pass.

    The target of a sequence-to-sequence model ends with [EOS], its last step; that of a language
    model continues the text. `cache` of a step is what incremental decoding would have cached.
    Raises InputError for a model that generates no text, and for a target without tokens or longer
    than the model's max_length.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> decoding = trace_forced(model, "겨울은 추워요.", "Winter is hot.")
    >>> decoding.method, decoding.steps[0].chosen.piece
    ('given', '▁W')
    """
    _check_generative(pipeline)
    if isinstance(pipeline.task, Seq2SeqTask):
        log_p, tokens, n_prompt = _seq2seq_target(pipeline, text, target)
    else:
        log_p, tokens, n_prompt = _lm_target(pipeline, text, target)
    gains = [float(log_p[t, token]) for t, token in enumerate(tokens)]
    recorder, last = StepRecorder(), len(tokens) - 1
    for t, (token, score) in enumerate(zip(tokens, accumulate(gains), strict=True)):
        row = log_p[t : t + 1]  # (1, V)
        recorder.on_scores(n_prompt + t - 1 if t else 0, row, row)
        recorder.on_step(_single_step(token, score, ended=t == last))
    hypothesis = Hypothesis(tokens, sum(gains), finished=True, log_probabilities=gains)
    return Decoding(
        method="given",
        settings={},
        prompt=n_prompt,
        steps=recorder.steps(hypothesis, pipeline.target_vocabulary),
        output=target,
        text=text,
    )


Forced = tuple[Tensor, list[int], int]
"""Log-probabilities (T, V) of each target token, the tokens, the number of prompt tokens."""


def _seq2seq_target(pipeline: Pipeline, text: str, target: str) -> Forced:
    """The target of a sequence-to-sequence model, with [BOS] as the prompt and [EOS] at the end."""
    tokenizer, max_length = pipeline.target_vocabulary, pipeline.recipe.model.max_length
    encode = Seq2SeqEncoder(pipeline.vocabulary, tokenizer, max_length)
    start, *tokens = encode.targets([target])[0].tolist()
    source = encode.sources([text])[0].tolist()
    logits = pipeline.logits(_batch(source), decoder_input_ids=_batch([start, *tokens[:-1]]))
    return logits[0].log_softmax(-1).cpu(), tokens, 1


def _lm_target(pipeline: Pipeline, text: str, target: str) -> Forced:
    """The target of a language model, with the text as the prompt."""
    ids, tokens = prompt_ids(pipeline, text), pipeline.vocabulary.encode(target)
    inputs = [*ids, *tokens[:-1]]
    max_length = pipeline.recipe.model.max_length
    if not tokens:
        raise InputError(
            "the target must have at least one token, got none; leave it out to generate one"
        )
    if len(inputs) > max_length:
        raise InputError(
            f"the text and its target must have at most {max_length} tokens, got "
            f"{len(inputs)}; try shorter ones"
        )
    logits = pipeline.logits(_batch(inputs))
    return logits[0, len(ids) - 1 :].log_softmax(-1).cpu(), tokens, len(ids)


def _batch(ids: Sequence[int]) -> Tensor:
    return torch.tensor([ids], dtype=torch.int64)


def _single_step(token: int, score: float, *, ended: bool) -> StepResult:
    """The result of a step with one row and one token."""
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


def _check_generative(pipeline: Pipeline) -> None:
    """Raises InputError for a model that generates no text."""
    if not isinstance(pipeline.task, Seq2SeqTask | CausalLMTask):
        raise InputError(
            "the task must be sequence_to_sequence or language_modeling, which generate text, got "
            f"{pipeline.recipe.task}"
        )
    if not pipeline.has_logits:
        raise InputError(
            f"the model must have a language modeling head, got a {pipeline.architecture} without"
        )
