"""`--to web`: one HTML file that runs a model in the browser, without network.

The page holds the C++ kernel as WebAssembly, the packed file of the model (`web_model.py`) and the
scripts of web/src/model. Next to it are the same parts for one's own page: jumok.js with its types,
kernel.wasm and model.safetensors.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import load_file
from torch import Tensor

from jumok.data.table import Table
from jumok.errors import ExportError, Message
from jumok.export.report import relative_difference
from jumok.export.samples import Samples, Scores, numeric_scores, to_lists
from jumok.export.target import Quantization, Target
from jumok.formats.onnx_session import with_logits_from
from jumok.formats.web_generation import (
    generates,
    generation_difference,
    generation_scores,
    packed_generator,
    packed_model,
    unsupported_generation,
)
from jumok.formats.web_model import (
    METADATA,
    PackedEncoder,
    WebPrecision,
    pack,
    packed_arrays,
    packed_settings,
)
from jumok.formats.web_tokenizer import (
    tokenizer_arrays,
    tokenizer_config,
    unsupported_tokenizer,
)
from jumok.inference.text_session import head_of
from jumok.models import SentenceEncoder, TextClassifier
from jumok.native.layout import Array, Arrays, unsupported_encoder
from jumok.native.torch_weights import TensorArrays
from jumok.pretrained.sentence_encoding import Normalize
from jumok.safetensors_io import read_metadata
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate
from jumok.text.ragged import Ragged
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.viewer.page import render_model_page
from jumok.viewer.static_files import static_file

PAGE, MODEL, KERNEL = "index.html", "model.safetensors", "kernel.wasm"
MODULE = ("jumok.js", "jumok.d.ts")
# How far the outputs in the browser may be from those in the file, relative to the largest output.
# On processors with bfloat16 instructions, which round the attention, those of int8 differ by 3 %.
PAGE_TOLERANCE: dict[WebPrecision, float] = {"float32": 1e-4, "int8": 0.1}
# Base64 of a model takes 4/3 of its size, and V8 limits a string to about 512 MiB.
MAX_BYTES = 300_000_000
EXAMPLES = ("겨울은 추워요.", "영화가 정말 재미있었어요!", "비가 와서 집에 있었다.")


class Web(Target):
    """One page that runs the model, and a module for other pages."""

    quantizations = ("int8",)

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why the page cannot run this model; None if it can."""
        model = pipeline.model
        if pipeline.vocabulary_or_none is None:
            return Message(
                "web.no_vocabulary", "the page needs a vocabulary, and the folder has none"
            )
        if generates(pipeline):
            return unsupported_generation(pipeline)
        if not isinstance(model, TextClassifier | SentenceEncoder):
            return Message(
                "web.model_class",
                "the page runs classifiers, regression, vectors of texts, encoder-decoders and "
                "language models, got the class {kind}",
                kind=type(model).__name__,
            )
        if pipeline.recipe.reads_pairs:
            return Message("web.pairs", "the page reads one text, got a model of pairs")
        if isinstance(model, TextClassifier) and pipeline.recipe.model.head_transform:
            return Message("web.head_transform", "the page has no norms in heads")
        encoding = pipeline.sentence_encoding
        if encoding is not None and (
            encoding.lower_case or not all(isinstance(s, Normalize) for s in encoding.steps)
        ):
            return Message(
                "web.sentence_modules",
                "the page has no dense layers and no lower-casing of sentence-transformers",
            )
        reason = unsupported_encoder(pipeline.recipe.model)
        return reason or unsupported_tokenizer(pipeline.vocabulary)

    def output_name(self, pipeline: Pipeline) -> str:
        """What the page computes."""
        return "logits" if generates(pipeline) else "outputs"

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the page in float32, and the module next to it."""
        _write(pipeline, folder, "float32")

    def quantize(
        self, pipeline: Pipeline, converted: Path, folder: Path, weights: Quantization
    ) -> None:
        """Write the page in int8."""
        _write(pipeline, folder, "int8")

    def scores(
        self, pipeline: Pipeline, folder: Path, weights: Quantization | None, table: Table
    ) -> Scores:
        """The scores that the task gives the packed file in the native kernel."""
        if generates(pipeline):
            return generation_scores(pipeline, packed_model(pipeline, *_parts(folder)), table)
        encoder = PackedEncoder(*_parts(folder))

        def logits(ids: Tensor, mask: Tensor, segments: Tensor | None) -> Tensor:
            rows = [row[real.bool()].tolist() for row, real in zip(ids, mask, strict=True)]
            return torch.from_numpy(encoder.outputs(Ragged.from_lists(rows)))

        return numeric_scores(evaluate(with_logits_from(pipeline, logits), table, "dev").scores)

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the outputs of the packed file in the native kernel."""
        if generates(pipeline):
            model = packed_model(pipeline, *_parts(folder))
            return generation_difference(pipeline, model, samples.rows)
        found = torch.from_numpy(PackedEncoder(*_parts(folder)).outputs(samples.rows))
        with torch.inference_mode():
            return relative_difference(
                (outputs, pipeline.model(torch.tensor([row]))[0])
                for outputs, row in zip(found, to_lists(samples.rows), strict=True)
            )

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code that opens the page."""
        return f"""\
