"""GGUF files that jumok writes are the same model in `jumok import` and in llama.cpp."""

import importlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import jumok
from jumok.errors import InputError
from jumok.export import export
from jumok.formats.gguf_architectures import ROPE_TABLE
from jumok.formats.gguf_from_hf import GGUFType, write_gguf_file
from jumok.formats.gguf_reader import read_gguf
from jumok.formats.gguf_rope import frequency_divisors, rope_of_table
from jumok.formats.gguf_support import unsupported_in_gguf
from jumok.formats.gguf_tokenizer import TOKENIZER_JSON, tokenizer_files
from jumok.native.gguf_quantize import BLOCK_TYPES, quantize
from jumok.native.gguf_types import dequantize
from jumok.nn.rope import RopeConfig
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from tests import hf_folders
from tests.combinations import singly, slow
from tests.errors import raises
from tests.text.test_chat import CHATML

ARCHES = ("gpt2", "llama", "qwen2", "qwen3", "mistral", "gemma3_text", "exaone", "exaone4")
TEXT = "이 영화 정말 재미있어요"
IDS = torch.tensor([[3, 9, 27, 11, 30, 4]])
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 24,
}


def make(folder: Path, arch: str, **settings: Any) -> Any:
    """A tiny model that llama.cpp computes as well."""
    if arch == "gpt2":
        return hf_folders.gpt2(folder, n_embd=32, n_head=2, **settings)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "head_dim": 16, "sliding_window": None}
    if arch == "qwen2":
        sizes |= {"hidden_size": 64}
        sizes.pop("head_dim")
    if arch == "gemma3_text":
        sizes |= {"query_pre_attn_scalar": 16, "sliding_window": 4, "num_hidden_layers": 5}
        sizes |= {"sliding_window_pattern": 3}
    if arch in ("exaone", "exaone4"):
        sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1}
    if arch == "exaone":
        sizes.pop("sliding_window")
    if arch == "exaone4" and "sliding_window" not in settings:
        settings |= {"layer_types": ["full_attention"] * 2}
    return hf_folders.llama(folder, arch, **sizes | {"use_sliding_window": False} | settings)


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(IDS)
    return found


@pytest.mark.parametrize(("arch", "tied"), singly(ARCHES, [True, False]))
def test_an_imported_file_is_the_same_model(arch: str, tied: bool, tmp_path: Path) -> None:
    make(tmp_path / "hf", arch, tie_word_embeddings=tied)
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "이름")
    import_checkpoint(tmp_path / "a.gguf", tmp_path / "run")
    found, original = jumok.load(tmp_path / "run"), jumok.load(tmp_path / "hf")
    assert torch.equal(logits(found.model), logits(original.model))
    assert found.vocabulary.encode(TEXT) == original.vocabulary.encode(TEXT)
    assert found.vocabulary.decode(found.vocabulary.encode(TEXT)) == TEXT
    metadata = read_gguf(tmp_path / "a.gguf").metadata
    assert metadata["general.name"] == "이름"


@pytest.mark.parametrize("arch", ["llama", "mistral", "exaone", "exaone4"])
def test_the_rotation_of_llama_3(arch: str, tmp_path: Path) -> None:
    """The settings are found again from the table that llama.cpp reads."""
    make(tmp_path / "hf", arch, rope_parameters=LLAMA3)
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "a")
    file = read_gguf(tmp_path / "a.gguf")
    assert file.read(ROPE_TABLE).tolist() == pytest.approx(converted_table(16, 100.0, LLAMA3))
    import_checkpoint(tmp_path / "a.gguf", tmp_path / "run")
    found, original = jumok.load(tmp_path / "run"), jumok.load(tmp_path / "hf")
    assert found.recipe.model.rope == original.recipe.model.rope
    assert torch.equal(logits(found.model), logits(original.model))


SCALED = {
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    }
}
WINDOWED = {"num_hidden_layers": 64, "sliding_window": 4, "sliding_window_pattern": 4}


