"""The whole table on every kind of model, with every kind of position; and that rows can fail."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumok.checks import Outcome, Subject, Way, batched, check, equalities, not_to_be_had
from jumok.checks.variants import Compiled
from jumok.models import (
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    TokenClassifier,
)
from jumok.models.config import Positions
from jumok.native import to_bfloat16
from jumok.nn import NO_MASK, AttentionMask, HookPoint, RelativePositionBias
from tests.checks.check_targets import KINDS, subject
from tests.models.small_models import POSITIONS

LEFT_OUT = not_to_be_had("left out")
ALWAYS = {"compiled = eager", "native = plain", "original = ours"}
NOT_APPLICABLE = {
    TextClassifier: {"cached = uncached"},
    TokenClassifier: {"cached = uncached"},
    MaskedLanguageModel: {"cached = uncached"},
    LanguageModel: set(),
    EncoderDecoder: set(),
    EncoderDecoderClassifier: {"cached = uncached", "packed = padded"},
    Encoder: {"cached = uncached", "saved = loaded"},
}


def measured(asked: Subject, **parts: Any) -> dict[str, Outcome]:
    """Every row but those that compile; copies in coarser numbers never train, so at rest alone."""
    parts = {"compiled": LEFT_OUT, "kernel": lambda precision: LEFT_OUT, "others": []} | parts
    training = asked.loaded.model.training
    rows = [row for row in equalities(**parts) if not (training and row.deciding)]
    return {outcome.equality: outcome for outcome in check(asked, rows)}


def having(result: str, outcomes: dict[str, Outcome]) -> set[str]:
    return {name for name, outcome in outcomes.items() if outcome.result == result}


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_same_answer_however_it_is_asked(
    kind: type[nn.Module], positions: Positions, norm_first: bool
) -> None:
    asked = subject(kind, positions=positions, norm_first=norm_first)
    for training in (False, True):
        asked.loaded.model.train(training)
        outcomes = measured(asked)
        assert having("fail", outcomes) == set(), outcomes
        assert having("not applicable", outcomes) == ALWAYS | NOT_APPLICABLE[kind]
        assert all(m.training == training for m in asked.loaded.model.modules())


@pytest.mark.parametrize("kind", [TextClassifier, TokenClassifier, MaskedLanguageModel])
def test_with_segments(kind: type[nn.Module]) -> None:
    asked = subject(kind, positions="learned", n_segments=2)
    assert having("fail", measured(asked)) == set()


@pytest.mark.parametrize("pooling", ["first", "max"])
def test_however_a_text_is_pooled(pooling: str) -> None:
    assert having("fail", measured(subject(TextClassifier, pooling=pooling))) == set()


# What is broken fails, in the row that says so.


class CountsPadding(LanguageModel):
    """Positions are places in the row, whatever stands before them."""

    def forward(self, ids: Tensor, mask: AttentionMask = NO_MASK, **more: Any) -> Tensor:
        return super().forward(ids, mask, **more | {"positions": None})


class SeesPadding(TextClassifier):
    """Padding is read like a text."""

    def forward(self, ids: Tensor, real: Tensor | None = None, **more: Any) -> Tensor:
        return super().forward(ids, None, **more)


class SeesNeighbours(MaskedLanguageModel):
    """A text in a packed row reads the others."""

    def forward(self, ids: Tensor, mask: AttentionMask = NO_MASK, **more: Any) -> Tensor:
        packed = mask.allowed is not None and mask.allowed.shape[2] > 1
        return super().forward(ids, NO_MASK if packed else mask, **more)


class ForgetsTheCache(RelativePositionBias):
    """The newest tokens are taken for the first."""

    def forward(self, T: int, S: int) -> Tensor:
        return super().forward(S, S)[:, :, :T]


class Louder(HookPoint):
    """Whoever looks changes what is seen."""

    def forward(self, x: Tensor) -> Tensor:
        return 1.5 * x


class OtherwiseCompiled(nn.ReLU):
    """A compiler sees another function."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x if torch.compiler.is_compiling() else super().forward(x)


def forgetting() -> Subject:
    asked = subject(LanguageModel, positions="relative")
    stack = asked.loaded.model.decoder.stack
    broken = ForgetsTheCache(2, bidirectional=False)
    broken.load_state_dict(stack.relative.state_dict())
    stack.relative = broken.requires_grad_(False)
    return asked


