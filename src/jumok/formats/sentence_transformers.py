"""`--to sentence-transformers` and `--to cross-encoder`: folders for sentence-transformers.

Vectors: the encoder as transformers reads it, and the modules that follow it (pooling, dense
layers, normalization, prompts); a model of transformers is written without its head. Scores of
pairs: the whole model of transformers, as a CrossEncoder.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from jumok.errors import InputError, Message
from jumok.export.huggingface import HuggingFace, batches, convert_encoder, write_hf_model
from jumok.export.report import relative_difference
from jumok.export.samples import Samples
from jumok.export.target import Target
from jumok.models import Encoder
from jumok.pretrained.sentence_encoding import (
    CONFIG,
    Normalize,
    SentenceEncoding,
    write_cross_encoder,
    write_sentence_encoding,
)
from jumok.safe_json import read_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.text_vectors import pool_texts
from jumok.tasks.runs.import_checkpoint import SENTENCE_FOLDER

SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"


class SentenceTransformers(Target):
    """A folder of sentence-transformers: a model of transformers, modules.json, its modules."""

    libraries = ("transformers", "sentence_transformers")

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why this model cannot be exported to this format; None if it can."""
        if not isinstance(getattr(pipeline.model, "encoder", pipeline.model), Encoder) or hasattr(
            pipeline.model, "decoder"
        ):
            return Message(
                "export.vectors_without_encoder",
                "vectors of texts need an encoder, got the class {kind}",
                kind=type(pipeline.model).__name__,
            )
        if pipeline.origin is not None:
            return None
        try:
            convert_encoder(pipeline)
        except InputError as error:
            return error.message
        return None

    def output_name(self, pipeline: Pipeline) -> str:
        """One vector for each text."""
        return "vectors"

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the files."""
        if pipeline.origin is not None:
            HuggingFace().convert(pipeline, folder)
        else:
            write_hf_model(pipeline, convert_encoder(pipeline), folder)
        encoding = sentence_encoding(pipeline)
        longest = encoding.max_length or pipeline.recipe.model.max_length
        width = pipeline.recipe.model.d_model
        write_sentence_encoding(replace(encoding, max_length=longest), folder, width)

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the vectors of padded batches."""
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        encoding = sentence_encoding(pipeline)

        def pairs() -> Iterator[tuple[Tensor, Tensor]]:
            for ids, mask, _ in batches(pipeline, samples.rows):
                x = pool_texts(pipeline.hidden_states(ids, mask), mask.bool(), encoding.pooling)
                for step in encoding.steps:
                    x = step(x)
                features = {"input_ids": ids, "attention_mask": mask}
                with torch.inference_mode():
                    yield x, model(features)["sentence_embedding"]

        return relative_difference(pairs())

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code with sentence-transformers."""
        return "\n".join(
            [
                "from sentence_transformers import SentenceTransformer",
                "",
                'model = SentenceTransformer(".")',
                'vectors = model.encode(["겨울은 추워요", "여름은 더워요"])',
            ]
        )


def sentence_encoding(pipeline: Pipeline) -> SentenceEncoding:
    """The model's own encoding; without one the mean of the tokens, divided by its length.

    The vectors are then those of `Pipeline.encode` without arguments.
    """
    return pipeline.sentence_encoding or replace(pipeline.default_encoding, steps=(Normalize(),))


class CrossEncoder(HuggingFace):
    """A folder for the CrossEncoder of sentence-transformers: scores, or labels, of two texts."""

    libraries = ("transformers", "sentence_transformers")

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why this model cannot be exported to this format; None if it can."""
        if not (pipeline.recipe.reads_pairs or pipeline.optional_pairs):
            return Message(
                "export.cross_encoder_without_pairs",
                "a cross-encoder needs a model of pairs of texts, got task {task}; train one with "
                "regression or classification and data.pair",
                task=pipeline.recipe.task,
            )
        return super().unsupported_reason(pipeline)

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the files."""
        super().convert(pipeline, folder)
        write_cross_encoder(folder, activation(pipeline))

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the outputs, before the activation, of padded batches."""
        from sentence_transformers import CrossEncoder as Theirs

        model = Theirs(str(folder), device="cpu", local_files_only=True).eval()

        def pairs() -> Iterator[tuple[Tensor, Tensor]]:
            for ids, mask, _ in batches(pipeline, samples.rows):
                features = {"input_ids": ids, "attention_mask": mask}
                with torch.inference_mode():
                    yield pipeline.logits(ids, mask), model(features)["scores"]

        return relative_difference(pairs())

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code with sentence-transformers."""
        return "\n".join(
            [
                "from sentence_transformers import CrossEncoder",
                "",
                'model = CrossEncoder(".")',
                'model.rank("겨울은 추워요", ["눈이 와요", "여름은 더워요"])',
            ]
        )


def activation(pipeline: Pipeline) -> str:
    """The import path of what `CrossEncoder.predict` applies to the outputs.

    An imported model keeps its own, by default the sigmoid of a single score; the score of a run
    is on the scale of its data.
    """
    if pipeline.origin is None:
        return IDENTITY
    for folder in (pipeline.origin.folder, pipeline.origin.folder / SENTENCE_FOLDER):
        if (folder / CONFIG).is_file():
            return str(read_json(folder / CONFIG).get("activation_fn") or SIGMOID)
    return SIGMOID if pipeline.task.answer == "score" else IDENTITY