@pytest.mark.parametrize(
    ("arch", "settings", "expected"),
    [
        ("gemma3_text", {}, ("LLGLL", 4)),
        ("gemma3_text", {"layer_types": ["full_attention"] * 5}, ("G", None)),
        ("gemma3_text", {"layer_types": ["sliding_attention"] * 5}, ("L", 4)),
        ("gemma3_text", {"final_logit_softcapping": 3.0}, ("LLGLL", 4)),
        ("gemma3_text", SCALED, ("LLGLL", 4)),
        ("exaone4", {}, ("G", None)),
        slow("exaone4", WINDOWED, ("LLLN" * 16, 4)),
        ("exaone4", WINDOWED | {"rope_parameters": LLAMA3}, ("LLLN" * 16, 4)),
    ],
)  # fmt: skip
def test_windows_caps_and_rotations_are_read_again(
    arch: str, settings: dict[str, Any], expected: tuple[str, int | None], tmp_path: Path
) -> None:
    make(tmp_path / "hf", arch, **settings)
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "a")
    import_checkpoint(tmp_path / "a.gguf", tmp_path / "run")
    found, original = jumok.load(tmp_path / "run"), jumok.load(tmp_path / "hf")
    eps = float(np.float32(original.recipe.model.norm_eps))  # as GGUF stores it
    assert found.recipe.model == replace(original.recipe.model, norm_eps=eps)
    assert (found.recipe.model.layer_pattern, found.recipe.model.sliding_window) == expected
    assert torch.equal(logits(found.model), logits(original.model))


def converted_table(d_head: int, base: float, scaling: dict[str, Any]) -> list[float]:
    """As convert_hf_to_gguf.py computes it, from wavelengths."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    length, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    table = []
    for i in range(0, d_head, 2):
        wavelength = 2 * math.pi * base ** (i / d_head)
        smooth = (length / wavelength - low) / (high - low)
        between = 1 / ((1 - smooth) / factor + smooth)
        table.append(1.0 if smooth > 1 else factor if smooth < 0 else between)
    return table


def test_a_table_of_another_width_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "hf", "llama", rope_parameters=LLAMA3)
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "a")
    data = (tmp_path / "a.gguf").read_bytes()
    for name in (b"llama.attention.key_length", b"llama.rope.dimension_count"):
        key = name + (4).to_bytes(4, "little")  # uint32
        assert data.count(key + (16).to_bytes(4, "little")) == 1
        data = data.replace(key + (16).to_bytes(4, "little"), key + (12).to_bytes(4, "little"))
    (tmp_path / "a.gguf").write_bytes(data)
    with raises(InputError, "pretrained.rope_table_shape"):
        import_checkpoint(tmp_path / "a.gguf", tmp_path / "run")


@pytest.mark.parametrize(
    ("length", "factor", "d_head", "base"),
    [(8192, 8.0, 128, 5e5), (8192, 32.0, 64, 5e5), (8192, 8.0, 128, 1e6), (4096, 2.0, 80, 1e4)],
)
def test_settings_of_published_models_are_found(
    length: int, factor: float, d_head: int, base: float
) -> None:
    rope = RopeConfig(base=base, scaling="llama3", factor=factor, original_length=length)
    assert rope_of_table(frequency_divisors(rope, d_head), base) == rope


@pytest.mark.parametrize(
    "table", [[1.0, 2.0, 8.0, 4.0], [1.0, 1.0, 8.0, 8.0], [0.5, 1.0], [1.0, np.nan], [np.inf, 1.0]]
)
def test_other_tables_are_refused(table: list[float]) -> None:
    with raises(InputError, "pretrained.unknown_rope_table"):
        rope_of_table(np.array(table, np.float32), 1e4)
    assert rope_of_table(np.ones(4, np.float32), 1e4) == RopeConfig()


@pytest.mark.parametrize("kind", get_args(GGUFType))
def test_the_gguf_package_reads_the_same_numbers(kind: GGUFType, tmp_path: Path) -> None:
    """Every tensor in its type, and the blocks of the package's own quantizer."""
    gguf = pytest.importorskip("gguf")
    model = make(tmp_path / "hf", "qwen3", intermediate_size=72)
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", kind, "a")
    reader = gguf.GGUFReader(tmp_path / "a.gguf")
    arrays = {tensor.name: tensor for tensor in reader.tensors}
    weight = model.state_dict()["model.layers.1.self_attn.v_proj.weight"].float().numpy()
    found = arrays["blk.1.attn_v.weight"]
    assert found.tensor_type.name == kind.upper()
    if kind in ("q8_0", "q4_0"):
        expected = gguf.quants.quantize(weight, found.tensor_type)
        assert np.array_equal(found.data, expected)
        assert np.array_equal(quantize(weight, kind), expected)
    else:
        data = gguf.quants.dequantize(found.data, found.tensor_type)
        assert np.abs(data - weight).max() <= {"f32": 0, "f16": 1e-3, "bf16": 1e-2}[kind]
    assert arrays["blk.1.attn_norm.weight"].tensor_type.name == "F32"
    narrow = arrays["blk.1.ffn_down.weight"].tensor_type.name  # rows of 72
    assert narrow == ("F16" if kind in ("q8_0", "q4_0") else kind.upper())
    assert all(tensor.data_offset % 32 == 0 for tensor in reader.tensors)
    fields = reader.fields["tokenizer.ggml.tokens"]
    tokens = json.loads((tmp_path / "hf" / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(fields.data) == len(tokens)


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
def test_blocks_of_a_file_reach_the_kernel_unchanged(
    kind: Any, tmp_path: Path, compiled: Path
) -> None:
    """Blocks with integers and scales of any quantizer, through import, to the same values."""
    from jumok.native import NativeDecoder, NativeModel

    make(tmp_path / "hf", "llama")
    path = tmp_path / "a.gguf"
    write_gguf_file(tmp_path / "hf", path, kind, "a")
    file, data = read_gguf(path), bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for tensor in file.tensors.values():
        if tensor.type.name == kind.upper():
            start = file.data_start + tensor.offset
            blocks = np.frombuffer(data, np.uint8, tensor.n_bytes, start)
            blocks = blocks.reshape(-1, tensor.type.bytes)
            low = rng.integers(0, 7, (len(blocks), tensor.type.bytes - 2), dtype=np.uint8)
            blocks[:, 2:] = low * 17 if kind == "q4_0" else low * 9  # the largest is never full
    path.write_bytes(bytes(data))
    import_checkpoint(path, tmp_path / "run")
    model = jumok.load(tmp_path / "run").model
    weight = model.state_dict()["decoder.stack.layers.0.self_attention.value.weight"]
    assert np.array_equal(weight.numpy(), read_gguf(path).read("blk.0.attn_v.weight"))
    kept = dequantize(quantize(weight.numpy(), kind).reshape(-1), BLOCK_TYPES[kind])
    assert np.array_equal(kept.reshape(weight.shape), weight.numpy())
    native = NativeDecoder(NativeModel(model, kind), capacity=6).step_all(IDS)
    expected = logits(model)
    assert (native - expected).abs().max() < 0.05 * expected.abs().max().clamp(min=1)


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_alone(prefix: bool, tmp_path: Path) -> None:
    """A folder whose tokenizer is a tokenizer.model of BPE, as those of Llama 2 and Gemma."""
    data = hf_folders.spm(
        hf_folders.lines(),
        size=400,
        model_type="bpe",
        byte_fallback=True,
        add_dummy_prefix=prefix,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        user_defined_symbols=["<start_of_turn>", "▁▁"],
    )
    make(tmp_path / "hf", "llama", vocab_size=400, bos_token_id=1, eos_token_id=2)
    (tmp_path / "hf" / "tokenizer.json").unlink()
    (tmp_path / "hf" / "tokenizer.model").write_bytes(data)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True}
    (tmp_path / "hf" / "tokenizer_config.json").write_text(json.dumps(settings))
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "a")
    metadata = read_gguf(tmp_path / "a.gguf").metadata
    assert metadata["tokenizer.ggml.model"] == "llama"
    assert metadata["tokenizer.ggml.add_space_prefix"] is prefix
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, tuple)
    assert "  " in tokens  # user-defined tokens are compared with the text itself
    assert metadata["tokenizer.ggml.add_bos_token"] is True
    import_checkpoint(tmp_path / "a.gguf", tmp_path / "run")
    found = jumok.load(tmp_path / "run").vocabulary
    original = jumok.load(tmp_path / "hf").vocabulary
    for text in (TEXT, " 두  칸 ", "뷁 😀<start_of_turn>가", ""):
        assert found.encode(text) == original.encode(text)
        assert found.decode(found.encode(text)) == original.decode(original.encode(text))
    assert found.source_template == original.source_template


