"""`--to onnx`: the same numbers for any batch, length and padding."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from jumok import load
from jumok.data.table import Table
from jumok.export.report import relative_difference
from jumok.export.samples import random_rows
from jumok.formats.onnx import Onnx, paired_outputs
from jumok.formats.onnx_graph import GRAPH, NamedInputs, write_graph
from jumok.formats.onnx_session import exported_logits, with_logits_from
from jumok.models import (
    Encoder,
    MaskedLanguageModel,
    PairClassifier,
    TextClassifier,
    TokenClassifier,
)
from jumok.nn.hooks import shared_copy
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.registry import get_task
from jumok.tasks.runs.evaluate import evaluate
from jumok.training.config import TrainingConfig
from tests.export.small_models import DIMENSIONS, config, drawn

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

MODELS: dict[str, Callable[[], nn.Module]] = {  # the first token: test_huggingface.py has it
    "pairs compared": lambda: PairClassifier(config(n_segments=2, positions="learned"), 3),
    "a masked language model": lambda: MaskedLanguageModel(
        config(positions="relative", norm="rms", norm_first=True, gated=True, activation="silu")
    ),
    "windows": lambda: TokenClassifier(
        config(positions="rotary", layer_pattern="GL", sliding_window=5, n_layers=2), 5
    ),
    "disentangled": lambda: MaskedLanguageModel(config(positions="none", attention="disentangled")),
    "a tagger": lambda: TokenClassifier(config(positions="rotary", n_layers=1), 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_same_numbers(name: str, tmp_path: Path) -> None:
    model = drawn(MODELS[name]())
    write_graph(model, tmp_path / GRAPH)
    session = exported_logits(tmp_path)
    assert (
        relative_difference(paired_outputs(model, session, random_rows(model, 24)))
        <= Onnx.tolerance
    )
    ids = torch.tensor([[7]])  # a batch of one, a length of one
    torch.testing.assert_close(session(ids), NamedInputs(model)(ids, torch.ones_like(ids)))
    longest = torch.arange(64)[None] % 40
    alone = NamedInputs(model)(longest, torch.ones_like(longest))
    torch.testing.assert_close(session(longest), alone, atol=1e-5, rtol=1e-5)
    assert str(Path.cwd()).encode() not in (tmp_path / GRAPH).read_bytes()


def test_names_of_inputs_and_outputs() -> None:
    assert NamedInputs(Encoder(config())).output == "last_hidden_state"
    assert NamedInputs(Encoder(config())).inputs == ("input_ids", "attention_mask")
    classifier = NamedInputs(TextClassifier(config(n_segments=2), 2))
    assert classifier.inputs == ("input_ids", "attention_mask", "token_type_ids")
    assert classifier.output == "logits"


@pytest.mark.parametrize(
    ("task", "labels", "columns"),
    [
        ("masked_language_modeling", (), {"text": ["삼 일 오 이", "구"]}),
        (
            "tagging",
            ("O", "B-LC", "I-LC"),
            {"text": ["삼 일", "오"], "tags": ["B-LC I-LC I-LC", "B-LC"]},
        ),
    ],
)
def test_a_session_is_scored_like_the_model(
    task: str, labels: tuple[str, ...], columns: dict[str, list[str]], reading_run: Path
) -> None:
    vocabulary = load(reading_run).vocabulary
    measures = ModelConfig(**DIMENSIONS | {"vocabulary_size": len(vocabulary)})
    recipe = Recipe(name="tiny", task=task, training=TrainingConfig(steps=1), model=measures)
    model = drawn(get_task(recipe.task).build_model(measures, labels))
    loaded = get_task(recipe.task).pipeline(model, vocabulary, recipe, labels, torch.device("cpu"))
    table = Table.from_columns(columns)
    named_inputs = NamedInputs(shared_copy(model))
    found = evaluate(with_logits_from(loaded, named_inputs), table, "dev").scores
    expected = evaluate(loaded, table, "dev").scores
    assert found == {  # products of other batch shapes may sum in another order
        key: pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
        for key, value in expected.items()
    }
    other = with_logits_from(loaded, lambda *inputs: -named_inputs(*inputs))
    assert evaluate(other, table, "dev").scores != found
