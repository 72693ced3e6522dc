"""Interventions equal plain hooks of PyTorch, and obey the identities that define them."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from jumok.errors import InputError
from jumok.experiment import (
    Site,
    ablate,
    activations,
    attribution_patch,
    heads,
    logit_difference,
    mean_log_probability,
    measure,
    patch,
    path_patch,
    read,
)
from jumok.models import LanguageModel, TransformerConfig
from jumok.models.points import attention_modules
from jumok.nn.hooks import shared_copy
from tests.errors import raises
from tests.experiment.models import KINDS, by_hand, data_of, first_logit, model_of, swapped

TOLERANCE = (
    2e-5  # relative to the largest: float32, and the batch of a run by hand has another size
)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(
        found, expected, atol=TOLERANCE * max(1.0, float(np.abs(expected).max()))
    )


def small_model(**changes: Any) -> LanguageModel:
    torch.manual_seed(1)
    config = TransformerConfig(
        **(
            {"vocabulary_size": 12, "d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 3}
            | {"norm_first": True, "dropout": 0.0}
            | changes
        )
    )
    model = LanguageModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight) * 0.4)
    return model


IDS = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [3, 5, 7]]
OTHER = [[2, 2, 4, 4, 6], [1, 7, 1, 9, 1], [9, 8, 7]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_metric_of_a_row_does_not_depend_on_its_batch(kind: str) -> None:
    close(
        measure(model_of(kind), data_of(kind), first_logit),
        [by_hand(kind, row) for row in range(len(data_of(kind)))],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_zero_ablation_is_a_column_of_zeros(kind: str) -> None:
    """Before W_O the columns of a head are its output: a plain hook sets them to 0."""
    model, data = model_of(kind), data_of(kind)
    sites = [
        Site(f"{block}.{layer}.mixed", head)
        for block, layer, module in attention_modules(model.model)
        for head in range(module.n_heads)
    ]
    assert sorted(sites, key=str) == sorted(heads(model), key=str)
    found = ablate(model, data, first_logit, sites)
    expected = []
    for i, attention in enumerate(attention_modules(model.model)):
        for head in range(attention.module.n_heads):
            copy = shared_copy(model.model)
            output, width = attention_modules(copy)[i].module.output, attention.module.d_head

            def silence(
                module: Any, inputs: tuple[Tensor], start: int = head * width, width: int = width
            ) -> Tensor:
                x = inputs[0].clone()
                x[..., start : start + width] = 0
                return x

            output.register_forward_pre_hook(silence)
            expected.append([by_hand(kind, row, model=copy) for row in range(len(data))])
    close(found, expected)
    assert np.ptp(found) > 0.01
    assert not any(m._forward_pre_hooks for m in model.model.modules())


def test_mean_ablation_takes_the_mean_of_the_reference() -> None:
    model = small_model()
    values = activations(model, OTHER, "decoder.1.mixed").tokens("decoder.1.mixed")
    mean = torch.from_numpy(values.mean(0))  # (H, K)
    assert values.shape == (13, 4, 4)

    def change(x: Tensor, batch: Any) -> Tensor:
        x = x.clone()
        x[:, 2] = mean[2]
        return x

    expected = measure(model, IDS, first_logit, {"decoder.1.mixed": change})
    site = Site("decoder.1.mixed", head=2)
    close(ablate(model, IDS, first_logit, [site], how="mean", reference=OTHER)[0], expected)
    own = ablate(model, IDS, first_logit, [site], how="mean")
    assert np.abs(own[0] - expected).max() > 1e-3


def test_resampling_gives_tokens_of_the_reference_and_repeats_with_its_seed() -> None:
    model, site = small_model(), Site("target.hidden.1", token=0)
    one = ablate(model, IDS, first_logit, [site], how="resample", reference=[[4]])
    (only,) = activations(model, [[4]], "target.hidden.1").tokens("target.hidden.1")

    def change(x: Tensor, batch: Any) -> Tensor:
        x = x.clone()
        x[:, 0] = torch.from_numpy(only)
        return x

    close(one[0], measure(model, IDS, first_logit, {"target.hidden.1": change}))
    run = partial(ablate, model, IDS, first_logit, [site], how="resample", reference=OTHER)
    assert np.array_equal(run(seed=3), run(seed=3))
    assert not np.array_equal(run(seed=3), run(seed=4))


@pytest.mark.parametrize("kind", KINDS)
def test_patching_the_input_is_the_other_run_and_patching_itself_changes_nothing(kind: str) -> None:
    model, data = model_of(kind), data_of(kind)
    other = swapped(data, "source" if "source" in data.ids else "target")
    side = next(iter(data.ids))
    whole = patch(model, data, other, first_logit, [Site(f"{side}.hidden.0")])
    close(whole[0], measure(model, other, first_logit))
    clean = measure(model, data, first_logit)
    close(patch(model, data, data, first_logit, heads(model)) - clean, 0.0)


def test_patching_every_token_or_head_alone_equals_hooks() -> None:
    model = small_model()
    sites = [Site("target.hidden.1", token=t) for t in (0, 2, -1)]
    sites += [Site("decoder.1.k", head=1), Site("decoder.2.weights", head=3, token=-1)]
    found = patch(model, IDS, OTHER, first_logit, sites)
    for row, (ids, other) in enumerate(zip(IDS, OTHER, strict=True)):
        there = activations(model, [other], ["target.hidden.1", "decoder.1.k", "decoder.2.weights"])
        for i, site in enumerate(sites):

            def change(x: Tensor, batch: Any, site: Site = site, there: Any = there) -> Tensor:
                new, x = torch.from_numpy(there[site.point]), x.clone()
                if site.head is None:
                    x[:, site.token] = new[:, site.token]
                elif site.token is None:
                    x[:, site.head] = new[:, site.head]
                else:
                    x[:, site.head, site.token] = new[:, site.head, site.token]
                return x

            close(found[i, row], measure(model, [ids], first_logit, {site.point: change})[0])


def test_attribution_is_the_derivative_of_patching() -> None:
    """A point between the two runs at 1/1000 of the way: the estimate and the change agree."""
    model = small_model().double()
    sites = [*heads(model), Site("target.steps.1.feed_forward", token=-1)]
    estimate = attribution_patch(model, IDS, OTHER, first_logit, sites)
    here = activations(model, IDS, "*")
    there = activations(model, OTHER, "*")
    clean = measure(model, IDS, first_logit)
    for i, site in enumerate(sites):

        def step(x: Tensor, batch: Any, site: Site = site) -> Tensor:
            rows = batch.rows.numpy()
            size = [slice(n) for n in x.shape[1:]]
            way = torch.from_numpy((there[site.point] - here[site.point])[rows][:, *size])
            where = torch.zeros_like(x)
            if site.head is not None:
                where[:, site.head] = 1
            else:
                for row, ids in enumerate(batch.rows.tolist()):
                    where[row, len(IDS[ids]) - 1] = 1
            return x + 1e-4 * way * where

        moved = (measure(model, IDS, first_logit, {site.point: step}) - clean) / 1e-4
        np.testing.assert_allclose(estimate[i], moved, atol=2e-3 * np.abs(estimate).max())


def test_attribution_to_zero_is_exact_where_the_rest_is_linear() -> None:
    """After the last norm only the projection to the vocabulary is left."""
    model, end = small_model(), [Site("target.hidden.3")]
    clean = measure(model, IDS, first_logit)
    close(
        clean + attribution_patch(model, IDS, None, first_logit, end)[0],
        ablate(model, IDS, first_logit, end)[0],
    )


def test_paths_without_frozen_points_are_patches() -> None:
    model, senders = small_model(), heads(small_model(), "decoder.0.mixed")
    receivers = [Site("target.hidden.3")]
    close(
        path_patch(model, IDS, OTHER, first_logit, senders, receivers, frozen=()),
        patch(model, IDS, OTHER, first_logit, senders),
    )


def test_a_path_from_head_to_query_equals_three_runs_by_hand() -> None:
    """Wang et al. 2022, appendix B: head (0, 1) to the queries of head (2, 3)."""
    model = small_model()
    sender, receiver = Site("decoder.0.mixed", head=1), Site("decoder.2.q", head=3)
    found = path_patch(model, IDS, OTHER, first_logit, [sender], [receiver])
    assert np.abs(found - measure(model, IDS, first_logit)).max() > 1e-4
    layers = [each.module for each in attention_modules(model)]
    for row, (ids, other) in enumerate(zip(IDS, OTHER, strict=True)):
        frozen = _outputs_of_heads(model, ids)
        frozen[0][..., 4:8] = _outputs_of_heads(model, other)[0][..., 4:8]
        queries: list[Tensor] = []

        def keep(module: Any, inputs: Any, q: Tensor, queries: list[Tensor] = queries) -> None:
            queries.append(q)

        def put(module: Any, inputs: Any, q: Tensor, queries: list[Tensor] = queries) -> Tensor:
            q = q.clone()
            q[:, 3] = queries[0][:, 3]
            return q

        handles = [
            layer.output.register_forward_pre_hook(lambda m, x, new=new: (new,))
            for layer, new in zip(layers, frozen, strict=True)
        ]
        handles.append(layers[2].hook_q.register_forward_hook(keep))
        with torch.no_grad():
            model(torch.tensor([ids]))
            for handle in handles:
                handle.remove()
            handle = layers[2].hook_q.register_forward_hook(put)
            logits = model(torch.tensor([ids]))[0, -1]
        handle.remove()
        close(found[0, row], float(logits[0] - logits[1]))


def _outputs_of_heads(model: LanguageModel, ids: list[int]) -> list[Tensor]:
    """What W_O gets in each layer, (1, T, H*K)."""
    found: list[Tensor] = []
    handles = [
        each.module.output.register_forward_pre_hook(
            lambda module, inputs: found.append(inputs[0].clone())
        )
        for each in attention_modules(model)
    ]
    with torch.no_grad():
        model(torch.tensor([ids]))
    for handle in handles:
        handle.remove()
    return found


def test_many_sites_in_one_batch_equal_one_site_at_a_time() -> None:
    model = small_model()
    sites = [*heads(model), Site("target.hidden.0", token=1), Site("target.steps.2.feed_forward")]
    together = ablate(model, IDS, first_logit, sites)
    alone = [ablate(model, IDS, first_logit, [site])[0] for site in sites]
    close(together, np.array(alone))


def test_the_metrics_are_differences_and_means_of_logits() -> None:
    model = small_model()
    found = measure(model, IDS, logit_difference([3, 1, 2], [4, 4, 4]))
    likely = measure(model, IDS, mean_log_probability)
    for row, ids in enumerate(IDS):
        with torch.no_grad():
            logits = model(torch.tensor([ids]))[0]
        close(found[row], float(logits[-1, [3, 1, 2][row]] - logits[-1, 4]))
        log_p = logits[:-1].log_softmax(-1)
        close(likely[row], float(log_p[torch.arange(len(ids) - 1), ids[1:]].mean()))


def test_wrong_sites_metrics_and_rows_are_refused() -> None:
    model = small_model()
    for site, code in (
        (Site("decoder.0.mixed", head=4), "experiment.head_range"),
        (Site("decoder.0.mixed", head=-1), "experiment.head_range"),
        (Site("target.hidden.0", head=0), "experiment.head_range"),
        (Site("target.hidden.0", token=3), "experiment.token_range"),
        (Site("target.hidden.0", token=-4), "experiment.token_range"),
        (Site("decoder.3.mixed"), "experiment.unknown_point"),
        (Site("decoder.*.mixed"), "experiment.unknown_point"),
    ):
        with raises(InputError, code):
            ablate(model, IDS, first_logit, [site])
    with raises(InputError, "experiment.two_token_axes"):
        ablate(model, IDS, first_logit, [Site("decoder.0.weights", head=0)], how="mean")
    with raises(InputError, "experiment.metric_shape"):
        measure(model, IDS, lambda logits, batch: logits.mean())
    with raises(InputError, "experiment.no_next_tokens"):
        measure(model_of("classifier"), data_of("classifier"), mean_log_probability)
    with raises(InputError, "experiment.different_lengths"):
        patch(model, IDS, [*OTHER[:2], [1]], first_logit, heads(model))
    with raises(InputError, "experiment.different_counts"):
        patch(model, IDS, OTHER[:2], first_logit, heads(model))
    assert len(read(model, IDS)) == 3


def test_a_site_may_be_a_name() -> None:
    model = small_model()
    found = ablate(model, IDS, first_logit, ["decoder.0.mixed"])
    np.testing.assert_array_equal(found, ablate(model, IDS, first_logit, [Site("decoder.0.mixed")]))


@pytest.mark.parametrize(
    "edit", [lambda x: x[:1], lambda x: x[..., :1], lambda x: x.double(), lambda x: None]
)
def test_an_edit_keeps_shape_and_type(edit: Any) -> None:
    """One row would be spread over all."""
    for name in ("decoder.0.mixed", "decoder.0.weights", "target.hidden.1"):
        with raises(InputError, "experiment.edit_shape"):
            measure(small_model(), IDS, first_logit, {name: lambda x, batch: edit(x)})


@pytest.mark.parametrize(("right", "wrong"), [([1], [0]), ([1, 2, 12], [0, 0, 0]), (12, 0)])
def test_a_difference_needs_ids_of_each_row(right: Any, wrong: Any) -> None:
    with raises(InputError, "experiment.ids_of_difference"):
        measure(small_model(), IDS, logit_difference(right, wrong))


def test_one_id_is_that_of_all_rows() -> None:
    found = measure(small_model(), IDS, logit_difference(3, 4))
    assert (
        found.tolist() == measure(small_model(), IDS, logit_difference([3] * 3, [4] * 3)).tolist()
    )
    at = measure(small_model(), IDS, logit_difference(3, 4, [0, 1, 0]))
    each = measure(small_model(), IDS, logit_difference([3] * 3, [4] * 3, [0, 1, 0]))
    assert at.tolist() == each.tolist()


@pytest.mark.parametrize(("right", "wrong"), [("좋", "나"), (["좋"], [0]), (1.5, 2), ([], [1])])
def test_a_difference_refuses_text(right: Any, wrong: Any) -> None:
    with raises(InputError, "experiment.ids_are_integers"):
        logit_difference(right, wrong)


def test_a_path_is_no_model() -> None:
    with raises(InputError, "experiment.model_type"):
        measure("runs/bert", IDS, first_logit)  # type: ignore[arg-type]
