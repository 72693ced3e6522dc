"""Traced generation: the same output as untraced, and every step against a second computation."""

from functools import cache
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from jumok.decoding import DecodingConfig, GenerationInputs, StoppingCriteria
from jumok.decoding.generate import generate
from jumok.decoding.processors import NEG_INF
from jumok.errors import InputError
from jumok.interpret.decoding_trace import trace_forced, trace_generation
from jumok.interpret.schema import Beam, Candidate, Decoding
from jumok.interpret.step_recorder import TOP_K, StepRecorder
from jumok.models import EncoderDecoder, LanguageModel
from jumok.native import KernelError
from jumok.native.build import kernel_path
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.registry import get_task
from jumok.tasks.runs.load import load
from tests import hf_folders
from tests.combinations import pairwise
from tests.decoding.tiny_models import BOS, EOS, MarkovDecoder
from tests.errors import raises
from tests.tasks.tiny_jobs import reading_vocabulary, recipe
from tests.tiny_runs import readings

Kind = Literal["sequence_to_sequence", "language_modeling"]
TEXTS = [spoken for spoken, _ in readings(2, 5)]
SETTINGS = {
    "greedy": [],
    "beam": ["beam=3", "length_penalty=0.6"],
    "filtered beam": ["beam=3", "no_repeat_ngram=2", "min_length=3"],
    "several answers": ["beam=3", "n_best=3", "early_stopping=true"],
    "draws": ["sample=true", "temperature=0.8", "top_k=4", "seed=3"],
    "several draws": ["sample=true", "n_best=3", "top_p=0.9", "seed=7"],
    "typical": [
        *("sample=true", "seed=3", "typical_p=0.8"),
        *("min_p=0.01", "repetition_penalty=1.2"),
    ],
    "pattern": ["pattern=[1-3]( [1-3])+", "beam=2"],
    "stop": ['stop=["1", "3"]'],
}
every_kind = pytest.mark.parametrize("kind", ["sequence_to_sequence", "language_modeling"])
every_setting = pytest.mark.parametrize("overrides", SETTINGS.values(), ids=SETTINGS)


@cache
def loaded_of(kind: Kind) -> Pipeline:
    """A random model with large weights."""
    model = {"kind": "encoder_decoder" if kind == "sequence_to_sequence" else "decoder"}
    plan = recipe(kind, model | {"tie_embeddings": False})
    plan = plan.with_vocabulary(len(reading_vocabulary())).with_decoding(["max_length=9"])
    torch.manual_seed(3)
    made = EncoderDecoder if kind == "sequence_to_sequence" else LanguageModel
    network = made(plan.model)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(2.0 if weight.ndim > 1 else 1.0)
    return get_task(plan.task).pipeline(
        network, reading_vocabulary(), plan, (), torch.device("cpu")
    )


def log_p_after(loaded: Pipeline, text: str, tokens: list[int]) -> Tensor:
    """log-probabilities (n + 1, V) at every place of n tokens, all computed at once, uncached."""
    if isinstance(loaded.model, LanguageModel):
        ids = prompt_ids(loaded, text)
        return loaded.logits(torch.tensor([[*ids, *tokens]]))[0, len(ids) - 1 :].log_softmax(-1)
    encode = Seq2SeqEncoder(loaded.vocabulary, loaded.target_vocabulary, 24)
    source = torch.tensor(encode.sources([text])[0])[None]
    begun = torch.tensor([[loaded.target_vocabulary.bos_id, *tokens]])
    return loaded.logits(source, decoder_input_ids=begun)[0].log_softmax(-1)


def beams_of(decoding: Decoding) -> dict[int, Beam]:
    """Every hypothesis by its id."""
    every = [beam for step in decoding.steps for beam in step.beams]
    found = {beam.id: beam for beam in every}
    assert len(found) == len(every)  # ids are unique
    assert 0 not in found  # the root's
    return found


def tokens_of(beams: dict[int, Beam], beam: Beam) -> list[int]:
    """The tokens from the root to this hypothesis."""
    before = [] if beam.parent == 0 else tokens_of(beams, beams[beam.parent])
    return [*before, beam.token]


def table(candidates: tuple[Candidate, ...]) -> dict[int, float]:
    return {candidate.id: candidate.probability for candidate in candidates}


@pytest.mark.parametrize(
    ("kind", "overrides", "text"),
    pairwise(["sequence_to_sequence", "language_modeling"], SETTINGS.values(), TEXTS),
)
def test_the_output_is_what_the_model_generates(
    kind: Kind, overrides: list[str], text: str
) -> None:
    loaded = loaded_of(kind)
    answer = loaded.with_decoding(overrides)(text)
    ids, decoding = trace_generation(loaded, text, overrides)
    assert isinstance(answer, GeneratedText)
    assert decoding.output == answer.output
    chosen = [step.chosen for step in decoding.steps if step.chosen is not None]
    assert [one.id for one in chosen][: len(ids)] == ids
    assert [one.id for one in chosen][len(ids) :] in ([], [loaded.target_vocabulary.eos_id])
    assert sum(one.log_probability for one in chosen) == pytest.approx(answer.score, abs=1e-5)
    assert chosen[0].piece == loaded.target_vocabulary.piece(chosen[0].id)


