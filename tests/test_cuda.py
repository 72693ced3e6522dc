"""A GPU computes what the CPU computes; skipped where there is none.

`JUMOK_TEST_DEVICE=cpu` runs the same tests on the CPU, to be sure that they can pass.
"""

import math
import os
from pathlib import Path

import pytest
import torch
from torch import nn

import jumok
from jumok.decoding.api import GenerationRequest, generate_seq2seq
from jumok.decoding.config import DecodingConfig
from jumok.models import Encoder, EncoderDecoder, TransformerConfig
from jumok.native.quantize import quantize_int8
from jumok.nn import AttentionMask
from jumok.nn.attention import attention_scores, masked_softmax
from jumok.nn.attention_kernels import fused_attention
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.nn.losses import cross_entropy
from jumok.tasks.masked_lm import masked_hidden
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.setup import prepare_training
from jumok.tasks.runs.train import train
from tests.cli.commands import run
from tests.tiny_runs import reviews

NAME = os.environ.get("JUMOK_TEST_DEVICE", "cuda")
DEVICE = torch.device(NAME)
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(NAME == "cuda" and not torch.cuda.is_available(), reason="no CUDA"),
]
CONFIG = TransformerConfig(vocabulary_size=50, d_model=64, n_heads=4, d_ff=128, n_layers=2)
TOLERANCE = 1e-4  # float32 in another order; products are not rounded to TF32 by default


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative"])
@torch.no_grad()
def test_encoders(positions: str) -> None:
    torch.manual_seed(0)
    changed = {**vars(CONFIG), "positions": positions}
    model = Encoder(TransformerConfig(**changed)).eval()
    ids, mask = torch.randint(4, 50, (3, 300)), torch.arange(300) < torch.tensor([[300], [17], [1]])
    expected = model(ids, mask)
    there = model.to(DEVICE)(ids.to(DEVICE), mask.to(DEVICE)).cpu()
    assert (there - expected)[mask].abs().max() < TOLERANCE


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_fused_attention_and_its_gradients(causal: bool, padded: bool) -> None:
    """Each of the kernels that torch may choose, against equation (1) written out."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 40, 16, device=DEVICE, requires_grad=True) for _ in range(3))
    allowed = (torch.arange(40, device=DEVICE) < 23).expand(2, 40) if padded else None
    mask = AttentionMask.from_padding(allowed, causal=causal)
    fused = fused_attention(q, k, v, mask, None, 0.25, 0.0)
    weights = masked_softmax(attention_scores(q, k, None, 0.25), mask.dense(40, 40, DEVICE))
    expected = weights @ v
    torch.testing.assert_close(fused, expected, atol=TOLERANCE, rtol=TOLERANCE)
    for mine, other in zip(
        torch.autograd.grad(fused.square().sum(), (q, k, v)),
        torch.autograd.grad(expected.square().sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, atol=TOLERANCE, rtol=1e-3)


def test_fused_linear_cross_entropy() -> None:
    torch.manual_seed(0)
    output = nn.Linear(32, 500).to(DEVICE)
    hidden = torch.randn(700, 32, device=DEVICE, requires_grad=True)
    targets = torch.randint(500, (700,), device=DEVICE)
    fused = fused_linear_cross_entropy(hidden, output, targets, label_smoothing=0.1)
    plain = cross_entropy(output(hidden), targets, 0.1)
    torch.testing.assert_close(fused, plain, rtol=1e-4, atol=0.0)
    (mine,), (other,) = (torch.autograd.grad(loss, hidden) for loss in (fused, plain))
    torch.testing.assert_close(mine, other, atol=TOLERANCE, rtol=1e-3)


@pytest.mark.parametrize("beam", [1, 4])
@torch.no_grad()
def test_generation(beam: int) -> None:
    torch.manual_seed(0)
    model = EncoderDecoder(CONFIG).eval()
    source = torch.randint(4, 50, (5, 9))
    request = GenerationRequest(DecodingConfig(beam=beam, max_length=12), end_id=3)
    expected = generate_seq2seq(model, source, None, request, bos_id=2)
    there = generate_seq2seq(model.to(DEVICE), source.to(DEVICE), None, request, bos_id=2)
    for (mine,), (other,) in zip(expected, there, strict=True):
        assert mine.ids == other.ids
        assert mine.score == pytest.approx(other.score, abs=1e-3)


@torch.no_grad()
def test_int8() -> None:
    """Also with fewer rows than the product of int8 matrices of CUDA takes."""
    torch.manual_seed(0)
    model = quantize_int8(nn.Sequential(nn.Linear(60, 90)))
    for rows in (1, 16, 33):
        x = torch.randn(rows, 60)
        expected = model.cpu()(x)
        assert (model.to(DEVICE)(x.to(DEVICE)).cpu() - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize("words", [(), ("training.precision=bfloat16",), ("training.strict=true",)])
def test_training_and_prediction(
    review_recipe: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """A run of the device is opened on the CPU, and one of the CPU is resumed nowhere else."""
    out = tmp_path / "run"
    done = run("train", review_recipe, f"device={NAME}", "training.steps=20", *words, "--out", out)
    assert done.code == 0, done.err
    assert jumok.load(out)("이 영화 재미있어요").label in ("negative", "positive")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("model.generator=0.5", "model.generator_layers=1"),
        ('distillation.teachers=["ko-small-vectors"]',),
    ],
    ids=["masked", "replaced", "states"],
)
def test_packed_pretraining(words: tuple[str, ...], tmp_path: Path) -> None:
    """The step of `ko-small`: the same hidden states of packed rows; and bfloat16 trains."""
    text = "".join(f"{text}\n" for text, _ in reviews(60, 0))
    (tmp_path / "train.txt").write_text(text, encoding="utf-8")
    path = tmp_path / "pretraining.toml"
    path.write_text(PRETRAINING.format(folder=tmp_path), encoding="utf-8")
    hidden = []
    for device in ("cpu", NAME):
        plan = load_recipe(str(path), [*words, f'device="{device}"'])
        job = prepare_training(plan, torch.device(device)).job
        with torch.no_grad():
            hidden.append(masked_hidden(job.model.eval(), job.epoch(0)[0])[0].cpu())
    torch.testing.assert_close(hidden[1], hidden[0], atol=TOLERANCE, rtol=TOLERANCE)
    plan = load_recipe(str(path), [*words, f'device="{NAME}"', "training.precision=bfloat16"])
    result = train(plan, tmp_path / "run")
    assert result.results["loss"] < math.log(66)  # better than a guess among all pieces


PRETRAINING = """
task = "masked_language_modeling"
[data]
train = "{folder}/train.txt"
[vocabulary]
size = 66
[model]
d_model = 32
d_embedding = 16
n_heads = 2
d_ff = 64
n_layers = 2
n_segments = 2
positions = "learned"
dropout = 0.0
max_length = 32
[masking]
mlm_probability = 0.3
final_probability = 0.15
packed = true
[training]
steps = 60
batch_tokens = 512
learning_rate = 0.01
warmup_steps = 5
"""
