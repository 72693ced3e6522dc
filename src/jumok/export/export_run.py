"""Export a run: convert it, compare the outputs, and write the folder atomically."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jumok.atomic_io import atomic_directory, check_empty
from jumok.errors import ExportError, InputError, Message, or_list
from jumok.export.card import card, results_of
from jumok.export.report import ExportReport, NumericComparison
from jumok.export.samples import Samples, comparison_samples, random_samples
from jumok.export.target import Progress, Quantization, Target
from jumok.export.targets import TARGETS
from jumok.extras import check_installed
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load
from jumok.terminal import escape_control
from jumok.text.pretrained import PretrainedTokenizer

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
        raise ExportError(
            "export.unknown_weight_type",
            "--to {to} writes {only}, got {quantize}; remove --quantize",
            to=to,
            only=only,
            quantize=quantize,
        )
    check_empty(out)
    pipeline = load(folder, device="cpu")
    check_exportable(target, pipeline)
    pipeline = pipeline.task.for_export(pipeline)
    samples = comparison_samples(pipeline)
    weight_type = quantize or "float32"
    with atomic_directory(out) as scratch:
        report = _write(target, pipeline, scratch, samples, quantize, progress)
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


def _write(
    target: Target,
    pipeline: Pipeline,
    folder: Path,
    samples: Samples,
    quantize: Quantization | None,
    progress: Progress,
) -> ExportReport:
    """Convert in float32 and compare the outputs; with `quantize`, convert again and score both."""
    if quantize is None:
        return ExportReport(_converted(target, pipeline, folder, samples, progress))
    with TemporaryDirectory(dir=folder) as scratch:
        converted = Path(scratch)
        compared = _converted(target, pipeline, converted, samples, progress)
        progress(f"quantizing to {quantize}")
        target.quantize(pipeline, converted, folder, quantize)
        if samples.dev_table is not None:
            progress(f"measuring {quantize} on {samples.dev_description}")
        cost = samples.cost(
            lambda table: target.scores(pipeline, converted, None, table),
            lambda table: target.scores(pipeline, folder, quantize, table),
            quantize,
        )
    return ExportReport(compared, cost)


def _converted(
    target: Target, pipeline: Pipeline, folder: Path, samples: Samples, progress: Progress
) -> NumericComparison:
    """Convert in float32 and compare. Raises JumokError if the outputs differ."""
    progress("converting")
    target.convert(pipeline, folder)
    progress(f"comparing {samples.description}")
    compared = NumericComparison(
        target.output_name(pipeline),
        samples.description,
        target.difference(pipeline, folder, samples),
        target.tolerance,
        tuple(target.compare_outputs(pipeline, folder, samples)),
    )
    compared.check_tolerance()
    return compared


def get_target(name: str) -> Target:
    """The target with this name. Raises InputError for an unknown one."""
    return TARGETS.get(name)()


def check_exportable(target: Target, pipeline: Pipeline) -> None:
    """Raises InputError if the target does not support the model, or a library is missing.

    The message names the formats that do support it.
    """
    if pipeline.is_own:
        raise ExportError(
            "export.own_model",
            "an export needs a Transformer of jumok, got the model {name} of one's own; "
            "torch.onnx.export writes .model with inputs ids and mask",
            name=pipeline.recipe.model.architecture,
        )
    reason = target.unsupported_reason(pipeline)
    if reason is not None:
        names = TARGETS.names()
        others = [name for name in names if not get_target(name).unsupported_reason(pipeline)]
        advice = Message("export.no_format", "no other format supports it")
        if others:
            advice = Message("export.use_format", "use --to {names}", names=or_list(others))
        raise ExportError("export.unsupported", "{reason}; {advice}", reason=reason, advice=advice)
    check_installed("jumok export", *target.libraries)


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
