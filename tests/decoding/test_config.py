"""DecodingConfig: its string, its ranges and conflicts, and its recipe table."""

import dataclasses

import pytest

from jumok.config_io import from_dict, to_dict
from jumok.decoding import DecodingConfig
from jumok.decoding.hypothesis import Hypothesis, find_repetition
from jumok.errors import InputError
from tests.errors import raises


def test_one_line() -> None:
    assert str(DecodingConfig()) == "max_length=256"
    unused = "max_length=256 (not used without sample=true: seed=3, temperature=0.5)"
    assert str(DecodingConfig(temperature=0.5, seed=3)) == unused
    assert "temperature=0.5 max_length" in str(DecodingConfig(temperature=0.5, beam=2))
    assert str(DecodingConfig(sample=True, seed=3)) == "sample=True seed=3 max_length=256"
    sampled = DecodingConfig(sample=True, top_p=0.9, stop=("\n",), max_length=20)
    assert str(sampled) == "sample=True seed=0 top_p=0.9 max_length=20 stop=('\\n',)"


def test_activated_settings_are_shown() -> None:
    """Beam search depends on its ranking, even with the defaults; greedy search does not."""
    ranking = "length_penalty=1.0 length_norm='power' early_stopping=False"
    assert str(DecodingConfig(beam=5)) == f"beam=5 {ranking} max_length=256"
    other = DecodingConfig(beam=2, length_penalty=0.0, early_stopping="never")
    other_ranking = "length_penalty=0.0 length_norm='power' early_stopping='never'"
    assert str(other) == f"beam=2 {other_ranking} max_length=256"
    limited = DecodingConfig(max_ratio=1.5)
    assert str(limited) == "max_length=256 max_ratio=1.5 max_extra=10"


def test_every_field_is_shown_when_it_is_set() -> None:
    for field in dataclasses.fields(DecodingConfig):
        value = {
            "length_norm": "gnmt", "early_stopping": True, "prefix": "가", "sample": True,
            "allowed": ("가",), "forbidden": ("가",), "stop": ("가",), "choices": ("가",),
            "pattern": "가+", "kernel": "native", "precision": "int8",
        }.get(field.name, 0.5)  # fmt: skip
        if field.type in ("int", int, "int | None", int | None):
            value = 3
        needed = {"n_best": {"beam": 3}, "coverage": {"beam": 3}, "typical_p": {"sample": True}}
        others: dict[str, object] = needed.get(field.name, {})  # type: ignore[assignment]
        config = DecodingConfig(**others | {field.name: value})  # type: ignore[arg-type]
        assert f"{field.name}={value!r}" in str(config).replace("), ", ")")
        assert from_dict(DecodingConfig, to_dict(config)) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "config.out_of_range"),
        ({"max_length": 0}, "config.out_of_range"),
        ({"beam": 10**9}, "config.out_of_range"),
        (
            {"sample": True, "n_best": 10**9},
            "config.out_of_range",
        ),
        ({"max_length": 10**12}, "config.out_of_range"),
        ({"top_k": -1}, "config.out_of_range"),
        (
            {"temperature": 0.0},
            "config.out_of_range",
        ),
        ({"temperature": 1e-45}, "config.out_of_range"),
        ({"max_ratio": 1e308}, "config.out_of_range"),
        ({"choices": ("a. b",), "stop": (".",)}, "decoding.stop_with_constraint"),
        ({"pattern": "[0-9.]+", "stop": (".",)}, "decoding.stop_with_constraint"),
        ({"top_p": 1.5}, "config.out_of_range"),
        ({"min_p": 1.0}, "config.out_of_range"),
        ({"sample": True, "beam": 2}, "decoding.sample_with_beam"),
        ({"n_best": 2}, "decoding.n_best_above_beam"),
        ({"coverage": 0.5}, "decoding.coverage_without_beam"),
        ({"pattern": "a", "choices": ("a",)}, "decoding.several_constraints"),
        ({"choices": ("a",), "allowed": ("a",)}, "decoding.several_constraints"),
        ({"typical_p": 0.9}, "decoding.typical_p_without_sample"),
        (
            {"kernel": "native", "coverage": 0.5, "beam": 2},
            "decoding.coverage_with_native_kernel",
        ),
        ({"length_penalty": float("nan")}, "config.out_of_range"),
        ({"length_penalty": 1000.0}, "config.out_of_range"),
        ({"min_length": 9, "max_length": 8}, "decoding.min_length_above_max_length"),
    ],
)
def test_refused(settings: dict[str, object], message: str) -> None:
    with raises(InputError, message):
        DecodingConfig(**settings)  # type: ignore[arg-type]


def test_limits() -> None:
    assert DecodingConfig(max_length=7).limit() == DecodingConfig(max_length=7).limit(100) == 7
    config = DecodingConfig(max_length=50, max_ratio=2.0, max_extra=3)
    assert [config.limit(n) for n in (0, 1, 10, 40)] == [3, 5, 23, 50]
    small = DecodingConfig(max_ratio=0.5, max_extra=0)
    assert [small.limit(n) for n in (0, 1, 3, 4)] == [1, 1, 1, 2]  # the end at least
    assert config.capped_at(20).max_length == 20
    assert config.capped_at(80) == config


def test_loops_are_found() -> None:
    for period in (1, 2, 3, 7):
        ids = [100, 101, 102, *list(range(period)) * 12]
        loop = Hypothesis(ids, 0.0, False).loop
        assert loop is not None
        assert (loop.start, loop.period, loop.repeats) == (3, period, 12)
    long = find_repetition([9, *range(100)] * 3)  # a sentence, letter by letter
    assert long is not None
    assert (long.period, long.repeats) == (101, 3.0)
    partial = find_repetition([9, *[1, 2, 3] * 5, 1])  # also if the last period is incomplete
    assert partial is not None
    assert (partial.start, partial.period) == (1, 3)
    assert str(partial) == "from token 1 on, 3 tokens repeat 5.3 times"


@pytest.mark.parametrize(
    "ids", [[], [1], [1] * 11, list(range(60)), [*[1, 2] * 10, 3], [*range(10)] * 2]
)
def test_no_loop(ids: list[int]) -> None:
    assert find_repetition(ids) is None