def loud() -> Subject:
    asked = subject(TokenClassifier)
    asked.loaded.model.encoder.stack.layers[1].self_attention.hook_pattern = Louder()
    return asked


def scaled_by_hand() -> Subject:
    """A number that no config knows is not saved."""
    asked = subject(EncoderDecoder)
    asked.loaded.model.decoder.embedding.tokens.scale = 1.5
    return asked


BROKEN: dict[str, tuple[Callable[[], Subject], set[str]]] = {
    "positions count padding": (
        lambda: subject(CountsPadding, positions="learned"),
        {"left = right padding", "packed = padded"},
    ),
    "padding is seen": (
        lambda: subject(SeesPadding),
        {"alone = batched", "packed = padded"},  # on whichever side it is seen alike
    ),
    "neighbours are seen": (lambda: subject(SeesNeighbours), {"packed = padded"}),
    "the cache is forgotten": (forgetting, {"cached = uncached"}),
    "looking changes": (loud, {"watched = unwatched"}),
    "not all is saved": (scaled_by_hand, {"saved = loaded"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_fails_where_it_is_broken(name: str) -> None:
    make, rows = BROKEN[name]
    outcomes = measured(make())
    assert having("fail", outcomes) == rows
    for row in rows:
        outcome = outcomes[row]
        assert outcome.difference is not None
        assert outcome.difference > 1e-3, outcome


def coarse(steps: int) -> Callable[[nn.Module], nn.Module]:
    """A copy whose weights have so many steps from 0 to the largest of a row."""

    def change(model: nn.Module) -> nn.Module:
        changed = to_bfloat16(model).float()
        with torch.no_grad():
            for weight in changed.parameters():
                step = weight.abs().amax(-1, keepdim=True) / steps
                weight.copy_((weight / step).round() * step)
        return changed

    return change


@pytest.mark.parametrize("kind", [LanguageModel, TokenClassifier, EncoderDecoder])
def test_a_format_that_is_coarser_than_it_says_fails(kind: type[nn.Module]) -> None:
    """4 bits in place of 8 or of bfloat16's 8 digits."""
    outcomes = measured(subject(kind), bfloat16=coarse(7), int8=coarse(7))
    assert having("fail", outcomes) == {"bf16 vs fp32", "int8 vs fp32"}
    for name in ("bf16 vs fp32", "int8 vs fp32"):
        same, decisions = outcomes[name].same, outcomes[name].decisions
        assert decisions == sum(map(len, batched(subject(kind))))
        assert same is not None
        assert 0 < same <= decisions


def test_compiled() -> None:
    """Through the tracer alone: programs that are written and compiled take a minute."""
    asked = subject(TokenClassifier, n_layers=1)
    parts = {"compiled": Compiled("eager")}
    assert measured(asked, **parts)["compiled = eager"].result == "pass"
    asked.loaded.model.encoder.stack.layers[0].feed_forward.activation = OtherwiseCompiled()
    assert having("fail", measured(asked, **parts)) == {"compiled = eager"}
    assert asked.loaded.model.encoder._compiled_call_impl is None


def test_others_must_answer_the_same() -> None:
    asked = subject(MaskedLanguageModel)

    def beside(apart: float) -> Way:
        return lambda subject: [answer + apart for answer in batched(subject)]

    assert measured(asked, original=beside(0.0))["original = ours"].result == "pass"
    assert having("fail", measured(asked, original=beside(1e-3))) == {"original = ours"}
    outcomes = measured(asked, original=lambda subject: [a[:-1] for a in batched(subject)])
    assert "the two ask different things" in outcomes["original = ours"].reason
    outcomes = measured(asked, original=lambda subject: [torch.zeros(2) @ torch.zeros(3)])
    assert outcomes["original = ours"].reason.startswith("RuntimeError: ")
    assert outcomes["original = ours"].result == "fail"


def test_what_is_no_number_fails() -> None:
    asked = subject(TextClassifier)
    with torch.no_grad():
        asked.loaded.model.output.bias[0] = torch.nan
    outcomes = measured(asked)
    assert having("fail", outcomes) == {
        *("alone = batched", "left = right padding", "packed = padded", "watched = unwatched"),
        *("saved = loaded", "bf16 vs fp32", "int8 vs fp32"),
    }
    assert all(outcomes[name].as_json()["difference"] is None for name in having("fail", outcomes))
    assert outcomes["alone = batched"].reason == "some outputs are NaN or infinite"