import webbrowser
from pathlib import Path

webbrowser.open(Path("{PAGE}").resolve().as_uri())"""


def _write(pipeline: Pipeline, folder: Path, precision: WebPrecision) -> None:
    _write_model(pipeline, folder, precision)
    _write_page(folder)


def _write_model(pipeline: Pipeline, folder: Path, precision: WebPrecision) -> None:
    """Write the packed file, with the outputs of a few texts."""
    recipe, weights = pipeline.recipe, TensorArrays(pipeline.model)
    pack_parts = packed_generator if generates(pipeline) else _packed_encoder
    arrays, settings = pack_parts(pipeline, weights, precision)
    settings = {
        "prompt": "",
        **settings,
        "name": recipe.name,
        "task": recipe.task,
        "labels": list(pipeline.labels),
        "threshold": recipe.multi_label.threshold,
        "tolerance": PAGE_TOLERANCE[precision],
    }
    (folder / MODEL).write_bytes(pack(arrays, settings))


def _packed_encoder(
    pipeline: Pipeline, weights: Arrays, precision: WebPrecision
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors and the settings of the packed file of an encoder."""
    tokenizer, recipe = pipeline.vocabulary, pipeline.recipe
    assert isinstance(tokenizer, SentencePieceTokenizer)
    own = pipeline.sentence_encoding
    longest = min(recipe.model.max_length, (own and own.max_length) or recipe.model.max_length)
    model, head = replace(recipe.model, max_length=longest), head_of(pipeline.model)
    assert head is not None  # of one of the supported models
    arrays = packed_arrays(model, head, weights, precision)
    settings = packed_settings(model, head, precision)
    encoder = PackedEncoder(arrays, settings)
    config = tokenizer_config(tokenizer, longest)
    prompt = own.prompt("") if own else ""
    texts = [text for text in EXAMPLES if tokenizer.encode(text)]
    settings |= {
        "prompt": prompt,
        "tokenizer": config,
        "examples": [_example(text, prompt, tokenizer, config, encoder) for text in texts],
    }
    return arrays | tokenizer_arrays(tokenizer), settings


def _example(
    text: str,
    prompt: str,
    tokenizer: SentencePieceTokenizer,
    config: dict[str, Any],
    encoder: PackedEncoder,
) -> dict[str, Any]:
    """A text, its input ids and the outputs of the native kernel."""
    template = tokenizer.input_template
    ids = template.apply_one(tokenizer.encode(prompt + text), None, config["max_length"]).ids
    (found,) = encoder.outputs(Ragged.from_lists([ids]))
    outputs = [float(str(x)) for x in found]  # the shortest digits of float32
    return {"text": text, "ids": [int(i) for i in ids], "outputs": outputs}


def _write_page(folder: Path) -> None:
    """Write the page and the module next to the packed file.

    Raises ExportError for a model that does not fit into a page.
    """
    model, kernel = (folder / MODEL).read_bytes(), static_file(KERNEL).content
    if len(model) > MAX_BYTES:
        raise ExportError(
            "web.model_too_large",
            "the packed model must have at most {most:,} bytes for a page, got {size:,}; use "
            "--quantize int8, or --to onnx",
            most=MAX_BYTES,
            size=len(model),
        )
    settings = json.loads(read_metadata(folder / MODEL)[METADATA])
    (folder / PAGE).write_bytes(render_model_page(settings["name"], model, kernel))
    for name in (KERNEL, *MODULE):
        (folder / name).write_bytes(static_file(name).content)


def _parts(folder: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors and the settings of the packed file."""
    path = folder / MODEL
    return load_file(path), json.loads(read_metadata(path)[METADATA])
