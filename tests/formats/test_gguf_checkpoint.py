"""GGUF files as llama.cpp's converter writes them, opened through `jumok import`."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from tokenizers import pre_tokenizers

import jumok
from jumok.errors import InputError, ModelFileError
from jumok.formats.gguf_checkpoint import check_metadata, write_hf_folder
from jumok.formats.gguf_rope import frequency_divisors
from jumok.formats.gguf_tokenizer import tokenizer_files
from jumok.nn.rope import RopeConfig
from jumok.tasks.pipeline.chat import Chat
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from jumok.text.sentencepiece_proto import read_model
from jumok.text.template import SpecialToken, TextSlot
from tests import hf_folders
from tests.cli.commands import call
from tests.errors import raises
from tests.text.test_chat import CHATML

gguf = pytest.importorskip("gguf")

Capture = pytest.CaptureFixture[str]
F32, Q8_0 = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.Q8_0


def permuted(weight: Any, heads: int) -> Any:
    """As convert_hf_to_gguf.py stores queries and keys of Llama."""
    shape = weight.shape
    return (
        weight.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
    )


def written(
    path: Path,
    model: Any,
    folder: Path,
    arch: str,
    kind: Any = F32,
    also: Callable[[Any], None] = lambda writer: None,
) -> Path:
    """The model of transformers as a GGUF file, by the names of the gguf package."""
    config = model.config
    arch = {"gemma3_text": "gemma3"}.get(arch, arch)
    writer: Any = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if arch == "gpt2":
        writer.add_feed_forward_length(4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_head_count_kv(config.num_key_value_heads)
        rope = config.rope_parameters
        writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
        if arch != "qwen2":
            writer.add_key_length(config.head_dim)
        if arch in ("gemma3", "exaone4") and config.sliding_window is not None:
            writer.add_sliding_window(config.sliding_window)
            local = [kind == "sliding_attention" for kind in config.layer_types]
            writer.add_sliding_window_pattern(local)
        if arch == "gemma3" and config.final_logit_softcapping:
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if (folder / "tokenizer.model").exists():
        add_sentencepiece(writer, folder / "tokenizer.model")
    else:
        add_byte_level(writer, folder / "tokenizer.json")
    also(writer)
    add_tensors(writer, model, arch, kind)
    finish(writer)
    return path


def add_byte_level(writer: Any, path: Path) -> None:
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].__getitem__)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)


def add_sentencepiece(writer: Any, path: Path) -> None:
    """The keys that the converter writes for a tokenizer.model of Gemma 3."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = range(processor.get_piece_size())
    model = read_model(path.read_bytes())
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([processor.id_to_piece(i) for i in ids])
    writer.add_token_scores([processor.get_score(i) for i in ids])
    writer.add_token_types([int(kind) for kind in model.types])
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.add_pad_token_id(processor.pad_id())
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)


def add_tensors(writer: Any, model: Any, arch: str, kind: Any) -> None:
    config = model.config
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name.endswith((".attn.bias", ".attn.masked_bias")) or name == "lm_head.weight":
            continue
        data = weight.float().numpy()
        if arch == "gpt2" and name.split(".")[-2].startswith("c_") and data.ndim == 2:
            data = data.T
        if arch == "llama" and (".q_proj." in name or ".k_proj." in name):
            q = ".q_proj." in name
            data = permuted(data, config.num_attention_heads if q else config.num_key_value_heads)
        if arch == "gemma3" and name.endswith("norm.weight"):
            data = data + 1
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        quantized = kind != F32 and data.ndim == 2 and data.shape[1] % 32 == 0
        data = gguf.quants.quantize(data, kind) if quantized else np.ascontiguousarray(data)
        writer.add_tensor(theirs, data, raw_dtype=kind if quantized else None)


def make(folder: Path, arch: str, **settings: Any) -> Any:
    if arch == "gpt2":
        model = hf_folders.gpt2(folder, **settings)
        vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
        lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
        merges = [line.split(" ") for line in lines if line and not line.startswith("#")]
        tree = {"model": {"vocab": vocab, "merges": merges}}
        tree["added_tokens"] = [{"content": hf_folders.END}]
        (folder / "tokenizer.json").write_text(json.dumps(tree), encoding="utf-8")
        return model
    if arch in ("gemma3_text", "exaone4"):
        return hf_folders.llama(folder, arch, tie_word_embeddings=True, **settings)
    return hf_folders.llama(folder, arch, tie_word_embeddings=True, sliding_window=None, **settings)