@pytest.mark.parametrize("place", ["chat_template.jinja", "tokenizer_config.json"])
def test_the_chat_template(place: str, tmp_path: Path) -> None:
    """From its own file, and from the key of older checkpoints, and back."""
    hf_folders.llama(tmp_path / "hf", chat=True)
    if place == "chat_template.jinja":
        (tmp_path / "hf" / place).write_text(CHATML, encoding="utf-8")
    else:
        named = [{"name": "tool", "template": ""}, {"name": "default", "template": CHATML}]
        settings = json.loads((tmp_path / "hf" / place).read_text()) | {"chat_template": named}
        (tmp_path / "hf" / place).write_text(json.dumps(settings))
    import_checkpoint(tmp_path / "hf", tmp_path / "run")
    export(tmp_path / "run", "gguf", tmp_path / "out")
    path = tmp_path / "out" / "model.gguf"
    assert read_gguf(path).metadata["tokenizer.chat_template"] == CHATML
    import_checkpoint(path, tmp_path / "again")
    found = jumok.load(tmp_path / "again").vocabulary
    assert isinstance(found, PretrainedTokenizer)
    assert found.files.chat_template == CHATML


@pytest.mark.parametrize("digits", [True, False])
def test_digits_one_by_one(digits: bool, tmp_path: Path) -> None:
    """As EXAONE 3.5 splits texts; read again without the tokenizer.json."""
    make(tmp_path / "hf", "exaone")
    path = tmp_path / "hf" / "tokenizer.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    split = [{"type": "Digits", "individual_digits": True}] if digits else []
    tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*split, tree["pre_tokenizer"]]}
    tree["added_tokens"].append(tree["added_tokens"][0] | {
        "id": len(tree["model"]["vocab"]), "content": "<one>", "special": False})  # fmt: skip
    path.write_text(json.dumps(tree), encoding="utf-8")
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "a")
    metadata = dict(read_gguf(tmp_path / "a.gguf").metadata)
    assert metadata["tokenizer.ggml.pre"] == ("exaone" if digits else "gpt-2")
    metadata.pop(TOKENIZER_JSON)
    (tmp_path / "again").mkdir()
    for name, data in tokenizer_files(metadata, {"eos_token_id": 0}).items():
        (tmp_path / "again" / name).write_bytes(data)
    found, original = (load_tokenizer(tmp_path / name, {}) for name in ("again", "hf"))
    assert found is not None
    assert original is not None
    for text in ("영화 1984년, 10점", "a<one>b 한글"):
        assert found.encode_hf([text]) == original.encode_hf([text])


