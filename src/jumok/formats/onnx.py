"""`--to onnx`: encoders and their heads for onnxruntime and other ONNX runtimes."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jumok.data.packing import pad
from jumok.data.table import Table
from jumok.errors import Message, TokenizerError
from jumok.export.huggingface import HuggingFace, convert_pipeline, write_json, write_tokenizer
from jumok.export.report import relative_difference
from jumok.export.samples import Samples, Scores, backbone_of, numeric_scores
from jumok.export.target import Quantization, Target
from jumok.formats.onnx_graph import GRAPH, MAX_BYTES, NamedInputs, quantize_graph, write_graph
from jumok.formats.onnx_session import OnnxSession, exported_logits, with_logits_from
from jumok.models import (
    CharacterClassifier,
    Decoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    PairClassifier,
    SentenceEncoder,
    TextClassifier,
)
from jumok.models.weights import named_weights
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate
from jumok.text.ragged import Ragged

BATCH_SIZE = 8  # rows


class Onnx(Target):
    """One file, `model.onnx`, with the input names of transformers."""

    libraries = ("onnx", "onnxruntime", "onnxscript")
    quantizations = ("int8",)

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why ONNX export does not support this model; None if it does."""
        model = pipeline.model
        if isinstance(model, EncoderDecoder | LanguageModel | Decoder):
            return Message(
                "export.onnx_without_encoder",
                "ONNX export needs an encoder, got the class {kind}",
                kind=type(model).__name__,
            )
        if isinstance(model, EncoderDecoderClassifier):
            return Message(
                "export.onnx_with_decoder",
                "ONNX export needs an encoder, got a classifier with a decoder; train it with "
                'model.kind = "encoder"',
            )
        if isinstance(model, CharacterClassifier):
            return Message(
                "export.onnx_of_characters",
                "ONNX export needs logits that follow from token ids, got a classifier of "
                'characters; train it with model.tagging = "pieces"',
            )
        size = sum(4 * weight.numel() for weight in named_weights(model).values())
        if size > MAX_BYTES:
            return Message(
                "export.onnx_size",
                "weights must have at most {most:,} bytes for ONNX, got {size:,}; train a smaller "
                "model",
                most=MAX_BYTES,
                size=size,
            )
        return None

    def output_name(self, pipeline: Pipeline) -> str:
        """The name in the graph."""
        return NamedInputs(pipeline.model).output

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write `model.onnx`, config.json and the tokenizer."""
        _write_config_and_tokenizer(pipeline, folder)
        write_graph(pipeline.model, folder / GRAPH)

    def quantize(
        self, pipeline: Pipeline, converted: Path, folder: Path, weights: Quantization
    ) -> None:
        """Quantize the graph."""
        _write_config_and_tokenizer(pipeline, folder)
        quantize_graph(converted / GRAPH, folder / GRAPH)

    def scores(
        self, pipeline: Pipeline, folder: Path, weights: Quantization | None, table: Table
    ) -> Scores:
        """The scores that the task gives the graph."""
        exported = with_logits_from(pipeline, exported_logits(folder))
        return numeric_scores(evaluate(exported, table, "dev").scores)

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the logits of padded batches, over real tokens."""
        return relative_difference(
            paired_outputs(pipeline.model, exported_logits(folder), samples.rows)
        )

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code with onnxruntime."""
        inputs = NamedInputs(pipeline.model)
        types = "" if len(inputs.inputs) == 2 else ', "token_type_ids": 0 * ids'
        return f"""\
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
ids = np.array([[...]], dtype=np.int64)  # (texts, tokens), from the tokenizer in this folder
feed = {{"input_ids": ids, "attention_mask": np.ones_like(ids){types}}}
(found,) = session.run(["{inputs.output}"], feed)"""


def _write_config_and_tokenizer(pipeline: Pipeline, folder: Path) -> None:
    """Write config.json with the labels, and the tokenizer as `tokenizers` reads it.

    The configuration is that of transformers if one of its families has the model; otherwise it has
    the sizes and the labels. A vocabulary that tokenizer.json cannot represent is written as
    vocabulary.model only.
    """
    write_json(folder / "config.json", _config(pipeline))
    if pipeline.vocabulary_or_none is not None:
        with suppress(TokenizerError):
            write_tokenizer(pipeline, folder)


def _config(pipeline: Pipeline) -> Mapping[str, Any]:
    if pipeline.origin is not None:
        return pipeline.origin.config
    model = pipeline.recipe.model
    config: dict[str, Any] = {
        "vocab_size": model.vocabulary_size,
        "hidden_size": model.d_model,
        "max_position_embeddings": model.max_length,
    }
    if (vocabulary := pipeline.vocabulary_or_none) is not None:
        config["pad_token_id"] = vocabulary.padding_id
    if HuggingFace().unsupported_reason(pipeline) is None:
        config = convert_pipeline(pipeline).config
    if pipeline.labels:
        config["id2label"] = {str(i): name for i, name in enumerate(pipeline.labels)}
        config["label2id"] = {name: i for i, name in enumerate(pipeline.labels)}
    if pipeline.task.problem_type:
        config["problem_type"] = pipeline.task.problem_type
    return config


@torch.inference_mode()
def paired_outputs(
    model: nn.Module, session: OnnxSession, rows: Ragged
) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs of session and model for the real tokens of rows padded left or right."""
    eager = NamedInputs(model)
    segments = backbone_of(model).embedding.segments
    n_types = 1 if segments is None else segments.num_embeddings
    for start in range(0, len(rows), BATCH_SIZE):
        batch = [rows[i] for i in range(start, min(start + BATCH_SIZE, len(rows)))]
        box = pad(batch, 0, left=start // BATCH_SIZE % 2 == 1)
        ids, mask = torch.from_numpy(box.ids), torch.from_numpy(box.mask)
        inputs = (ids, mask.long(), ids % n_types)[: len(eager.inputs)]
        exported, expected = session(*inputs), eager(*inputs)
        if not isinstance(
            model, TextClassifier | PairClassifier | SentenceEncoder
        ):  # one output per token: drop padding
            exported, expected = exported[mask], expected[mask]
        yield exported, expected
