"""`jumok.experiment` against TransformerLens and captum, on the same random checkpoints.

    python -m benchmarks.experiments    (pip install transformer-lens captum; tested: 4.3.0, 0.9.0)

Tiny random models of transformers, every weight drawn anew, in eval mode. Differences are
max|a-b| / max(1, max|b|) over all layers, heads and rows; what TransformerLens has by layer and
head is compared whole. Neither package is needed by jumok: install them in an environment of their
own. TransformerLens runs the weights of the checkpoint, but for direct logit attribution, where it
folds the final norm into the projection.
"""

import platform
import tempfile
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import jumok
from jumok import experiment as ex
from tests import hf_folders

IDS = torch.tensor([[5, 9, 12, 7, 20, 11, 8], [6, 30, 8, 21, 9, 13, 10]])
OTHER = torch.tensor([[5, 9, 14, 7, 25, 11, 8], [6, 33, 8, 22, 9, 17, 10]])
RIGHT, WRONG = [3, 10], [8, 4]
METRIC = ex.logit_difference(RIGHT, WRONG)

Difference = tuple[str, float]


def difference(found: Any, expected: Any) -> float:
    """max|a-b| / max(1, max|b|)."""
    a, b = (np.asarray(x, np.float64) for x in (found, expected))
    assert a.shape == b.shape, (a.shape, b.shape)
    return float(np.abs(a - b).max() / max(1.0, np.abs(b).max()))


def logit_difference(logits: Tensor) -> Tensor:
    """The metric as a function of TransformerLens and captum: (B, T, V) -> (B,)."""
    rows = torch.arange(len(logits))  # captum repeats the rows, one copy after the other
    right, wrong = (torch.tensor(ids)[rows % len(ids)] for ids in (RIGHT, WRONG))
    return logits[rows, -1, right] - logits[rows, -1, wrong]


def against_transformer_lens(
    make: Callable[..., Any], folder: Path, **settings: Any
) -> Iterator[Difference]:
    """Every method that TransformerLens has, for one decoder."""
    from transformer_lens import patching
    from transformer_lens.model_bridge import TransformerBridge

    theirs = make(folder, **settings)
    bridge = TransformerBridge.boot_transformers(str(folder), device="cpu", hf_model=theirs)
    bridge.eval()
    model = jumok.load(folder, device="cpu")
    with torch.no_grad():
        _, cache = bridge.run_with_cache(IDS)
        _, other_cache = bridge.run_with_cache(OTHER)
    found = ex.activations(model, IDS, "*")
    layers, heads = bridge.cfg.n_layers, bridge.cfg.n_heads
    rotary = "blocks.0.attn.hook_rot_q" in cache
    names = {
        "q": "attn.hook_rot_q" if rotary else "attn.hook_q",
        "k": "attn.hook_rot_k" if rotary else "attn.hook_k",
        "v": "attn.hook_v",
        "weights": "attn.hook_pattern",
        "mixed": "attn.hook_z",
    }
    for own, name in names.items():
        pairs = []
        for layer in range(layers):
            x = cache[f"blocks.{layer}.{name}"].detach().numpy()
            if own != "weights" and x.shape[1] == IDS.shape[1]:
                x = x.swapaxes(1, 2)  # (B, T, H, K) -> (B, H, T, K)
            pairs.append(difference(found[f"decoder.{layer}.{own}"], x))
        yield f"activations: {own}", max(pairs)
    names = {
        "hidden.{}": "hook_resid_pre",
        "steps.{}.after_self_attention": "hook_resid_mid",
        "steps.{}.after_feed_forward": "hook_resid_post",
        "steps.{}.self_attention": "hook_attn_out",
        "steps.{}.feed_forward": "hook_mlp_out",
    }
    for own, name in names.items():
        yield (
            f"activations: {own.replace('.{}', '')}",
            max(
                difference(
                    found[f"target.{own.format(layer)}"], cache[f"blocks.{layer}.{name}"].detach()
                )
                for layer in range(layers)
            ),
        )

    sites = ex.heads(model)
    expected = patching.get_act_patch_attn_head_out_all_pos(
        bridge, IDS, other_cache, lambda logits: logit_difference(logits).sum()
    )
    patched = ex.patch(model, IDS, OTHER, METRIC, sites).sum(1).reshape(layers, heads)
    yield "activation patching of heads", difference(patched, expected.detach())
    tokens = [
        ex.Site(f"target.hidden.{layer}", token=t)
        for layer in range(layers)
        for t in range(IDS.shape[1])
    ]
    expected = patching.get_act_patch_resid_pre(
        bridge, IDS, other_cache, lambda logits: logit_difference(logits).sum()
    )
    patched = ex.patch(model, IDS, OTHER, METRIC, tokens).sum(1).reshape(layers, -1)
    yield "activation patching of the residual stream", difference(patched, expected.detach())

    ablated = ex.ablate(model, IDS, METRIC, sites)
    expected_rows = []
    for layer in range(layers):
        for head in range(heads):

            def zero(z: Tensor, hook: Any, head: int = head) -> Tensor:
                z = z.clone()
                z[:, :, head] = 0
                return z

            with torch.no_grad():
                logits = bridge.run_with_hooks(
                    IDS, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", zero)]
                )
            expected_rows.append(logit_difference(logits).numpy())
    yield "zero ablation of heads", difference(ablated, np.stack(expected_rows))

    gradients: dict[str, Tensor] = {}  # the bridge gives a hook another name than it was asked for

    def keep(gradient: Tensor, hook: Any, name: str) -> None:
        gradients[name] = gradient.clone()

    names_z = [f"blocks.{layer}.attn.hook_z" for layer in range(layers)]
    hooks = [(name, partial(keep, name=name)) for name in names_z]
    with torch.enable_grad(), bridge.hooks(bwd_hooks=hooks):
        torch.autograd.backward(logit_difference(bridge(IDS)).sum())
    estimates = ex.attribution_patch(model, IDS, OTHER, METRIC, sites)
    expected_rows = [
        ((other_cache[name] - cache[name]) * gradients[name]).sum((1, 3)).detach().T.numpy()
        for name in names_z
    ]
    yield "attribution patching", difference(estimates, np.concatenate(expected_rows))

    lens = ex.logit_lens(model, IDS, METRIC)
    resid = torch.stack([cache[f"blocks.{layer}.hook_resid_pre"] for layer in range(layers)])
    with torch.no_grad():
        streams = [bridge.unembed(bridge.ln_final(x)) for x in resid]
    expected_rows = [logit_difference(x).numpy() for x in streams]
    yield "logit lens (ln_final, unembed)", difference(lens[:-1], np.stack(expected_rows))

    parts = ex.logit_attribution(model, IDS, METRIC)
    ours = np.concatenate([parts[f"decoder.{layer}.mixed"] for layer in range(layers)], 1).T
    bridge.enable_compatibility_mode(fold_value_biases=False)  # its attribution needs folded norms
    with torch.no_grad():
        _, cache = bridge.run_with_cache(IDS)
    stack = cache.stack_head_results(layer=-1, pos_slice=-1)
    expected = cache.logit_attrs(
        stack, torch.tensor(RIGHT), incorrect_tokens=torch.tensor(WRONG), pos_slice=-1
    )
    yield "direct logit attribution of heads", difference(ours, expected.detach())


