"""course/microjumok.py: plain Python, the gradients of jumok's own model, and it learns."""

import ast
import random
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from jumok import EncoderDecoder, TransformerConfig
from jumok.course import microjumok
from jumok.course.microjumok import PIECES, TAPE, Transformer, cross_entropy, pair
from jumok.nn import SinusoidalPositions

NUMBERS = (325, 110, 40, 911)  # one syllable would leave the encoder's queries without gradient
TOLERANCE = 1e-12  # float64 has 16 digits, and sums in another order differ in the last ones


def jumok_name(name: str) -> str:
    """The name in jumok's model of a weight of microjumok."""
    if name.startswith("embedding."):
        return {"embedding.weight": "output.weight", "embedding.bias": "output.bias"}[name]
    side, _, rest = name.partition(".")
    return f"{side}.stack.layers.0.{rest.replace('_norm.', '_norm.norm.')}"


@pytest.fixture(scope="module")
def small() -> Transformer:
    random.seed(0)
    model = Transformer(len(PIECES), D=8, H=2, F=12)
    for name, matrix in model.weights.items():
        if name.endswith("bias"):  # at 0, a wrong gradient could be hidden
            matrix.rows = [[random.gauss(0, 0.1) for _ in row] for row in matrix.rows]
    return model


@pytest.fixture(scope="module")
def torch_model(small: Transformer) -> EncoderDecoder:
    """jumok's model in float64 with the weights of `small`."""
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 1, "dropout": 0.0}
    config = TransformerConfig(vocabulary_size=len(PIECES), output_bias=True, **sizes)
    model = EncoderDecoder(config).double()
    with torch.no_grad():
        for name, matrix in small.weights.items():
            weight = model.get_parameter(jumok_name(name))
            weight.copy_(torch.tensor(matrix.rows, dtype=torch.float64).view_as(weight))
        for part in model.modules():
            if isinstance(part, SinusoidalPositions):  # the table itself is float32
                part.table.copy_(sinusoids_in_float64(*part.table.shape))
    return model


def sinusoids_in_float64(length: int, d_model: int) -> Tensor:
    angle = torch.arange(length).double()[:, None] / 10_000 ** (
        torch.arange(0, d_model, 2).double() / d_model
    )
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)  # (T, D)


def test_it_imports_math_and_random_in_250_lines() -> None:
    text = Path(microjumok.__file__).read_text(encoding="utf-8")
    imports = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Import)]
    assert [alias.name for each in imports for alias in each.names] == ["math", "random"]
    assert not [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.ImportFrom)]
    assert len(text.splitlines()) <= 250


@pytest.mark.parametrize("number", NUMBERS)
def test_loss_and_gradients_equal_those_of_jumok(
    number: int, small: Transformer, torch_model: EncoderDecoder
) -> None:
    source, target = pair(number)
    for matrix in small.weights.values():
        matrix.grad = [[0.0] * len(row) for row in matrix.rows]
    loss = cross_entropy(small(source, target[:-1]), target[1:])
    loss.backward()
    torch_model.zero_grad()
    logits = torch_model(torch.tensor([source]), torch.tensor([target[:-1]]))  # (1, T, V)
    expected = nn.functional.cross_entropy(logits[0], torch.tensor(target[1:]))
    expected.backward()
    assert abs(loss.rows[0][0] - expected.item()) < TOLERANCE
    assert len(small.weights) == len(list(torch_model.parameters()))
    for name, matrix in small.weights.items():
        gradient = torch_model.get_parameter(jumok_name(name)).grad
        assert gradient is not None
        ours = torch.tensor(matrix.grad, dtype=torch.float64).view_as(gradient)
        assert (ours - gradient).abs().max() < TOLERANCE, name
        unused_keys = name.endswith("key.bias")  # adds the same to all scores of a query
        assert unused_keys or gradient.abs().max() > 1e-6, name


def test_numbers_are_written_in_korean() -> None:
    for number, korean in ((325, "삼백이십오"), (110, "백십"), (211, "이백십일"), (1, "일")):
        source, target = pair(number)
        assert "".join(PIECES[i] for i in source) == korean
        assert "".join(PIECES[i] for i in target) == f"[BOS]{number}[EOS]"


@pytest.mark.slow
def test_it_learns(capsys: pytest.CaptureFixture[str]) -> None:
    """8 numbers in seconds; benchmarks/results/microjumok.txt has 100 numbers."""
    random.seed(0)
    numbers = random.sample(range(1, 1000), 8)
    start = time.process_time()
    model = microjumok.train(numbers, steps=100)
    assert time.process_time() - start < 60
    right = sum(model.greedy(pair(n)[0]) == pair(n)[1][1:] for n in numbers)
    assert right >= 7
    assert TAPE == []
    assert "step 100" in capsys.readouterr().out
