"""Searches of several jobs in one pass have the hypotheses of each alone."""

import numpy as np
import pytest

from jumok.decoding import DecodingConfig, Hypothesis
from jumok.decoding.stopping import StoppingCriteria
from jumok.native import DecoderPrecision, NativeModel
from jumok.native.decoder_session import DecoderSession, SearchStep
from jumok.serving.jobs import JobHub
from jumok.text.ragged import Ragged
from tests.native.conftest import encoder_decoder, language_model

pytestmark = pytest.mark.usefixtures("compiled")

EOS = 5
SETTINGS = ({}, {"beam": 3, "n_best": 3}, {"min_length": 4}, {"beam": 4, "early_stopping": True})


def test_windows_that_slide_at_different_steps() -> None:
    """Prompts of several lengths, some of them longer than the window of 40 tokens."""
    model = NativeModel(language_model("gpt2"), "float32")
    tokens = np.random.default_rng(0).integers(10, 77, (8, 2, 57))

    def search(number: int, step: SearchStep | None = None) -> list[list[Hypothesis]]:
        config = DecodingConfig(**SETTINGS[number % 4])  # type: ignore[arg-type]
        prompts = np.ascontiguousarray(tokens[number, :, : 3 + 7 * number])
        session = DecoderSession(model.weights, capacity=40)
        stopping = StoppingCriteria(EOS, [50, 20])
        return session.search(prompts, config, stopping, slides=True, step=step)

    check_side_by_side(search)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_sources_of_several_texts(precision: DecoderPrecision) -> None:
    model = NativeModel(encoder_decoder(), precision)
    tokens = np.random.default_rng(0).integers(10, 77, (8, 12))

    def search(number: int, step: SearchStep | None = None) -> list[list[Hypothesis]]:
        config = DecodingConfig(**SETTINGS[number % 4])  # type: ignore[arg-type]
        sources = Ragged.from_lists([tokens[number, :n].tolist() for n in (3, 12, 7)])
        session = DecoderSession(model.weights, sources, capacity=20)
        stopping = StoppingCriteria(EOS, [20, 4, 11])
        return session.search(np.full((3, 1), 2), config, stopping, step=step)

    check_side_by_side(search)


def check_side_by_side(search) -> None:
    """Eight searches, of which one begins at each step and the fourth is given up."""
    hub, found = JobHub(), {}
    for number in range(8):

        def job(number: int = number) -> None:
            found[number] = search(number, hub.search_step)

        hub.start(number, job)
        hub.step()
        if number == 5:
            assert hub.cancel(3)
    while len(hub):
        hub.step()
    assert found == {number: search(number) for number in range(8) if number != 3}