@pytest.mark.parametrize(
    "arch", ["gpt2", "llama", "qwen2", "qwen3", "gemma3_text", "exaone", "exaone4"]
)
def test_an_imported_file_is_the_model(arch: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "hf"
    model = make(folder, arch).float().eval()
    path = written(tmp_path / "model.gguf", model, folder, arch)
    done = call(capsys, "import", path, tmp_path / "run")
    assert done.code == 0, done.err
    loaded = jumok.load(tmp_path / "run")
    ids = torch.tensor([[3, 9, 27, 11, 30, 4]])
    with torch.no_grad():
        expected = model(ids).logits
    tolerance = 5e-5 if arch == "gemma3_text" else 5e-6  # 1 + w was rounded
    torch.testing.assert_close(loaded.model(ids), expected, rtol=0, atol=tolerance)
    text = "이 영화 정말 재미있어요"
    if arch != "gpt2":
        original = jumok.load(folder)
        assert loaded.vocabulary.encode(text) == original.vocabulary.encode(text)
    assert loaded.vocabulary.decode(loaded.vocabulary.encode(text)) == text


def test_files_of_gemma_with_its_own_tokenizer(tmp_path: Path) -> None:
    """Local bases, caps and norms in other types, and the pieces of SentencePiece itself."""
    ids = {"pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3}
    data = hf_folders.spm(
        [*hf_folders.lines(), "a\nb  c"] * 3,
        size=420,
        model_type="bpe",
        byte_fallback=True,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        user_defined_symbols=["<start_of_turn>", "\n", "\n\n", "▁▁"],
        **ids,
    )
    size = sentencepiece.SentencePieceProcessor(model_proto=data).get_piece_size()
    rope = {
        "full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    }
    settings = {"final_logit_softcapping": 2.0, "rope_parameters": rope}
    model = make(tmp_path / "hf", "gemma3_text", vocab_size=size, **settings).float().eval()
    (tmp_path / "hf" / "tokenizer.json").unlink()
    (tmp_path / "hf" / "tokenizer.model").write_bytes(data)

    def scaled(writer: Any) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(8.0)

    path = written(tmp_path / "a.gguf", model, tmp_path / "hf", "gemma3_text", also=scaled)
    import_checkpoint(path, tmp_path / "run")
    loaded = jumok.load(tmp_path / "run")
    chosen = torch.tensor([[3, 9, 27, 11, 30, 4, 8, 15, 16]])
    with torch.no_grad():
        expected = model(chosen).logits
    torch.testing.assert_close(loaded.model(chosen), expected, rtol=0, atol=5e-6)
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    for text in ("이 영화 정말 재미있어요", " 앞과  사이\n\n\n줄", "뷁 😀 abc", "", "▁a▁▁b"):
        assert loaded.vocabulary.encode(text) == processor.encode(text)
        assert loaded.vocabulary.decode(processor.encode(text)) == processor.decode(
            processor.encode(text)
        )
    assert loaded.vocabulary.source_template.single == (SpecialToken((2,)), TextSlot(0))


@pytest.mark.parametrize("template", [CHATML, None])
def test_the_chat_template_is_kept(template: str | None, tmp_path: Path) -> None:
    model = hf_folders.llama(tmp_path / "hf", chat=True, tie_word_embeddings=True).float().eval()

    def chats(writer: Any) -> None:
        if template is not None:
            writer.add_chat_template([{"name": "default", "template": template}])

    path = written(tmp_path / "a.gguf", model, tmp_path / "hf", "llama", also=chats)
    import_checkpoint(path, tmp_path / "run")
    loaded = jumok.load(tmp_path / "run")
    assert isinstance(loaded, Pipeline)
    assert isinstance(loaded.vocabulary, PretrainedTokenizer)
    assert loaded.vocabulary.files.chat_template == template
    if template is None:
        with pytest.raises(InputError, match="has no chat template; give"):
            Chat.of(loaded)
    else:
        assert Chat.of(loaded).end_ids == (loaded.vocabulary.id("<|im_end|>"),)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.invented", 3),
        ("llama.expert_count", 8),
        ("llama.logit_scale", 0.5),
        ("llama.attention.causal", False),
        ("other.invented", 3),
        ("general.type", "adapter"),
    ],
)
def test_metadata_that_may_change_outputs_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    metadata = {"general.architecture": "llama", "general.type": "model", "llama.vocab_size": 9}
    check_metadata(tmp_path / "a.gguf", metadata | {"llama.expert_count": 0, "general.name": "a"})
    with raises(ModelFileError, "pretrained.key_not_supported"):
        check_metadata(tmp_path / "a.gguf", metadata | {key: value})


def test_unknown_keys_of_the_tokenizer_are_named(tmp_path: Path, capsys: Capture) -> None:
    metadata = {"general.architecture": "llama", "tokenizer.ggml.invented": 3}
    check_metadata(tmp_path / "a.gguf", metadata)
    assert "not read: tokenizer.ggml.invented" in capsys.readouterr().err


def test_quantized_weights(tmp_path: Path) -> None:
    model = make(tmp_path / "hf", "llama", hidden_size=32).float().eval()
    path = written(tmp_path / "model.gguf", model, tmp_path / "hf", "llama", Q8_0)
    write_hf_folder(path, tmp_path / "out")
    ids = torch.tensor([[3, 9, 27]])
    with torch.no_grad():
        expected = model(ids).logits
    found = jumok.load(tmp_path / "out").model(ids)
    # 0.1: seven bits a weight, random weights, so that errors do not cancel in 32 inputs
    assert 1e-6 < (found - expected).abs().max() < 0.1 * expected.abs().max()


def add_sizes(writer: Any, layers: int = 2) -> None:
    """What every file of the Llama family has, for a tiny model."""
    arch = writer.arch
    writer.add_tensor("token_embd.weight", np.zeros((4, 4), np.float32))
    writer.add_uint32(f"{arch}.block_count", layers)
    for key in ("embedding_length", "feed_forward_length", "context_length"):
        writer.add_uint32(f"{arch}.{key}", 4)
    writer.add_uint32(f"{arch}.attention.head_count", 1)
    writer.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-6)