@every_kind
@every_setting
def test_the_best_path_ends_at_the_hypothesis(kind: Kind, overrides: list[str]) -> None:
    _, decoding = trace_generation(loaded_of(kind), TEXTS[0], overrides)
    beams = beams_of(decoding)
    best = [beam for beam in beams.values() if beam.best]
    chosen = [step.chosen.id for step in decoding.steps if step.chosen is not None]
    assert tokens_of(beams, best[-1]) == chosen
    assert best[-1].ended
    assert [beam.parent for beam in best] == [0, *(beam.id for beam in best[:-1])]
    parents = {beam.parent for beam in beams.values()}
    assert not any(beam.ended and beam.id in parents for beam in beams.values())
    for step, following in zip(decoding.steps, decoding.steps[1:], strict=False):
        living = {beam.id for beam in step.beams if not beam.ended}
        assert {beam.parent for beam in following.beams} <= living


@every_kind
@pytest.mark.parametrize("overrides", [[], ["beam=3"], ["sample=true", "n_best=2"]])
def test_scores_are_the_model_s_own(kind: Kind, overrides: list[str]) -> None:
    loaded = loaded_of(kind)
    _, decoding = trace_generation(loaded, TEXTS[1], overrides)
    beams = beams_of(decoding)
    for beam in beams.values():
        tokens = tokens_of(beams, beam)
        log_p = log_p_after(loaded, TEXTS[1], tokens[:-1])
        alone = sum(float(log_p[t, token]) for t, token in enumerate(tokens))
        assert beam.score == pytest.approx(alone, abs=1e-4)  # cached and in one pass: sums differ


@every_kind
def test_cached_positions_before_each_step(kind: Kind) -> None:
    loaded = loaded_of(kind)
    _, decoding = trace_generation(loaded, TEXTS[0], ["beam=2"])
    first = 1 if kind == "sequence_to_sequence" else len(prompt_ids(loaded, TEXTS[0]))
    assert decoding.prompt == first
    kept = [step.cache for step in decoding.steps]
    assert kept == [0, *range(first, first + len(kept) - 1)]


@every_kind
def test_before_and_after_are_softmaxes(kind: Kind) -> None:
    loaded = loaded_of(kind)
    overrides = ["sample=true", "temperature=0.7", "top_k=4", "seed=2"]
    ids, decoding = trace_generation(loaded, TEXTS[0], overrides)
    assert (decoding.method, decoding.settings["top_k"]) == ("sampling", 4)
    log_p = log_p_after(loaded, TEXTS[0], ids)
    for row, step in zip(log_p, decoding.steps, strict=False):
        before, after = table(step.before), table(step.after)
        assert list(before) == row.topk(TOP_K).indices.tolist()
        for id_, probability in before.items():
            assert probability == pytest.approx(float(row[id_].exp()), abs=1e-5)
        kept = row.topk(4)
        expected = (kept.values / 0.7).softmax(-1).tolist()
        assert list(after)[:4] == kept.indices.tolist()
        assert list(after.values())[:4] == pytest.approx(expected, abs=1e-5)
        assert set(after) == set(before)
        assert list(after.values())[4:] == [0.0] * (TOP_K - 4)  # forbidden
        assert sum(before.values()) < 1
        assert sum(after.values()) == pytest.approx(1, abs=1e-5)


def test_a_run_with_the_native_kernel_is_traced_too(reading_run: Path) -> None:
    try:
        kernel_path()
    except KernelError as error:
        pytest.skip(str(error))
    loaded = load(reading_run, "cpu")
    for overrides in (["beam=3"], []):
        native = [*overrides, "kernel=native"]
        plain, own = (
            trace_generation(loaded, TEXTS[0], overrides),
            trace_generation(loaded, TEXTS[0], native),
        )
        assert own[0] == plain[0]
        answer = loaded.with_decoding(native)(TEXTS[0])
        assert isinstance(answer, GeneratedText)
        assert own[1].output == answer.output


def test_coverage_is_traced_too(reading_run: Path) -> None:
    loaded, overrides = load(reading_run, "cpu"), ["beam=3", "coverage=0.3"]
    answer = loaded.with_decoding(overrides)(TEXTS[0])
    assert isinstance(answer, GeneratedText)
    assert trace_generation(loaded, TEXTS[0], overrides)[1].output == answer.output


