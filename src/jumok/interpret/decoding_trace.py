"""The decoding part of a trace: every step of a generation, or of teacher forcing.

Shapes: T tokens of a target, V vocabulary.
"""

import dataclasses
from collections.abc import Sequence
from itertools import accumulate

import torch

from jumok.decoding import DecodingConfig, Hypothesis, StepResult
from jumok.errors import TraceError, or_list
from jumok.interpret.schema import Decoding, Method
from jumok.interpret.step_recorder import StepRecorder
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.registry import tasks_with
from jumok.tasks.task import GenerativeTask


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
    task = _generative_task(pipeline)
    recorder, config = StepRecorder(), task.effective_decoding(pipeline)
    best, n_prompt = task.generate_one(pipeline, text, recorder)
    return best.hypothesis.ids, Decoding(
        method=_method(config),
        settings=dataclasses.asdict(config)
        | ({"seed": config.fixed_seed} if config.sample else {}),
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
    log_p, tokens, n_prompt = _generative_task(pipeline).score_target(pipeline, text, target)
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


def _generative_task(pipeline: Pipeline) -> GenerativeTask:
    """The task of a pipeline. Raises InputError for a model that generates no text."""
    if not isinstance(pipeline.task, GenerativeTask):
        known = or_list(tasks_with(lambda task: task.generates))
        raise TraceError(
            "trace.task_without_generation",
            "the task must be {known}, which generate text, got {task}",
            known=known,
            task=pipeline.recipe.task,
        )
    if not pipeline.has_logits:
        raise TraceError(
            "trace.no_language_model_head",
            "the model must have a language modeling head, got {architecture} without",
            architecture=pipeline.architecture,
        )
    return pipeline.task