@pytest.mark.parametrize("arch", ["gemma3", "exaone4"])
def test_special_ids_that_are_no_ids_are_left_out(arch: str, tmp_path: Path) -> None:
    writer: Any = gguf.GGUFWriter(tmp_path / "a.gguf", arch)
    add_sizes(writer)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "a", "b", "ab"])
    writer.add_token_scores([0.0, 0.0, 0.0, 0.0])
    writer.add_add_space_prefix(False)
    writer.add_bool("tokenizer.ggml.bos_token_id", True)
    writer.add_int32("tokenizer.ggml.eos_token_id", -5)
    writer.add_uint32("tokenizer.ggml.padding_token_id", 9)
    writer.add_uint32("tokenizer.ggml.unknown_token_id", 0)
    finish(writer)
    write_hf_folder(tmp_path / "a.gguf", tmp_path / "hf")
    config = json.loads((tmp_path / "hf" / "config.json").read_text(encoding="utf-8"))
    assert {key for key in config if key.endswith("token_id")} == {"pad_token_id", "unk_token_id"}
    tokenizer = load_tokenizer(tmp_path / "hf", config)
    assert tokenizer is not None
    assert tokenizer.encode("ab") == [3]


def finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_windows(writer: Any) -> None:
    writer.add_sliding_window(4)
    writer.add_sliding_window_pattern([True, False, True])


def add_pieces(writer: Any) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "a", "b", "ab"])
    writer.add_token_scores([0.0, 0.0, 0.0])


LINEAR, NONE = gguf.RopeScalingType.LINEAR, gguf.RopeScalingType.NONE


@pytest.mark.parametrize("arch", ["llama", "qwen2"])
@pytest.mark.parametrize(
    ("settings", "factor"),
    [
        ([lambda w: w.add_float32(f"{w.arch}.rope.scale_linear", 4.0)], 4.0),
        ([lambda w: w.add_rope_scaling_factor(4.0)], 4.0),
        (
            [
                lambda w: w.add_float32(f"{w.arch}.rope.scale_linear", 2.0),
                lambda w: w.add_rope_scaling_type(LINEAR),
                lambda w: w.add_rope_scaling_factor(4.0),
            ],
            4.0,
        ),
        ([lambda w: w.add_rope_scaling_type(NONE), lambda w: w.add_rope_scaling_factor(4.0)], 1.0),
        ([lambda w: w.add_rope_scaling_type(LINEAR)], 1.0),
        ([lambda w: w.add_float32(f"{w.arch}.rope.scale_linear", 0.0)], 1.0),
    ],
)
def test_linear_scaling_as_in_llama_cpp(
    arch: str, settings: list[Callable[[Any], None]], factor: float, tmp_path: Path
) -> None:
    """The key of older files, no type at all, 0 as none."""
    rope = {"rope_type": "linear", "rope_theta": 10_000.0, "factor": factor}
    model = make(tmp_path / "hf", arch, rope_parameters=rope, hidden_size=32).float().eval()

    def scaled(writer: Any) -> None:
        writer.add_rope_dimension_count(8)
        for change in settings:
            change(writer)

    path = written(tmp_path / "a.gguf", model, tmp_path / "hf", arch, also=scaled)
    write_hf_folder(path, tmp_path / "out")
    ids = torch.tensor([[3, 9, 27, 11, 30, 4, 8, 15, 16]])
    with torch.no_grad():
        expected = model(ids).logits
    found = jumok.load(tmp_path / "out").model(ids)
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-6)