@pytest.mark.parametrize("family", ["marian", "gpt2"])
def test_an_imported_folder_generates_by_its_config(family: str, tmp_path: Path) -> None:
    """bad_words_ids and forced tokens of generation_config.json are processors here."""
    getattr(hf_folders, family)(tmp_path)
    loaded = load(tmp_path, "cpu")
    answer = loaded.with_decoding(["max_length=12"])(TEXTS[0])
    assert isinstance(answer, GeneratedText)
    _, decoding = trace_generation(loaded, TEXTS[0], ["max_length=12"])
    assert decoding.output == answer.output


def test_a_search_that_continues_after_the_best_hypothesis() -> None:
    """The hypothesis [5] is the best, but three must be finished."""
    chain = torch.full((12, 12), -20.0)
    chain[BOS, 5], chain[BOS, 6], chain[5, EOS], chain[5, 7] = 4.0, 2.0, 4.0, 2.0
    chain[6, 7], chain[7, 7], chain[7, 8], chain[8, 8], chain[8, EOS] = 0.0, 0.0, 0.0, 0.0, 0.0
    seen, config = StepRecorder(), DecodingConfig(beam=3, early_stopping=True, length_penalty=0.0)
    first = GenerationInputs(torch.tensor([[BOS]]), StoppingCriteria(EOS, [9]), sample_keys=[0])
    [[answer]] = generate(MarkovDecoder(chain), first, config, callback=seen)
    assert answer.ids == [5]
    steps = seen.steps(answer, reading_vocabulary())
    assert len(steps) > 2
    assert [None if step.chosen is None else step.chosen.id for step in steps[:3]] == [5, EOS, None]
    assert all(step.chosen is None and step.before for step in steps[2:])
    assert not any(beam.best for step in steps[2:] for beam in step.beams)


def test_no_token_is_chosen_if_all_are_banned() -> None:
    def forbid(scores: Tensor, context: object) -> Tensor:
        return scores.fill_(NEG_INF)

    seen = StepRecorder()
    first = GenerationInputs(torch.tensor([[BOS]]), StoppingCriteria(EOS, [9]))
    [[answer]] = generate(
        MarkovDecoder(torch.zeros(12, 12)), first, DecodingConfig(), [forbid], callback=seen
    )
    [step] = seen.steps(answer, reading_vocabulary())
    assert (step.chosen, step.beams) == (None, ())
    assert set(table(step.after).values()) == {0.0}


@every_kind
def test_a_given_target_is_forced(kind: Kind) -> None:
    loaded = loaded_of(kind)
    decoding = trace_forced(loaded, TEXTS[0], "3 1 5")
    expected = loaded.target_vocabulary.encode("3 1 5")
    if kind == "sequence_to_sequence":
        expected.append(loaded.target_vocabulary.eos_id)
    log_p = log_p_after(loaded, TEXTS[0], expected)
    assert decoding.method == "given"
    assert decoding.output == "3 1 5"
    assert [step.chosen.id for step in decoding.steps if step.chosen] == expected
    total = 0.0
    for t, step in enumerate(decoding.steps):
        assert step.chosen is not None
        assert step.chosen.log_probability == pytest.approx(float(log_p[t, expected[t]]), abs=1e-5)
        assert list(table(step.before)) == log_p[t].topk(TOP_K).indices.tolist()
        assert step.after == step.before
        total += step.chosen.log_probability
        [beam] = step.beams
        assert beam.best
        assert beam.score == pytest.approx(total, abs=1e-4)


def test_forcing_the_output_gives_the_same_steps(reading_run: Path) -> None:
    loaded = load(reading_run, "cpu")
    ids, written = trace_generation(loaded, TEXTS[0])
    text = loaded.target_vocabulary.decode(ids)
    assert loaded.target_vocabulary.encode(text) == ids  # else it would be another target
    again = trace_forced(loaded, TEXTS[0], text)
    assert again.prompt == written.prompt
    assert len(again.steps) == len(written.steps)
    for reference, actual in zip(written.steps, again.steps, strict=True):
        assert reference.cache == actual.cache
        assert reference.chosen is not None
        assert actual.chosen is not None
        assert reference.chosen.id == actual.chosen.id
        assert list(table(reference.before)) == list(table(actual.before))


def test_what_is_refused(review_run: Path, tmp_path: Path) -> None:
    classifier = load(review_run, "cpu")
    for ask in (trace_generation, trace_forced):
        with raises(InputError, "trace.task_without_generation"):
            ask(classifier, "재미있어요", *(["3 1"] if ask is trace_forced else []))
    headless = load(headless_folder(tmp_path), "cpu")
    with raises(InputError, "trace.no_language_model_head"):
        trace_generation(headless, "하나")
    model = loaded_of("language_modeling")
    with raises(InputError, "task.empty_target"):
        trace_forced(model, "일", "")
    with raises(InputError, "model.text_too_long"):
        trace_forced(model, "일", "이 " * 40)
    with raises(InputError, "config.unknown_key"):
        trace_generation(model, "일", ["beem=3"])


def headless_folder(folder: Path) -> Path:
    hf_folders.gpt2(folder, head="Model")
    return folder
