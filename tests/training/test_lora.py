"""LoRA: fixed weights stay, the merged model has the same outputs, PEFT reads and writes them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import jumok
from jumok.errors import InputError
from jumok.export import export
from jumok.nn.lora import LoraConfig, LoraLinear, add_lora, merge_lora
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.average_checkpoints import average_checkpoints
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.train import resume, train
from tests import hf_folders
from tests.cli.commands import call
from tests.errors import raises
from tests.export.small_models import config
from tests.tiny_runs import reviews, write_tsv

# Of transformers, called by PEFT's own constructor.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")

RECIPE = """
name = "reviews"
task = "classification"
[data]
train = "{folder}/train.tsv"
dev = "{folder}/dev.tsv"
test = "{folder}/dev.tsv"
[model]
init = "{folder}/base"
pooling = "first"
pooler = "tanh"
[training]
steps = 24
batch_tokens = 512
learning_rate = 0.05
evaluate_every = 4
precision = "float32"
lora = {{ rank = 4, targets = ["query", "value", "up"] }}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "base").mkdir()
    hf_folders.bert(tmp_path / "base")
    for seed, (split, n) in enumerate([("train", 80), ("dev", 24)]):
        write_tsv(tmp_path / f"{split}.tsv", ("text", "label"), reviews(n, seed))
    path = tmp_path / "reviews.toml"
    path.write_text(RECIPE.format(folder=tmp_path), encoding="utf-8")
    return path


def test_the_merged_map_has_the_same_outputs() -> None:
    from jumok.models import Encoder

    torch.manual_seed(0)
    model = Encoder(config()).eval()
    ids = torch.randint(3, 40, (2, 9))
    before = model(ids)
    names = add_lora(model, LoraConfig(rank=3, targets=("query", "down")))
    assert len(names) == 4
    assert torch.equal(model(ids), before)  # B is 0
    for module in model.modules():
        if isinstance(module, LoraLinear):
            torch.nn.init.normal_(module.lora_b, std=0.2)
    changed = model(ids)
    assert not torch.allclose(changed, before, atol=1e-2)
    merge_lora(model)
    assert not any(isinstance(module, LoraLinear) for module in model.modules())
    torch.testing.assert_close(model(ids), changed, atol=1e-5, rtol=0)


