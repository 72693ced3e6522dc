"""Adapters of PEFT, in every variant that it offers: merged as PEFT computes them, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import jumok
from jumok.errors import InputError, ModelFileError
from jumok.formats.peft_adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS, KEYS, OLD_WEIGHTS
from jumok.safetensors_io import read_tensors
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from tests import hf_folders
from tests.combinations import singly
from tests.errors import raises

pytestmark = [  # of transformers and PEFT
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:peft"),
]
IDS = torch.tensor([[2, 5, 6, 7, 8, 9, 3]])
PLAIN: dict[str, Any] = {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]}
MERGED: dict[str, dict[str, Any]] = {
    "plain": {},
    "rslora": {"use_rslora": True},
    "rank_pattern": {"rank_pattern": {"q_proj": 2}},
    "layers_to_transform": {"layers_to_transform": [1]},
    "all-linear": {"target_modules": "all-linear"},
    "lm_head": {"target_modules": ["q_proj", "lm_head"]},
    "gaussian": {"init_lora_weights": "gaussian"},
    "orthogonal": {"init_lora_weights": "orthogonal"},
    "mica": {"init_lora_weights": "mica"},
    "no initialization": {"init_lora_weights": False},
    "qalora": {"use_qalora": True, "qalora_group_size": 4},
    "saved head": {"modules_to_save": ["lm_head"]},
    "saved embedding": {"modules_to_save": ["embed_tokens"]},
    "both saved": {"modules_to_save": ["embed_tokens", "lm_head"]},
}
REFUSED: dict[str, dict[str, Any]] = {
    "pissa": {"init_lora_weights": "pissa"},
    "pissa_niter": {"init_lora_weights": "pissa_niter_4"},
    "olora": {"init_lora_weights": "olora"},
    "alora": {"alora_invocation_tokens": [8], "task_type": "CAUSAL_LM"},
    "dora": {"use_dora": True},
    "bias": {"bias": "lora_only"},
    "lora_bias": {"lora_bias": True},
    "alpha_pattern": {"alpha_pattern": {"q_proj": 3}},
    "trainable tokens": {"trainable_token_indices": [5]},
    "replication": {"layer_replication": [[0, 2], [1, 2]]},
}


def llama(folder: Path, tied: bool = False) -> Path:
    folder.mkdir()
    hf_folders.llama(folder, tie_word_embeddings=tied)
    return folder


def save_adapter(base: Path, folder: Path, **settings: Any) -> torch.Tensor:
    """Write an adapter with random weights; the logits that PEFT computes with it."""
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    tuned = peft.get_peft_model(model, peft.LoraConfig(**(PLAIN | settings)))
    torch.manual_seed(2)
    for parameter in tuned.parameters():
        if parameter.requires_grad:
            parameter.data += torch.randn_like(parameter) * 0.05
    tuned.save_pretrained(folder)
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    with torch.no_grad():
        found: torch.Tensor = peft.PeftModel.from_pretrained(model, folder).eval()(IDS).logits
    return found


def test_a_folder_that_an_adapter_names_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's adapter may name any folder: it is inside, or --base names it."""
    base, folder = llama(tmp_path / "base"), tmp_path / "adapter"
    save_adapter(base, folder)
    monkeypatch.chdir(tmp_path)
    path = folder / ADAPTER_CONFIG
    config = json.loads(path.read_text())
    for named in (str(base), "base", "./base", "../base", ""):
        path.write_text(json.dumps(config | {"base_model_name_or_path": named}))
        with raises(InputError, "run.base_of_adapter"):
            import_checkpoint(folder, tmp_path / "out")
        assert not (tmp_path / "out").exists()
    import_checkpoint(folder, tmp_path / "named", "base")
    base.rename(folder / "base")
    path.write_text(json.dumps(config | {"base_model_name_or_path": "base"}))
    import_checkpoint(folder, tmp_path / "inner")


@pytest.mark.parametrize(("name", "tied"), singly(MERGED, [False, True]))
def test_merged_as_peft_computes_it(
    name: str, tied: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, folder = llama(tmp_path / "base", tied), tmp_path / "adapter"
    expected = save_adapter(base, folder, **MERGED[name])
    capsys.readouterr()
    import_checkpoint(folder, tmp_path / "out", str(base))
    assert "not read" not in capsys.readouterr().err
    ours = jumok.load(tmp_path / "out", device="cpu").logits(IDS)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)  # float32 in another order


