"""`jumok.load(..., dtype="auto")`: weights stay in the type of the file, and in its mapping."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import jumok
from jumok.errors import InputError
from jumok.models.weights import named_weights
from jumok.tasks.pipeline.vector_index import VectorIndex, encode_query
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from tests import hf_folders
from tests.errors import raises

pytest.importorskip("transformers")

TEXT = "이 영화 재미있어요"
MAKE: dict[str, Callable[[Path], Any]] = {
    "bert": hf_folders.bert,
    "classifier": lambda path: hf_folders.bert(path, "ForSequenceClassification", ("a", "b")),
    "tagger": lambda path: hf_folders.bert(path, "ForTokenClassification", ("O", "B-X", "I-X")),
    "kobert": hf_folders.kobert,
    "roberta": hf_folders.roberta,
    "distilbert": hf_folders.distilbert,
    "electra": lambda path: hf_folders.other_encoder(path, "Electra"),
    "gpt2": hf_folders.gpt2,
    **{
        name: lambda path, name=name: hf_folders.llama(path, name)
        for name in hf_folders.LLAMA_CONFIGS
    },
    "t5": hf_folders.t5,
    "bart": hf_folders.bart,
    "marian": hf_folders.marian,
    "pegasus": lambda path: hf_folders.other_encoder_decoder(path, "Pegasus"),
}


def folder_in(dtype: torch.dtype, make: Callable[[Path], Any], path: Path) -> Path:
    """A folder whose weights are all of one type."""
    make(path)
    file = path / "model.safetensors"
    weights = {name: tensor.to(dtype) for name, tensor in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
    return path


def types(loaded: Any) -> set[torch.dtype]:
    return {weight.dtype for weight in named_weights(loaded.model).values()}


def example(loaded: Any) -> dict[str, torch.Tensor]:
    """Ids for `.logits`, and those of the target."""
    ids = {"input_ids": torch.tensor([[5, 9, 7, 6], [8, 8, 5, 9]])}
    if loaded.recipe.model.kind == "encoder_decoder":
        ids["decoder_input_ids"] = torch.tensor([[2, 6, 9], [2, 5, 7]])
    return ids


QUICK = ("classifier", "qwen3", "marian")


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "family",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MAKE],
)
def test_a_model_computes_in_the_type_of_its_file(
    family: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    folder = folder_in(dtype, MAKE[family], tmp_path / "hf")
    plain, kept = jumok.load(folder), jumok.load(folder, dtype="auto")
    assert types(plain) == {torch.float32}
    assert types(kept) == {dtype}
    expected, found = plain.logits(**example(plain)), kept.logits(**example(kept))
    assert found.dtype == torch.float32
    largest = max(expected.abs().max().item(), 1.0)
    assert (found - expected).abs().max().item() <= 0.05 * largest  # as `to_bfloat16`
    assert type(kept(TEXT)) is type(plain(TEXT))
    assert len(kept([TEXT, "별로"])) == 2


@pytest.mark.parametrize("family", ["bert", "qwen3", "marian"])
def test_traces_vectors_and_imported_runs(family: str, tmp_path: Path) -> None:
    folder = folder_in(torch.bfloat16, MAKE[family], tmp_path / "hf")
    kept = jumok.load(folder, dtype="auto")
    import_checkpoint(folder, tmp_path / "run")
    again = jumok.load(tmp_path / "run", dtype="auto")
    assert types(again) == {torch.bfloat16}
    assert torch.equal(again.logits(**example(again)), kept.logits(**example(kept)))
    traces = [jumok.trace(each, TEXT) for each in (kept, jumok.load(folder))]
    assert traces[0].info.sequences == traces[1].info.sequences
    if family == "bert":
        lines = tmp_path / "lines.txt"
        lines.write_text(f"별로\n{TEXT}\n", encoding="utf-8")
        assert kept.encode(TEXT).dtype == "float32"
        [match] = VectorIndex.build(kept, lines).search(encode_query(kept, TEXT), k=1)
        assert match.line == 2


@pytest.mark.usefixtures("compiled")
def test_the_kernel_packs_bfloat16_as_bfloat16(tmp_path: Path) -> None:
    folder = folder_in(torch.bfloat16, MAKE["qwen3"], tmp_path / "hf")
    kept = jumok.load(folder, dtype="auto").with_decoding(["kernel=native"])
    assert kept.kernel.precision == "bfloat16"
    plain = jumok.load(folder).with_decoding(["kernel=native", "precision=bfloat16"])
    assert kept(TEXT) == plain(TEXT)


def test_vectors_in_float32_as_in_gguf_files_are_converted(tmp_path: Path) -> None:
    folder = folder_in(torch.bfloat16, MAKE["qwen3"], tmp_path / "hf")
    file, kept = folder / "model.safetensors", jumok.load(folder, dtype="auto")
    expected = kept.logits(**example(kept))
    weights = load_file(file)
    vectors = {name: w.float() if w.ndim == 1 else w for name, w in weights.items()}
    save_file(vectors, file, {"format": "pt"})
    again = jumok.load(folder, dtype="auto")
    assert types(again) == {torch.bfloat16}
    assert torch.equal(again.logits(**example(again)), expected)


def test_matrices_of_several_types_become_float32(tmp_path: Path) -> None:
    folder = folder_in(torch.bfloat16, MAKE["qwen3"], tmp_path / "hf")
    file = folder / "model.safetensors"
    weights = load_file(file)
    mixed = {name: w.float() if "q_proj" in name else w for name, w in weights.items()}
    save_file(mixed, file, {"format": "pt"})
    assert types(jumok.load(folder, dtype="auto")) == {torch.float32}


def test_other_types_are_refused(tmp_path: Path) -> None:
    with raises(InputError, "config.wrong_type"):
        jumok.load(tmp_path, dtype="bfloat16")  # type: ignore[arg-type]