def test_a_unigram_vocabulary(tmp_path: Path, reading_run: Path) -> None:
    """A vocabulary that jumok trained, as `jumok export --to hf` writes it."""
    from jumok.text.pretrained.export import CAUSAL_LM_TEMPLATE, tokenizer_files

    vocabulary = jumok.load(reading_run).vocabulary
    make(tmp_path / "hf", "llama", vocab_size=len(vocabulary))
    for name, data in tokenizer_files(
        vocabulary, CAUSAL_LM_TEMPLATE, 40, token_types=False
    ).items():
        (tmp_path / "hf" / name).write_bytes(data)
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "a")
    metadata = read_gguf(tmp_path / "a.gguf").metadata
    tokens, scores = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.scores"]
    assert isinstance(tokens, tuple)
    assert isinstance(scores, tuple)
    assert metadata["tokenizer.ggml.model"] == "t5"
    assert metadata["tokenizer.ggml.add_bos_token"] is True
    assert [vocabulary.piece(i) for i in range(len(vocabulary))] == list(tokens)
    assert len(scores) == len(tokens) == len(vocabulary)
    import_checkpoint(tmp_path / "a.gguf", tmp_path / "run")
    found = jumok.load(tmp_path / "run").vocabulary
    assert found.encode("삼 일 오") == vocabulary.encode("삼 일 오")


