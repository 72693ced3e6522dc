"""All checks on every kind of model with every kind of positions; and that checks can fail."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from jumok.checks import (
    CheckResult,
    CheckTarget,
    Variant,
    all_checks,
    batched,
    run_checks,
    unavailable,
)
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
from jumok.native import to_bfloat16
from jumok.nn import AttentionMask, HookPoint, RelativePositionBias
from jumok.nn.masks import Mask
from tests.checks.check_targets import KINDS, check_target
from tests.models.small_models import POSITIONS

SKIPPED = unavailable("skipped")
ALWAYS = {
    *("compiled = eager", "native = torch", "original = jumok", "read = AutoTokenizer"),
    "vectors alone = batched",  # of sentence-transformers
}
NOT_APPLICABLE = {
    TextClassifier: {"cached = uncached", "packed = padded"},
    TokenClassifier: {"cached = uncached"},
    MaskedLanguageModel: {"cached = uncached"},
    LanguageModel: set(),
    EncoderDecoder: set(),
    EncoderDecoderClassifier: {"cached = uncached", "packed = padded"},
    Encoder: {"cached = uncached", "saved = loaded"},
}


def measured(checked: CheckTarget, **parts: Any) -> dict[str, CheckResult]:
    """All checks but those that compile; those of lower precision in eval mode only."""
    parts = {"compiled": SKIPPED, "kernel": lambda precision: SKIPPED, "others": []} | parts
    training = checked.pipeline.model.training
    rows = [
        row
        for row in all_checks(**parts)
        if not (training and getattr(row, "compare_decisions", False))
    ]
    return {result.equality: result for result in run_checks(checked, rows)}


def having(result: str, outcomes: dict[str, CheckResult]) -> set[str]:
    return {name for name, each in outcomes.items() if each.result == result}


@pytest.mark.slow
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_all_variants_give_the_same_outputs(kind: type[nn.Module], positions: str) -> None:
    norm_first = POSITIONS.index(positions) % 2 == 1  # each kind of model in both orders
    checked = check_target(kind, positions=positions, norm_first=norm_first)
    for training in (False, True):
        checked.pipeline.model.train(training)
        outcomes = measured(checked)
        assert having("fail", outcomes) == set(), outcomes
        assert having("not applicable", outcomes) == ALWAYS | NOT_APPLICABLE[kind]
        assert all(m.training == training for m in checked.pipeline.model.modules())


@pytest.mark.parametrize("kind", [TextClassifier, TokenClassifier, MaskedLanguageModel])
def test_with_segments(kind: type[nn.Module]) -> None:
    checked = check_target(kind, positions="learned", n_segments=2)
    assert having("fail", measured(checked)) == set()


@pytest.mark.parametrize("pooling", ["first", "max"])
def test_other_pooling(pooling: str) -> None:
    assert having("fail", measured(check_target(TextClassifier, pooling=pooling))) == set()


# A broken model fails the check that covers it.


class CountsPadding(LanguageModel):
    """Positions are row indices, padding included."""

    def forward(self, ids: Tensor, mask: Mask = None, **more: Any) -> Tensor:
        return super().forward(ids, mask, **more | {"positions": None})


class SeesPadding(TextClassifier):
    """Padding is not masked."""

    def forward(self, ids: Tensor, mask: Mask = None, **more: Any) -> Tensor:
        return super().forward(ids, None, **more)


class SeesNeighbours(MaskedLanguageModel):
    """Texts in a packed row attend to each other."""

    def forward(self, ids: Tensor, mask: Mask = None, **more: Any) -> Tensor:
        packed = isinstance(mask, AttentionMask) and mask.allowed.shape[2] > 1
        return super().forward(ids, None if packed else mask, **more)


class ForgetsTheCache(RelativePositionBias):
    """The newest tokens get the biases of the first ones."""

    def forward(self, T: int, S: int) -> Tensor:
        return super().forward(S, S)[:, :, :T]


class Louder(HookPoint):
    """A hook point that changes its input."""

    def forward(self, x: Tensor) -> Tensor:
        return 1.5 * x


class OtherwiseCompiled(nn.ReLU):
    """Computes something else when compiled."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x if torch.compiler.is_compiling() else super().forward(x)


def forgetting() -> CheckTarget:
    checked = check_target(LanguageModel, positions="relative")
    stack = checked.pipeline.model.decoder.stack
    broken = ForgetsTheCache(2, bidirectional=False)
    broken.load_state_dict(stack.relative.state_dict())
    stack.relative = broken.requires_grad_(False)
    return checked


