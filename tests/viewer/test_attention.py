"""Attention plots of trained runs."""

from pathlib import Path

import pytest

from jumok.errors import InputError
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load
from jumok.viewer.live_model import plot_attention
from tests.interpret.random_models import loaded_of

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def classifier(review_run: Path) -> Pipeline:
    return load(review_run, device="cpu")


@pytest.fixture(scope="module")
def writer(reading_run: Path) -> Pipeline:
    return load(reading_run, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("head", [None, 0])
def test_the_attention_of_an_encoder(
    classifier: Pipeline, tmp_path: Path, head: int | None
) -> None:
    path = plot_attention(
        classifier, "정말 재미있어요 ㅋㅋ", tmp_path / "own.png", layer=0, head=head
    )
    assert path.read_bytes().startswith(PNG)


@pytest.mark.parametrize("head", [None, 0])
def test_the_cross_attention_of_a_decoder(
    writer: Pipeline, tmp_path: Path, head: int | None
) -> None:
    path = plot_attention(writer, "세 시", tmp_path / "cross.png", head=head)
    assert path.read_bytes().startswith(PNG)


@pytest.mark.parametrize("head", [None, 0])
def test_a_decoder_that_writes_nothing(tmp_path: Path, head: int | None) -> None:
    """The target of an encoder-decoder classifier is only [BOS]."""
    path = plot_attention(
        loaded_of("encoder-decoder classifier"), "재미있어요", tmp_path / "own.png", head=head
    )
    assert path.read_bytes().startswith(PNG)


def test_drawing_leaves_the_model_as_it_was(classifier: Pipeline, tmp_path: Path) -> None:
    before = classifier("재미있어요")
    plot_attention(classifier, "재미있어요", tmp_path / "own.png")
    assert classifier("재미있어요") == before


@pytest.mark.parametrize("place", [{"layer": 9}, {"head": 99}])
def test_an_unknown_layer_or_head(
    classifier: Pipeline, tmp_path: Path, place: dict[str, int]
) -> None:
    with pytest.raises(InputError, match="must be 0 to"):
        plot_attention(classifier, "재미있어요", tmp_path / "own.png", **place)
    assert not (tmp_path / "own.png").exists()