def test_ensured_tying_of_the_saved_embedding(tmp_path: Path) -> None:
    base, folder = llama(tmp_path / "base", tied=True), tmp_path / "adapter"
    settings = {"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True}
    expected = save_adapter(base, folder, **settings)
    import_checkpoint(folder, tmp_path / "out", str(base))
    ours = jumok.load(tmp_path / "out", device="cpu").logits(IDS)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", REFUSED)
def test_variants_that_are_refused(name: str, tmp_path: Path) -> None:
    base, folder = llama(tmp_path / "base"), tmp_path / "adapter"
    save_adapter(base, folder, **REFUSED[name])
    with raises(ModelFileError, "pretrained.key_not_supported") as caught:
        import_checkpoint(folder, tmp_path / "out", str(base))
    assert f"{next(iter(REFUSED[name]))} must be" in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"invented": 0.5}, "pretrained.key_not_supported"),
        ({"arrow_config": {"top_k": 2}}, "pretrained.key_not_supported"),
        ({"use_bdlora": {"blocks": 2}}, "pretrained.key_not_supported"),
        ({"init_lora_weights": "corda"}, "pretrained.key_not_supported"),
        ({"init_lora_weights": "loftq"}, "pretrained.key_not_supported"),
        ({"init_lora_weights": "lora_ga"}, "pretrained.key_not_supported"),
        ({"use_rslora": "no"}, "pretrained.adapter_not_a_boolean"),
        ({"fan_in_fan_out": 1}, "pretrained.adapter_not_a_boolean"),
    ],
)
def test_keys_that_are_refused(change: dict[str, object], code: str, tmp_path: Path) -> None:
    base, folder = llama(tmp_path / "base"), tmp_path / "adapter"
    save_adapter(base, folder)
    content = json.loads((folder / ADAPTER_CONFIG).read_text())
    (folder / ADAPTER_CONFIG).write_text(json.dumps(content | change))
    with raises(ModelFileError, code):
        import_checkpoint(folder, tmp_path / "out", str(base))


def test_the_table_has_every_key_of_peft() -> None:
    peft = pytest.importorskip("peft")
    known = {*KEYS.read, *KEYS.without_effect, *KEYS.refused}
    assert set(peft.LoraConfig(r=2, target_modules=["query"]).to_dict()) <= known


def test_tied_tensors_of_an_encoder_decoder_are_refused(tmp_path: Path) -> None:
    """PEFT replaces one of the three matrices that T5 shares."""
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    base, folder = tmp_path / "base", tmp_path / "adapter"
    base.mkdir()
    hf_folders.t5(base)
    model = transformers.T5ForConditionalGeneration.from_pretrained(base)
    settings = peft.LoraConfig(r=2, target_modules=["q"], modules_to_save=["lm_head"])
    peft.get_peft_model(model, settings).save_pretrained(folder)
    with raises(ModelFileError, "pretrained.adapter_tied"):
        import_checkpoint(folder, tmp_path / "out", str(base))


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_an_adapter_with_added_tokens(tied: bool, tmp_path: Path) -> None:
    """Its embedding has more rows than that of the checkpoint, and it is saved as a pickle too."""
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    base, folder = llama(tmp_path / "base", tied), tmp_path / "adapter"

    def resized() -> Any:
        torch.manual_seed(4)
        model = transformers.LlamaForCausalLM.from_pretrained(base)
        rows = model.config.vocab_size + 4
        model.resize_token_embeddings(rows, mean_resizing=False)
        return model

    tuned = peft.get_peft_model(resized(), peft.LoraConfig(**PLAIN))
    with torch.no_grad():
        for parameter in tuned.parameters():
            if parameter.requires_grad:
                parameter += torch.randn_like(parameter) * 0.05
    tuned.save_pretrained(folder, save_embedding_layers=True)
    ids = torch.cat([IDS, torch.tensor([[tuned.config.vocab_size - 1]])], 1)
    with torch.no_grad():
        expected = peft.PeftModel.from_pretrained(resized(), folder).eval()(ids).logits
    import_checkpoint(folder, tmp_path / "out", str(base))
    ours = jumok.load(tmp_path / "out", device="cpu").logits(ids)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
    # before PEFT 0.6
    tensors = read_tensors(folder / ADAPTER_WEIGHTS)
    torch.save(tensors, folder / OLD_WEIGHTS)
    (folder / ADAPTER_WEIGHTS).unlink()
    import_checkpoint(folder, tmp_path / "old", str(base))
    assert torch.equal(jumok.load(tmp_path / "old", device="cpu").logits(ids), ours)
    if not tied:  # the embedding alone
        name = "base_model.model.lm_head.weight"
        torch.save({n: t for n, t in tensors.items() if n != name}, folder / OLD_WEIGHTS)
        with raises(ModelFileError, "pretrained.adapter_vocabulary"):
            import_checkpoint(folder, tmp_path / "half", str(base))
