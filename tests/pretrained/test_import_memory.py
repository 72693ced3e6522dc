"""`jumok import` and `jumok.load` need 1.1 times the memory of the file in its own type.

`jumok.load` gives float32 unless dtype is "auto": a bfloat16 file then needs 2.1 times its size.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from jumok.formats.gguf_from_hf import write_gguf_file
from jumok.tasks.runs.import_checkpoint import import_checkpoint

SIZES = {"vocab_size": 16_000, "hidden_size": 1024, "intermediate_size": 3072, "head_dim": 128}
SIZES |= {"num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 64}


def checkpoint(folder: Path, layers: int, dtype: torch.dtype = torch.bfloat16) -> Path:
    """A folder of the shape of Qwen3 with random weights; in bfloat16 33 MB and 25 MB a layer."""
    folder.mkdir()
    config = SIZES | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}
    config |= {"num_hidden_layers": layers, "tie_word_embeddings": True}
    config |= {"dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    width, wide, d = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["head_dim"]
    shapes = {"model.embed_tokens": (SIZES["vocab_size"], width), "model.norm": (width,)}
    for i in range(layers):
        layer = f"model.layers.{i}."
        shapes |= {layer + "self_attn.q_proj": (8 * d, width)}
        shapes |= {layer + f"self_attn.{name}_proj": (4 * d, width) for name in "kv"}
        shapes |= {layer + "self_attn.o_proj": (width, 8 * d)}
        shapes |= {layer + f"self_attn.{name}_norm": (d,) for name in "qk"}
        shapes |= {layer + f"mlp.{name}_proj": (wide, width) for name in ("gate", "up")}
        shapes |= {layer + "mlp.down_proj": (width, wide)}
        shapes |= {layer + f"{name}_layernorm": (width,) for name in ("input", "post_attention")}
    torch.manual_seed(0)
    numbers = torch.randn(16_000 * 1024).to(dtype)
    weights = {}
    for name, shape in shapes.items():
        weights[f"{name}.weight"] = numbers[: torch.Size(shape).numel()].reshape(shape).clone()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def peak(call: str, setup: str = "") -> int:
    """The bytes by which the peak of a new process grows during `call`, after `setup`."""
    code = f"""
from pathlib import Path
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.load import load
import jumok.formats.gguf_checkpoint, jumok.tasks.registry
{setup}
def peak():
    # Not ru_maxrss, which begins with the memory of the parent.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])
before = peak()
loaded = {call}
print(peak() - before)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory as Linux reports it")
def test_an_import_needs_little_more_than_the_file(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "hf", 4)
    file = folder / "model.safetensors"
    gguf = tmp_path / "a.gguf"
    write_gguf_file(folder, gguf, "bf16", "a")
    assert gguf.stat().st_size > 0.99 * file.stat().st_size > 120e6
    one, two = f"Path({str(tmp_path / 'one')!r})", f"Path({str(tmp_path / 'two')!r})"
    limit = 1.1 * file.stat().st_size + 10e6
    assert peak(f"import_checkpoint(Path({str(folder)!r}), {one})") < limit
    assert peak(f"import_checkpoint(Path({str(gguf)!r}), {two})") < limit


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory as Linux reports it")
@pytest.mark.parametrize(
    ("dtype", "stored", "factor"),
    [
        (torch.float32, "float32", 1.1),
        (torch.bfloat16, "float32", 2.1),
        (torch.bfloat16, "auto", 1.1),
    ],
)
def test_a_load_needs_little_more_than_its_weights(
    dtype: torch.dtype, stored: str, factor: float, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "hf", 3 if dtype == torch.float32 else 6, dtype)
    size = (folder / "model.safetensors").stat().st_size
    import_checkpoint(folder, tmp_path / "run")
    for path in (folder, tmp_path / "run"):
        call = f"load({str(path)!r}, dtype={stored!r})"
        assert peak(call) < factor * size + 10e6, path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory as Linux reports it")
def test_an_import_of_blocks_never_holds_all_weights(tmp_path: Path) -> None:
    """They become float32: 3.8 times the file, of which one tensor at a time is in memory."""
    folder, gguf = checkpoint(tmp_path / "hf", 8), tmp_path / "a.gguf"
    write_gguf_file(folder, gguf, "q8_0", "a")
    found = peak(f"import_checkpoint(Path({str(gguf)!r}), Path({str(tmp_path / 'run')!r}))")
    assert found < 0.6 * (tmp_path / "run" / "model.safetensors").stat().st_size
