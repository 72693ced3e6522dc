"""The export formats by name, without importing one of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from jumok.registry import Registry

if TYPE_CHECKING:
    from jumok.export.target import Target

TARGETS: "Registry[Callable[[], Target]]" = Registry(
    "jumok.formats",
    "--to",
    {
        "hf": "jumok.export.huggingface:HuggingFace",
        "sentence-transformers": "jumok.formats.sentence_transformers:SentenceTransformers",
        "cross-encoder": "jumok.formats.sentence_transformers:CrossEncoder",
        "peft": "jumok.formats.peft:Peft",
        "ctranslate2": "jumok.formats.ctranslate2:CTranslate2",
        "onnx": "jumok.formats.onnx:Onnx",
        "gguf": "jumok.formats.gguf:Gguf",
        "web": "jumok.formats.web:Web",
    },
)
