"""Export a run: convert it, compare the outputs, and write the folder atomically."""

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

from jumok.atomic_io import atomic_directory, check_empty
from jumok.errors import InputError
from jumok.export.card import card, results_of
from jumok.export.huggingface import HuggingFace
from jumok.export.report import ExportReport
from jumok.export.samples import comparison_samples, random_samples
from jumok.export.target import Progress, Quantization, Target, check_installed
from jumok.formats.ctranslate2 import CTranslate2
from jumok.formats.gguf import Gguf
from jumok.formats.onnx import Onnx
from jumok.formats.peft import Peft
from jumok.formats.sentence_transformers import SentenceTransformers
from jumok.models import PairClassifier, TextClassifier
from jumok.nn.hooks import shared_copy
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.tables import RegressionConfig
from jumok.tasks.runs.load import load
from jumok.terminal import escape_control
from jumok.text.pretrained import PretrainedTokenizer

TARGETS: dict[str, Target] = {
    "hf": HuggingFace(),
    "sentence-transformers": SentenceTransformers(),
    "peft": Peft(),
    "ctranslate2": CTranslate2(),
    "onnx": Onnx(),
    "gguf": Gguf(),
}

CARD = "README.md"


@dataclass(frozen=True)
class ExportResult:
    """The exported folder and its report."""

    folder: Path
    to: str
    weight_type: str  # "float32", or one of `Quantization`
    report: ExportReport


def export(
    folder: Path,
    to: str,
    out: Path,
    quantize: Quantization | None = None,
    progress: Progress = lambda step: None,
) -> ExportResult:
    """Export the run in `folder` to the new folder `out`.

    The weights are float32 or of the type `quantize`; the outputs of the exported model are
    compared with those of the run. Raises InputError if the target does not support the model, a
    library is missing or `out` is not empty; JumokError if the outputs differ; StorageError. On
    errors `out` is not created.
    """
    target = get_target(to)
    if quantize is not None and quantize not in target.quantizations:
        known = ", ".join(("float32", *target.quantizations))
        only = f"{known} only" if known == "float32" else f"one of {known}"
        raise InputError(f"--to {to} writes {only}, got {quantize}; remove --quantize")
    check_empty(out)
    pipeline = load(folder, device="cpu")
    check_exportable(target, pipeline)
    pipeline = fold_target_scaling(pipeline)
    samples = comparison_samples(pipeline)
    weight_type = quantize or "float32"
    with atomic_directory(out) as scratch:
        report = target.write(pipeline, scratch, samples, quantize, progress)
        _save_tokenizers(pipeline, scratch)
        text = card(
            pipeline,
            results_of(folder),
            report,
            to=to,
            weight_type=weight_type,
            usage_example=target.usage_example(pipeline),
        )
        (scratch / CARD).write_text(escape_control(text), encoding="utf-8")
    return ExportResult(out, to, weight_type, report)


def get_target(name: str) -> Target:
    """The target with this name. Raises InputError for an unknown one."""
    if name not in TARGETS:
        raise InputError(f"--to must be one of {', '.join(TARGETS)}, got {name!r}")
    return TARGETS[name]


def check_exportable(target: Target, pipeline: Pipeline) -> None:
    """Raises InputError if the target does not support the model, or a library is missing.

    The message names the formats that do support it.
    """
    reason = target.unsupported_reason(pipeline)
    if reason is not None:
        others = [name for name, each in TARGETS.items() if not each.unsupported_reason(pipeline)]
        advice = f"use --to {' or '.join(others)}" if others else "no other format supports it"
        raise InputError(f"{reason}; {advice}")
    check_installed(target.libraries)


def export_difference(pipeline: Pipeline, to: str) -> float:
    """The difference between a model and its export: max |a - b| / max(1, max |b|).

    Exports to a temporary folder and compares the outputs for random ids. Raises InputError as
    `export` does.
    """
    target = get_target(to)
    check_exportable(target, pipeline)
    samples = random_samples(pipeline, 16, "not scored")
    with TemporaryDirectory() as folder:
        target.convert(pipeline, Path(folder))
        return target.difference(pipeline, Path(folder), samples)


def _save_tokenizers(pipeline: Pipeline, folder: Path) -> None:
    """Save the tokenizer files, if the model has any."""
    try:
        both = TokenizerPair(pipeline.vocabulary, pipeline.target_vocabulary)
    except InputError:
        return
    if isinstance(both.source, PretrainedTokenizer):
        both.source.save(folder)
    else:
        both.save(folder)


def fold_target_scaling(pipeline: Pipeline) -> Pipeline:
    """Fold the target scaling of [regression] into the weights of the output layer.

    Scores from 0 to 5 are trained as 0 to 1, so w and b become 5 w and 5 b. Models of other tasks
    and imported models are returned unchanged.
    """
    scale, imported = pipeline.recipe.regression, pipeline.origin is not None
    if pipeline.recipe.task != "regression" or imported or scale == RegressionConfig():
        return pipeline

    @torch.no_grad()
    def scaled(model: nn.Module) -> nn.Module:
        copy = shared_copy(model)
        assert isinstance(copy, TextClassifier | PairClassifier)
        weight, bias = copy.output.weight, copy.output.bias
        copy.output.weight = nn.Parameter(weight * scale.span, requires_grad=False)
        copy.output.bias = nn.Parameter(bias * scale.span + scale.lowest, requires_grad=False)
        if isinstance(copy, PairClassifier):
            weight = copy.similarity.weight * scale.span
            copy.similarity.weight = nn.Parameter(weight, requires_grad=False)
        return copy

    folded = pipeline.with_models(scaled)
    folded.recipe = replace(pipeline.recipe, regression=RegressionConfig())
    return folded