def loud() -> CheckTarget:
    checked = check_target(TokenClassifier)
    checked.pipeline.model.encoder.stack.layers[1].self_attention.hook_pattern = Louder()
    return checked


def scaled_by_hand() -> CheckTarget:
    """A number that is neither in the config nor in the weights is not saved."""
    checked = check_target(EncoderDecoder)
    checked.pipeline.model.decoder.embedding.tokens.scale = 1.5
    return checked


BROKEN: dict[str, tuple[Callable[[], CheckTarget], set[str]]] = {
    "positions count padding": (
        lambda: check_target(CountsPadding, positions="learned"),
        {"left = right padding", "packed = padded"},
    ),
    "padding is seen": (
        lambda: check_target(SeesPadding),
        {"alone = batched"},  # left and right padding are wrong alike
    ),
    "texts see each other": (lambda: check_target(SeesNeighbours), {"packed = padded"}),
    "the cache is ignored": (forgetting, {"cached = uncached"}),
    "a hook changes the result": (loud, {"hooked = unhooked"}),
    "not everything is saved": (scaled_by_hand, {"saved = loaded"}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_model_fails_the_right_check(name: str) -> None:
    make, rows = BROKEN[name]
    outcomes = measured(make())
    assert having("fail", outcomes) == rows
    for row in rows:
        result = outcomes[row]
        assert result.difference is not None
        assert result.difference > 1e-3, result


def coarse(steps: int) -> Callable[[nn.Module], nn.Module]:
    """A copy whose weights have `steps` steps from 0 to the largest of a row."""

    def transform(model: nn.Module) -> nn.Module:
        copy = to_bfloat16(model).float()
        with torch.no_grad():
            for weight in copy.parameters():
                step = weight.abs().amax(-1, keepdim=True) / steps
                weight.copy_((weight / step).round() * step)
        return copy

    return transform


@pytest.mark.parametrize("kind", [LanguageModel, TokenClassifier, EncoderDecoder])
def test_a_coarser_format_fails(kind: type[nn.Module]) -> None:
    """4 bits instead of 8, or of the 8 significant bits of bfloat16."""
    outcomes = measured(check_target(kind), bfloat16=coarse(7), int8=coarse(7))
    assert having("fail", outcomes) == {"bf16 vs fp32", "int8 vs fp32"}
    for name in ("bf16 vs fp32", "int8 vs fp32"):
        same, decisions = outcomes[name].same, outcomes[name].decisions
        assert decisions == sum(map(len, batched(check_target(kind))))
        assert same is not None
        assert 0 < same <= decisions


def test_compiled() -> None:
    """With the tracer only: code generation takes a minute."""
    checked = check_target(TokenClassifier, n_layers=1)
    parts = {"compiled": Compiled("eager")}
    assert measured(checked, **parts)["compiled = eager"].result == "pass"
    checked.pipeline.model.encoder.stack.layers[0].feed_forward.activation = OtherwiseCompiled()
    assert having("fail", measured(checked, **parts)) == {"compiled = eager"}
    assert checked.pipeline.model.encoder._compiled_call_impl is None


def test_another_implementation_must_agree() -> None:
    checked = check_target(MaskedLanguageModel)

    def shifted(offset: float) -> Variant:
        return lambda target: [output + offset for output in batched(target)]

    assert measured(checked, original=shifted(0.0))["original = jumok"].result == "pass"
    assert having("fail", measured(checked, original=shifted(1e-3))) == {"original = jumok"}
    outcomes = measured(checked, original=lambda target: [a[:-1] for a in batched(target)])
    assert "outputs must have equal shapes" in outcomes["original = jumok"].reason
    outcomes = measured(checked, original=lambda target: [torch.zeros(2) @ torch.zeros(3)])
    assert outcomes["original = jumok"].reason.startswith("RuntimeError: ")
    assert outcomes["original = jumok"].result == "fail"


def test_nan_fails() -> None:
    checked = check_target(TextClassifier)
    with torch.no_grad():
        checked.pipeline.model.output.bias[0] = torch.nan
    outcomes = measured(checked)
    assert having("fail", outcomes) == {
        *("alone = batched", "left = right padding", "hooked = unhooked"),
        *("saved = loaded", "bf16 vs fp32", "int8 vs fp32"),
    }
    assert all(outcomes[name].as_json()["difference"] is None for name in having("fail", outcomes))
    assert outcomes["alone = batched"].reason == "some outputs are NaN or infinite"
