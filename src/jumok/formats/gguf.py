"""`--to gguf`: GPT-2 and decoders of the Llama family as one file for llama.cpp."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from jumok.data.table import Table
from jumok.errors import InputError, Message
from jumok.export.huggingface import HuggingFace, convert_pipeline
from jumok.export.report import relative_difference
from jumok.export.samples import Samples, Scores, numeric_scores, to_lists
from jumok.export.target import Quantization, Target
from jumok.formats.gguf_checkpoint import write_hf_folder
from jumok.formats.gguf_from_hf import GGUFType, write_gguf_file
from jumok.formats.gguf_support import unsupported_in_gguf
from jumok.models import LanguageModel
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.load import load

MODEL = "model.gguf"


class Gguf(Target):
    """One file, `model.gguf`, with the tokenizer."""

    quantizations = ("f16", "bf16", "q8_0", "q4_0")

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why llama.cpp does not support this model; None if it does."""
        if type(pipeline.model) is not LanguageModel:
            return Message(
                "export.gguf_kind",
                "GGUF is written for language models, got {kind}",
                kind=type(pipeline.model).__name__,
            )
        if pipeline.origin is not None:
            return unsupported_in_gguf(pipeline.origin.config)
        try:
            return unsupported_in_gguf(convert_pipeline(pipeline).config)
        except InputError as error:
            return error.message

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the file in float32."""
        _convert(pipeline, folder, "f32")

    def quantize(
        self, pipeline: Pipeline, converted: Path, folder: Path, weights: Quantization
    ) -> None:
        """Write the file from the weights of the model."""
        assert weights != "int8"  # not in `quantizations`
        _convert(pipeline, folder, weights)

    def scores(
        self, pipeline: Pipeline, folder: Path, weights: Quantization | None, table: Table
    ) -> Scores:
        """The scores of the model in the file."""
        return numeric_scores(evaluate(_read_back(pipeline, folder), table, "dev").scores)

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the logits of each row, from the file that is read back."""
        read_back = _read_back(pipeline, folder)
        with torch.inference_mode():
            return relative_difference(
                (read_back.model(ids), pipeline.model(ids))
                for row in to_lists(samples.rows)
                if (ids := torch.tensor([row])).numel()
            )

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code with llama-cpp-python."""
        return f"""\
from llama_cpp import Llama

model = Llama("{MODEL}")
print(model("...", max_tokens=64)["choices"][0]["text"])"""


def _convert(pipeline: Pipeline, folder: Path, kind: GGUFType) -> None:
    """Write the file from a Hugging Face folder of the model."""
    with TemporaryDirectory(dir=folder) as scratch:
        HuggingFace().convert(pipeline, Path(scratch))
        write_gguf_file(Path(scratch), folder / MODEL, kind, pipeline.recipe.name)


def _read_back(pipeline: Pipeline, folder: Path) -> Pipeline:
    """The pipeline with the model in the file."""
    with TemporaryDirectory(dir=folder) as scratch:
        write_hf_folder(folder / MODEL, Path(scratch))
        model = load(scratch, "cpu").model.eval()
        weights = {name: weight.clone() for name, weight in model.state_dict().items()}
        model.load_state_dict(weights, assign=True)  # the file is deleted
    return pipeline.with_models(lambda _: model)