def against_captum(folder: Path) -> Iterator[tuple[str, str, float]]:
    """Integrated gradients, and activation x gradient, of a BERT, a GPT-2 and a T5."""
    from captum.attr import LayerGradientXActivation, LayerIntegratedGradients

    labels = ["a", "b", "c"]
    bert, gpt2, t5 = (folder / name for name in ("bert", "gpt2", "t5"))
    for each in (bert, gpt2, t5):
        each.mkdir()
    classifier = hf_folders.bert(bert, "ForSequenceClassification", labels).eval()
    decoder, seq2seq = hf_folders.gpt2(gpt2).eval(), hf_folders.t5(t5).eval()
    target = torch.tensor([[0, 5, 6], [0, 7, 8]])

    def of_decoder(ids: Tensor) -> Tensor:
        return logit_difference(decoder(ids, use_cache=False).logits)

    def of_both(ids: Tensor, target: Tensor) -> Tensor:
        return logit_difference(
            seq2seq(input_ids=ids, decoder_input_ids=target, use_cache=False).logits
        )

    cases: list[tuple[str, Path, Callable[..., Tensor], Any, str, tuple[Tensor, ...]]] = [
        (
            *("BERT", bert, lambda ids: classifier(ids).logits[:, 2]),
            *(classifier.bert.embeddings, "source.hidden.0", ()),
        ),
        ("GPT-2", gpt2, of_decoder, decoder.transformer.drop, "target.hidden.0", ()),
        ("T5", t5, of_both, seq2seq.encoder.final_layer_norm, "source.hidden.2", (target,)),
    ]
    for name, path, forward, layer, point, more in cases:
        model = jumok.load(path, device="cpu")
        data, other = (ex.read(model, (ids, *more) if more else ids) for ids in (IDS, IDS * 0 + 1))
        metric = (lambda logits, batch: logits[:, 2]) if name == "BERT" else METRIC
        found = ex.integrated_gradients(model, data, metric, other=other, point=point, steps=32)
        expected = LayerIntegratedGradients(forward, layer).attribute(
            IDS, IDS * 0 + 1, additional_forward_args=more, n_steps=32
        )
        yield name, "integrated gradients", difference(found, expected.sum(-1).detach())
        tokens = [ex.Site(point, token=t) for t in range(IDS.shape[1])]
        found = -ex.attribution_patch(model, data, None, metric, tokens).T
        expected = LayerGradientXActivation(forward, layer).attribute(
            IDS, additional_forward_args=more
        )
        yield name, "activation x gradient", difference(found, expected.sum(-1).detach())


def main() -> None:
    """Print a table of differences."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    packages = ("jumok", "torch", "transformers", "transformer-lens", "captum")
    print("python -m benchmarks.experiments")
    print(
        date.today(),
        *(f"{name} {version(name)}" for name in packages),
        platform.machine(),
        sep=", ",
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, make, settings in (
            ("GPT-2", hf_folders.gpt2, {"n_layer": 3}),
            ("Llama (grouped heads)", hf_folders.llama, {}),
        ):
            path = Path(folder) / name.partition(" ")[0]
            path.mkdir()
            for method, found in against_transformer_lens(make, path, **settings):
                print(f"{name:22} TransformerLens  {method:44} {found:.1e}", flush=True)
        for name, method, found in against_captum(Path(folder)):
            print(f"{name:22} captum           {method:44} {found:.1e}", flush=True)


if __name__ == "__main__":
    main()