@pytest.fixture
def llama_cpp(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, torch.Tensor, int], torch.Tensor]:
    """The logits of llama.cpp after each token; JUMOK_LLAMA_CPP is the folder of its libraries."""
    folder = os.environ.get("JUMOK_LLAMA_CPP")
    if not folder:
        pytest.skip("needs JUMOK_LLAMA_CPP, the folder of libllama as in llama_cpp_speed.py")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    speed = importlib.import_module("llama_cpp_speed")

    def logits_of(path: Path, ids: torch.Tensor, vocabulary: int) -> torch.Tensor:
        model = speed.LlamaCpp(Path(folder), path, 1, vocabulary)
        found = []
        for n in range(ids.shape[1]):
            model.step(ids[:, n : n + 1].numpy(), n)
            found.append(torch.tensor(model.logits(0)))
        return torch.stack(found)

    return logits_of


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["f32", "q8_0"])
@pytest.mark.parametrize(
    ("arch", "settings"),
    [
        ("gpt2", {}),
        ("llama", {}),
        ("llama", {"rope_parameters": LLAMA3}),
        ("qwen2", {}),
        ("qwen3", {}),
        ("gemma3_text", {}),
        ("gemma3_text", {"layer_types": ["full_attention"] * 5, "tie_word_embeddings": False}),
        ("gemma3_text", {"layer_types": ["sliding_attention"] * 5}),
        ("gemma3_text", SCALED | {"final_logit_softcapping": 3.0}),
        ("exaone", {}),
        ("exaone", {"rope_parameters": LLAMA3, "tie_word_embeddings": False}),
        ("exaone4", {"rope_parameters": LLAMA3}),
        ("exaone4", WINDOWED),
        ("exaone4", WINDOWED | {"rope_parameters": LLAMA3}),
    ],
)
def test_llama_cpp_computes_the_same_logits(
    arch: str, settings: dict[str, Any], kind: GGUFType, tmp_path: Path, llama_cpp: Any
) -> None:
    make(tmp_path / "hf", arch, **settings)
    write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", kind, "a")
    import_checkpoint(tmp_path / "a.gguf", tmp_path / "run")  # with the weights of the blocks
    run = jumok.load(tmp_path / "run")
    ids = torch.tensor([[3, 9, 27, 11, 30, 4, 8, 15, 16, 23, 42, 5, 9, 9, 2, 40]])
    found = llama_cpp(tmp_path / "a.gguf", ids, run.recipe.model.vocabulary_size)
    with torch.no_grad():
        expected = run.model(ids)[0]
    # its keys, values and tanh are float16; with blocks it rounds the inputs of products as well,
    # and the layers have random weights
    tolerance = 0.01 if kind == "f32" else 0.3
    assert (found - expected).abs().max() < tolerance * expected.abs().max().clamp(min=1)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"model_type": "bert"}, "GGUF is written for gpt2, llama"),
        ({"model_type": "gpt2", "activation_function": "relu"}, "gpt2 with gelu_tanh, got relu"),
        ({"model_type": "gpt2", "scale_attn_weights": False}, "scales the attention of gpt2"),
        ({"model_type": "llama", "hidden_act": "gelu"}, "computes llama with silu, got gelu"),
        ({"model_type": "llama", "mlp_bias": True}, "has no biases in llama"),
        ({"model_type": "mistral"}, "has no attention windows in mistral"),
        ({"model_type": "llama", "rope_scaling": LLAMA3 | {"high_freq_factor": 3.0}},
         "exaone4 with limits 1 and 4"),
        ({"model_type": "qwen3", "rope_scaling": LLAMA3}, "exaone4 with limits 1 and 4"),
        ({"model_type": "gemma3_text", "hidden_activation": "silu"}, "with gelu_tanh, got silu"),
        ({"model_type": "gemma3_text", "attention_bias": True}, "has no biases in gemma3_text"),
        ({"model_type": "gemma3_text", "query_pre_attn_scalar": 64}, "query_pre_attn_scalar 256"),
        ({"model_type": "gemma3_text", "num_hidden_layers": 62, "query_pre_attn_scalar": 256},
         "query_pre_attn_scalar 288"),
        ({"model_type": "gemma3_text", "num_hidden_layers": 3, "layer_types":
          ["sliding_attention", "full_attention", "full_attention"]}, "layers but each n-th"),
        ({"model_type": "gemma3_text", "rope_parameters": {
            "full_attention": {"rope_type": "default"},
            "sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
         "does not scale the rotation of the local layers"),
        ({"model_type": "exaone4"}, "with 64 layers, and only then"),
        ({"model_type": "exaone4", "num_hidden_layers": 64, "sliding_window": None},
         "with 64 layers, and only then"),
        ({"model_type": "exaone4", "sliding_window": None, "head_dim": 64}, "fill the width"),
    ],
)  # fmt: skip
def test_models_that_llama_cpp_computes_otherwise(config: dict[str, Any], sentence: str) -> None:
    assert sentence in str(unsupported_in_gguf(config))


def test_refusals_leave_no_file(tmp_path: Path) -> None:
    make(tmp_path / "hf", "llama", mlp_bias=True)
    with pytest.raises(InputError, match="has no biases in llama; use another format"):
        write_gguf_file(tmp_path / "hf", tmp_path / "a.gguf", "f32", "a")
    make(tmp_path / "huge", "llama")
    from safetensors.torch import load_file, save_file

    weights = load_file(tmp_path / "huge" / "model.safetensors")
    weights["model.layers.0.mlp.up_proj.weight"][0, 0] = 1e6
    save_file(weights, tmp_path / "huge" / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"ffn_up.weight is not finite in F16; use f32 or bf16"):
        write_gguf_file(tmp_path / "huge", tmp_path / "a.gguf", "f16", "a")
    weights["model.extra.weight"] = torch.zeros(2)
    save_file(weights, tmp_path / "huge" / "model.safetensors", {"format": "pt"})
    with raises(InputError, "pretrained.no_name_gguf"):
        write_gguf_file(tmp_path / "huge", tmp_path / "a.gguf", "f32", "a")
    assert not (tmp_path / "a.gguf").exists()
