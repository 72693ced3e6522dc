"""Attribution: sums equal the metric, and each part equals its equation written out."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jumok.errors import InputError
from jumok.experiment import (
    Site,
    activations,
    integrated_gradients,
    logit_attribution,
    logit_difference,
    logit_lens,
    measure,
    patch,
    read,
    rollout,
)
from jumok.interpret.logit_lens import lens_logits
from jumok.models import EncoderDecoder, LanguageModel, TransformerConfig
from jumok.models.points import attention_modules
from tests.combinations import slow
from tests.errors import raises
from tests.experiment.models import data_of, first_logit, model_of, swapped
from tests.experiment.test_interventions import IDS, OTHER, small_model

LINEAR = ("classifier", "encoder-decoder classifier", "tagging", "language model", "sequences")
VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "post-norm": {"norm_first": False},
    "rms, gated": {"norm": "rms", "gated": True, "bias": False},
    "offset rms, norms after sublayers": {"norm": "rms_offset", "sublayer_norm": True},
    "grouped heads": {"n_kv_heads": 2, "positions": "rotary"},
}


def total(parts: dict[str, Any]) -> Any:
    return sum(part.reshape(len(part), -1).sum(1) for part in parts.values())


@pytest.mark.parametrize("kind", LINEAR)
def test_the_parts_and_the_bias_sum_to_the_metric(kind: str) -> None:
    model, data = model_of(kind), data_of(kind)
    parts = logit_attribution(model, data, first_logit)
    expected = measure(model, data, first_logit)
    np.testing.assert_allclose(total(parts), expected, atol=1e-4 * max(1, np.abs(expected).max()))
    layers = model.recipe.model.n_layers
    assert sum(name.endswith("feed_forward") for name in parts) == layers
    assert all(part.shape[1:] in ((), (2,)) for part in parts.values())


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_bias_is_that_of_the_weights_and_not_what_is_left(variant: str) -> None:
    """The metric is linear: with all biases added by hand, nothing remains."""
    model = small_model(**VARIANTS[variant]).double()
    metric = logit_difference([3, 1, 2], [4, 4, 4])
    parts = logit_attribution(model, IDS, metric)
    for part in parts.values():
        assert np.isfinite(part).all()
    # What no part owns: the metric of a stream to which every writer adds only its bias.
    names = [name for name in parts if name != "bias"]
    stack = model.decoder.stack
    for row, ids in enumerate(IDS):
        kept = activations(model, [ids], "*")
        stream = torch.zeros(1, len(ids), 16, dtype=torch.float64)

        def normed(norm: Any, x: Any, real: Any) -> Any:
            """A norm with the statistics of its real input: linear, and its bias."""
            if isinstance(norm, torch.nn.Identity):
                return x
            real = torch.from_numpy(real)
            weight = norm.weight + 1 if "offset" in variant else norm.weight
            if isinstance(norm, torch.nn.LayerNorm):
                real, x = real - real.mean(-1, keepdim=True), x - x.mean(-1, keepdim=True)
            scale = (real.square().mean(-1, keepdim=True) + norm.eps).rsqrt()
            bias = getattr(norm, "bias", None)
            return x * scale * weight + (0 if bias is None else bias)

        for i, layer in enumerate(model.decoder.stack.layers):
            for name, module, residual, before in (
                (
                    "self_attention",
                    layer.self_attention.output,
                    layer.self_attention_norm,
                    f"target.hidden.{i}",
                ),
                (
                    "feed_forward",
                    None,
                    layer.feed_forward_norm,
                    f"target.steps.{i}.after_self_attention",
                ),
            ):
                bias = getattr(module, "bias", None)
                own = torch.zeros(16, dtype=torch.float64) if bias is None else bias
                step = f"target.steps.{i}.{name}"
                stream = stream + normed(
                    residual.sublayer_norm, own.expand(stream.shape), kept[step]
                )
                if not residual.norm_first:
                    written = kept[before] + kept[step]
                    stream = normed(residual.norm, stream, written)
        stream = normed(stack.norm, stream, kept["target.steps.2.after_feed_forward"])
        logits = model.output(stream)[0, -1].detach()
        expected = float(logits[[3, 1, 2][row]] - logits[4])
        assert parts["bias"][row] == pytest.approx(expected, abs=1e-9)
    assert names[0] == "target.hidden.0"


def test_a_head_adds_its_output_through_the_final_norm() -> None:
    """Pre-norm: (z W_O - mean) / std * gamma, times the difference of two columns of W_U."""
    model = small_model().double()
    parts = logit_attribution(model, IDS, logit_difference([3, 1, 2], [4, 4, 4]))
    for row, ids in enumerate(IDS):
        found = activations(model, [ids], ["*.mixed", "target.steps.2.after_feed_forward"])
        end = found["target.steps.2.after_feed_forward"][0, -1]
        norm: Any = model.decoder.stack.norm
        std = np.sqrt(end.var() + norm.eps)
        columns = model.output.weight.detach().numpy()
        way = columns[[3, 1, 2][row]] - columns[4]
        for layer in range(3):
            output = attention_modules(model)[layer].module.output
            for head in range(4):
                w = output.weight.detach().numpy()[:, 4 * head : 4 * head + 4]
                z = w @ found[f"decoder.{layer}.mixed"][0, head, -1]
                expected = ((z - z.mean()) / std * norm.weight.detach().numpy()) @ way
                assert parts[f"decoder.{layer}.mixed"][row, head] == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["masked", "language model", "sequences"])
def test_the_lens_is_the_head_on_the_stream_of_every_layer(kind: str) -> None:
    model, data = model_of(kind), data_of(kind)
    found = logit_lens(model, data, first_logit)
    streams = activations(model, data, f"{data.side}.hidden.*")
    for row in range(len(data)):
        n = data.lengths(data.side)[row]
        for layer in range(3):
            stream = torch.from_numpy(streams[f"{data.side}.hidden.{layer}"][row, :n])
            with torch.no_grad():
                logits = lens_logits(model.model, stream, normed=layer == 2)[-1]
            expected = float(logits[0] - logits[1])
            assert found[layer, row] == pytest.approx(expected, abs=1e-4 * max(1, abs(expected)))


@pytest.mark.parametrize(
    "kind", ["classifier", slow("pairs"), slow("masked"), slow("language model"), slow("sequences")]
)
def test_integrated_gradients_are_complete(kind: str) -> None:
    """They sum to the metric minus that of the baseline (proposition 1)."""
    model, data = model_of(kind), data_of(kind)
    side = next(iter(data.ids))
    last = f"{side}.hidden.2"
    other = swapped(data, side)
    found = integrated_gradients(model, data, first_logit, other=other, point=last, steps=300)
    base = patch(model, data, other, first_logit, [Site(last)])[0]
    np.testing.assert_allclose(
        found.sum(1), measure(model, data, first_logit) - base, atol=2e-3, rtol=2e-3
    )
    padding = np.arange(found.shape[1]) >= data.lengths(side)[:, None]
    assert not found[padding].any()


@pytest.mark.slow
def test_integrated_gradients_between_two_inputs_equal_a_fine_sum() -> None:
    torch.manual_seed(2)
    config = TransformerConfig(
        vocabulary_size=12, d_model=8, n_heads=2, d_ff=16, n_layers=1, activation="gelu"
    )
    model = EncoderDecoder(config).double().eval()
    data, other = ([[1, 2, 3], [4, 5]], [[1, 6], [1, 7]]), ([[0, 0, 0], [0, 0]], [[1, 6], [1, 7]])
    found = integrated_gradients(model, data, first_logit, other=other, steps=100)
    inputs = model.encoder.embedding
    for row in range(2):
        ids, base = (torch.tensor([each[0][row]]) for each in (data, other))
        positions = torch.arange(ids.shape[1])[None]
        x, zero = (inputs(each, positions).detach() for each in (ids, base))
        slopes = torch.zeros_like(x)
        for step in range(2000):
            between = (zero + (step + 0.5) / 2000 * (x - zero)).requires_grad_()
            handle = inputs.register_forward_hook(lambda m, i, y, between=between: between)
            logits = model(ids, torch.tensor([data[1][row]]))[0, -1]
            handle.remove()
            slopes += torch.autograd.grad(logits[0] - logits[1], between)[0] / 2000
        expected = ((x - zero) * slopes).sum(-1)[0].numpy()
        np.testing.assert_allclose(found[row, : len(expected)], expected, atol=1e-5)


def test_rollout_is_a_product_of_mixed_weights() -> None:
    data = data_of("classifier")
    found = activations(model_of("classifier"), data, "encoder.*.weights")
    flow = rollout([found["encoder.0.weights"], found["encoder.1.weights"]])
    n = data.lengths("source")[0]
    first, second = (found[f"encoder.{i}.weights"][0, :, :n, :n].mean(0) for i in (0, 1))
    expected = (second + np.eye(n)) / 2 @ ((first + np.eye(n)) / 2)
    np.testing.assert_allclose(flow[0, :n, :n], expected, atol=1e-6)
    np.testing.assert_allclose(flow[0, :n].sum(-1), 1, atol=1e-6)


def test_points_of_two_tokens_have_no_integrated_gradients() -> None:
    with raises(InputError, "experiment.two_token_axes"):
        integrated_gradients(small_model(), IDS, first_logit, point="decoder.0.weights")
    with raises(InputError, "experiment.different_lengths"):
        integrated_gradients(small_model(), IDS, first_logit, other=OTHER[::-1])
    assert read(small_model(), IDS).side == "target"


@pytest.mark.slow
def test_integrated_gradients_from_zero_of_a_pre_norm_model() -> None:
    """Norms of norms change within 1e-6 of 0, where no step of an even grid is."""
    torch.manual_seed(1)
    config = TransformerConfig(
        vocabulary_size=12, d_model=16, n_heads=4, d_ff=32, n_layers=2, norm_first=True
    )
    model = LanguageModel(config).double().eval()
    rows = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [3, 5, 7]]
    zero = {"target.hidden.0": lambda x, batch: torch.zeros_like(x)}
    difference = measure(model, rows, first_logit) - measure(model, rows, first_logit, zero)
    for steps in (None, 800):
        found = integrated_gradients(model, rows, first_logit, steps=steps).sum(1)
        np.testing.assert_allclose(found, difference, rtol=0.01, atol=1e-3)
    with raises(InputError, "experiment.not_converged"):
        integrated_gradients(model, rows, first_logit, steps=5)


@pytest.mark.slow
def test_integrated_gradients_from_zero_of_norms_without_biases() -> None:
    """Four norms with eps of 1e-12 multiply by up to 1e24: the change is at α of about 1e-24."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocabulary_size=12, d_model=8, n_heads=2, d_ff=16, n_layers=2, norm_first=False
    )
    model = LanguageModel(config).eval()
    for name, value in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(value)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12
    rows = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    zero = {"target.hidden.0": lambda x, batch: torch.zeros_like(x)}
    difference = measure(model, rows, first_logit) - measure(model, rows, first_logit, zero)
    found = integrated_gradients(model, rows, first_logit).sum(1)
    np.testing.assert_allclose(found, difference, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("shapes", [[], [(3, 3)], [(2, 3, 4)], [(1, 2, 3, 3), (2, 2, 3, 3)]])
def test_rollout_refuses_other_shapes(shapes: list[tuple[int, ...]]) -> None:
    with raises(InputError, "experiment.rollout_shapes"):
        rollout([np.ones(shape) for shape in shapes])