def test_only_the_change_and_the_head_are_trained(recipe: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(load_recipe(str(recipe)), run)
    base = jumok.load(tmp_path / "base").model.state_dict()
    trained = jumok.load(run).model.state_dict()
    changed = {
        name
        for name, tensor in trained.items()
        if name.startswith("encoder.") and not torch.equal(tensor, base[name])
    }
    assert {name.rpartition(".")[0].rpartition(".")[2] for name in changed} == {
        "query",
        "value",
        "up",
    }
    assert all(name.endswith(".weight") for name in changed)
    adapter = load_file(run / "adapter.safetensors")
    name = "encoder.stack.layers.0.self_attention.query"
    change = 2.0 * adapter[f"{name}.lora_b"] @ adapter[f"{name}.lora_a"]
    torch.testing.assert_close(trained[f"{name}.weight"], base[f"{name}.weight"] + change)


def test_a_resumed_run_is_bit_identical(recipe: Path, tmp_path: Path) -> None:
    from jumok.training.trainer import Trainer

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(load_recipe(str(recipe)), whole)
    step, count = Trainer.train_step, 0

    def dying(self: Trainer[Any]) -> float:
        nonlocal count
        count += 1
        if count == 7:
            raise KeyboardInterrupt
        return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", dying)
        with pytest.raises(KeyboardInterrupt):
            train(load_recipe(str(recipe)), parts)
    resume(parts)
    for name in ("model.safetensors", "adapter.safetensors"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()


def test_checkpoints_are_loaded_and_averaged_with_their_change(
    recipe: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(load_recipe(str(recipe)), run)
    last = jumok.load(sorted(run.glob("checkpoints/step-*"))[-1])
    assert not any("lora" in name for name in last.model.state_dict())
    average_checkpoints(run, 2, tmp_path / "average")
    assert jumok.load(tmp_path / "average")("최고").label in ("positive", "negative")


def test_peft_reads_the_adapter(recipe: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    run, out = tmp_path / "run", tmp_path / "out"
    train(load_recipe(str(recipe)), run)
    done = export(run, "peft", out)
    assert done.report.compared.difference <= 1e-5
    base = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "base")
    model = peft.PeftModel.from_pretrained(base, out).eval()
    ours = jumok.load(run, device="cpu")
    ids = torch.tensor([[2, 5, 6, 7, 3]])
    with torch.no_grad():
        found = model(ids).logits
    torch.testing.assert_close(ours.logits(ids), found, atol=1e-5, rtol=0)
    again = tmp_path / "again"
    import_checkpoint(out, again, str(tmp_path / "base"))
    torch.testing.assert_close(
        jumok.load(again, device="cpu").logits(ids), found, atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("rslora", [False, True])
def test_an_adapter_of_peft_is_imported(tmp_path: Path, rslora: bool) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    folder, base = tmp_path / "adapter", tmp_path / "base"
    base.mkdir()
    hf_folders.bert(base, head="Model")
    torch.manual_seed(1)
    model = transformers.BertForSequenceClassification.from_pretrained(base, num_labels=3)
    settings = peft.LoraConfig(
        task_type="SEQ_CLS",
        r=4,
        lora_alpha=6,
        use_rslora=rslora,
        target_modules=["query", "value", "dense"],
        modules_to_save=["classifier"],
    )
    tuned = peft.get_peft_model(model, settings).eval()
    for name, parameter in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    tuned.save_pretrained(folder)
    import_checkpoint(folder, tmp_path / "out", str(base))
    ours = jumok.load(tmp_path / "out", device="cpu")
    assert ours.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 9, 8, 11, 3]])
    with torch.no_grad():
        torch.testing.assert_close(ours.logits(ids), tuned(ids).logits, atol=1e-5, rtol=0)


def test_the_base_of_a_checkpoint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Only adapters have one; the same import without it works."""
    base = tmp_path / "base"
    base.mkdir()
    hf_folders.bert(base)
    done = call(capsys, "import", base, tmp_path / "out", "--base", base)
    assert (done.code, "--base is for LoRA adapters" in done.err) == (2, True)
    assert call(capsys, "import", base, tmp_path / "out").code == 0


def test_adapters_that_are_refused(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    folder, base, other = tmp_path / "adapter", tmp_path / "base", tmp_path / "other"
    for each in (base, other):
        each.mkdir()
    hf_folders.bert(base, head="Model")
    hf_folders.bert(other, head="Model", hidden_size=48, num_attention_heads=2)
    model = transformers.BertModel.from_pretrained(base)
    settings = peft.LoraConfig(r=2, target_modules=["query"])
    peft.get_peft_model(model, settings).save_pretrained(folder)
    with raises(InputError, "pretrained.adapter_shape"):
        import_checkpoint(folder, tmp_path / "out", str(other))
    assert not (tmp_path / "out").exists()
    path = folder / "adapter_config.json"
    for change, match in (
        ({"use_dora": True}, "use_dora must be false, got true; merge such an adapter with PEFT"),
        ({"peft_type": "IA3"}, "peft_type must be LORA, got IA3"),
        ({"lora_alpha": "8"}, "lora_alpha must be a number, got 8"),
    ):
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | change))
        with pytest.raises(InputError, match=match):
            import_checkpoint(folder, tmp_path / "out", str(base))
        path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        (["training.lora.rank=-1"], "config.out_of_range"),
        (["training.lora.targets=['quary']"], "config.wrong_type"),
        (["training.sharding=full"], "training.not_with_sharding"),
        (["model.init="], "recipe.lora_without_init"),
    ],
)
def test_settings_that_are_refused(recipe: Path, overrides: list[str], match: str) -> None:
    with raises(InputError, match):
        load_recipe(str(recipe), overrides)
