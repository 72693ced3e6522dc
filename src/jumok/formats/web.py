"""`--to web`: one HTML file that runs a model in the browser, without network.

The page holds the C++ kernel as WebAssembly, the packed file of the model (`web_model.py`) and the
scripts of web/src/model. Next to it are the same parts for one's own page: jumok.js with its types,
kernel.wasm and model.safetensors.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from jumok.data.table import Table
from jumok.errors import ExportError, Message
from jumok.export.samples import Samples, Scores
from jumok.export.target import Quantization, Target
from jumok.formats.web_encoder import (
    encoder_difference,
    encoder_scores,
    packed_encoder,
    unsupported_encoder_model,
)
from jumok.formats.web_generation import (
    generates,
    generation_difference,
    generation_scores,
    packed_generator,
    packed_model,
    unsupported_generation,
)
from jumok.formats.web_model import METADATA, PackedEncoder, WebPrecision, pack
from jumok.native.layout import Array
from jumok.native.torch_weights import TensorArrays
from jumok.safetensors_io import read_metadata
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.viewer.page import render_model_page
from jumok.viewer.static_files import static_file

PAGE, MODEL, KERNEL = "index.html", "model.safetensors", "kernel.wasm"
MODULE = ("jumok.js", "jumok.d.ts")
# How far the outputs in the browser may be from those in the file, relative to the largest output.
# On processors with bfloat16 instructions, which round the attention, those of int8 differ by 3 %.
PAGE_TOLERANCE: dict[WebPrecision, float] = {"float32": 1e-4, "int8": 0.1}
# Base64 of a model takes 4/3 of its size, and V8 limits a string to about 512 MiB.
MAX_BYTES = 300_000_000


class Web(Target):
    """One page that runs the model, and a module for other pages."""

    quantizations = ("int8",)

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why the page cannot run this model; None if it can."""
        if pipeline.vocabulary_or_none is None:
            return Message(
                "web.no_vocabulary", "the page needs a vocabulary, and the folder has none"
            )
        if generates(pipeline):
            return unsupported_generation(pipeline)
        return unsupported_encoder_model(pipeline)

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
        return encoder_scores(pipeline, PackedEncoder(*_parts(folder)), table)

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the outputs of the packed file in the native kernel."""
        if generates(pipeline):
            model = packed_model(pipeline, *_parts(folder))
            return generation_difference(pipeline, model, samples.rows)
        return encoder_difference(pipeline, PackedEncoder(*_parts(folder)), samples.rows)

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
    pack_parts = packed_generator if generates(pipeline) else packed_encoder
    arrays, settings = pack_parts(pipeline, weights, precision)
    settings = {
        "task": recipe.task,
        "prompt": "",
        "lower_case": False,
        "pairs": "never",
        "odd_texts": [],
        **settings,
        "name": recipe.name,
        "labels": list(pipeline.labels),
        "threshold": recipe.multi_label.threshold,
        "tolerance": PAGE_TOLERANCE[precision],
    }
    (folder / MODEL).write_bytes(pack(arrays, settings))


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