def add_table(writer: Any) -> None:
    writer.add_rope_scaling_factor(4.0)
    divisors = frequency_divisors(
        RopeConfig(base=100.0, scaling="llama3", factor=8.0, original_length=24), 16
    )
    writer.add_key_length(16)
    writer.add_rope_freq_base(100.0)
    writer.add_tensor("rope_freqs.weight", divisors)


@pytest.mark.parametrize(
    ("arch", "changes", "sentence"),
    [
        (
            "llama",
            [lambda w: w.add_string("general.architecture", "mamba")],
            "pretrained.gguf_architecture",
        ),
        ("llama", [], "pretrained.no_token_embeddings"),
        ("llama", [lambda w: add_sizes(w, 2**31)], "pretrained.gguf_block_count"),
        ("llama", [lambda w: add_sizes(w, 0)], "pretrained.gguf_block_count"),
        ("gemma3", [add_sizes, add_windows], "pretrained.gguf_window_pattern"),
        ("exaone4", [add_sizes, add_windows], "pretrained.gguf_window_pattern"),
        ("gemma3", [add_sizes, add_pieces], "pretrained.number_of_scores"),
        ("llama", [add_sizes, lambda w: w.add_rope_dimension_count(2)],
         "pretrained.rope_value"),
        ("qwen2", [add_sizes, lambda w: w.add_rope_dimension_count(0)], "pretrained.rope_value"),
        ("gemma3", [add_sizes, lambda w: w.add_uint32("gemma3.rope.dimension_count_swa", 2)],
         "pretrained.rope_value"),
        ("exaone4", [add_sizes, lambda w: w.add_rope_scaling_attn_factors(0.5)],
         "pretrained.rope_value"),
        ("llama", [add_sizes, lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN)],
         "pretrained.unsupported_rope_scaling"),
        ("llama", [add_sizes, lambda w: w.add_bool("llama.rope.scale_linear", True)],
         "pretrained.not_a_number"),
        ("llama", [add_sizes, add_table], "pretrained.rope_scaled_twice"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_imported(
    arch: str, changes: list[Callable[[Any], None]], sentence: str, tmp_path: Path
) -> None:
    writer: Any = gguf.GGUFWriter(tmp_path / "a.gguf", arch)
    for change in changes:
        change(writer)
    name = "output_norm.weight" if len(changes) > 1 else "other.weight"
    writer.add_tensor(name, np.zeros(4, np.float32))
    finish(writer)
    with raises(InputError, sentence):
        write_hf_folder(tmp_path / "a.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def byte_level(**metadata: object) -> PretrainedTokenizer:
    """The tokenizer of a file with a word that is a token without merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    word = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("안녕")[0][0]
    tokens = (*alphabet, word, "<|begin|>", "<|end|>")
    found = tokenizer_files(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": (1,) * 257 + (3, 3),
            "tokenizer.ggml.merges": (),
        }
        | {f"tokenizer.ggml.{key}": value for key, value in metadata.items()},  # type: ignore[arg-type]
        {"bos_token_id": 257, "eos_token_id": 258},
    )
    with tempfile.TemporaryDirectory() as name:
        for path, content in found.items():
            (Path(name) / path).write_bytes(content)
        tokenizer = load_tokenizer(Path(name), {})
    assert tokenizer is not None
    return tokenizer


@pytest.mark.parametrize(
    ("metadata", "before", "after"),
    [
        ({"pre": "llama-bpe"}, [257], []),  # the default of llama.cpp
        ({"pre": "llama-bpe", "add_bos_token": False}, [], []),
        ({"pre": "qwen2"}, [], []),
        ({"pre": "qwen2", "add_bos_token": True}, [257], []),
        ({"pre": "gpt-2", "add_bos_token": True, "add_eos_token": True}, [257], [258]),
    ],
)
def test_special_tokens_of_a_byte_level_vocabulary(
    metadata: dict[str, object], before: list[int], after: list[int]
) -> None:
    tokenizer = byte_level(**metadata)
    ids = tokenizer.encode("안녕")
    assert (ids == [256]) == (metadata["pre"] == "llama-bpe")  # a token that no merges form
    assert tokenizer.encode_with_special_tokens("안녕").ids == [*before, *ids, *after]
