"""From a folder of jumok to one for other programs: compared, measured, whole or not at all."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jumok.atomic_io import atomic_directory, check_empty
from jumok.errors import InputError
from jumok.export.card import card, results_of
from jumok.export.ctranslate2 import CTranslate2
from jumok.export.huggingface import HuggingFace
from jumok.export.onnx import Onnx
from jumok.export.report import Outcome
from jumok.export.samples import random_samples, samples_of
from jumok.export.scale import on_the_scale_of_the_data
from jumok.export.target import Quantization, Target, Tell, refuse_missing
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load
from jumok.text.pretrained import PretrainedTokenizer

TARGETS: dict[str, Target] = {"hf": HuggingFace(), "ctranslate2": CTranslate2(), "onnx": Onnx()}

CARD = "README.md"


@dataclass(frozen=True)
class Exported:
    """A finished folder, and what is told of it."""

    folder: Path
    to: str
    numbers: str  # "float32" or "int8"
    outcome: Outcome


def export(
    folder: Path,
    to: str,
    out: Path,
    quantize: Quantization | None = None,
    tell: Tell = lambda what: None,
) -> Exported:
    """Export the run in `folder` to the new folder `out`.

    The model is in float32 or, quantised, in int8; before it is kept its numbers are compared with
    ours. Raises InputError when the target cannot express the model, a library is missing or `out`
    is not empty; JumokError when the numbers are others; StorageError. Then nothing is left behind.
    """
    target = target_named(to)
    check_empty(out)
    loaded = load(folder, device="cpu")
    refuse(target, loaded)
    loaded = on_the_scale_of_the_data(loaded)
    samples = samples_of(loaded)
    numbers = quantize or "float32"
    with atomic_directory(out) as scratch:
        outcome = target.write(loaded, scratch, samples, quantize, tell)
        _save_vocabularies(loaded, scratch)
        text = card(
            loaded,
            results_of(folder),
            outcome,
            to=to,
            numbers=numbers,
            opening=target.opening(loaded),
        )
        (scratch / CARD).write_text(text, encoding="utf-8")
    return Exported(out, to, numbers, outcome)


def target_named(name: str) -> Target:
    """The target of that name. Raises InputError for one that is not known."""
    if name not in TARGETS:
        raise InputError(f"{name!r} is no target of an export; choose from {', '.join(TARGETS)}")
    return TARGETS[name]


def refuse(target: Target, loaded: Pipeline) -> None:
    """Raises InputError when the model cannot be exported so, or what that needs is missing."""
    reason = target.obstacle(loaded)
    if reason is not None:
        raise InputError(reason)
    refuse_missing(target.libraries)


def exported_difference(loaded: Pipeline, to: str) -> float:
    """How far the model would be from itself once exported: max |a - b| / max(1, max |b|).

    It is written to a folder that is removed again, and asked about random ids. Raises InputError
    as `export` does.
    """
    target = target_named(to)
    refuse(target, loaded)
    samples = random_samples(loaded, 16, "nothing is scored")
    with TemporaryDirectory() as folder:
        target.convert(loaded, Path(folder))
        return target.difference(loaded, Path(folder), samples)


def _save_vocabularies(loaded: Pipeline, folder: Path) -> None:
    """The files a person needs to cut texts; none when the model has none."""
    try:
        both = TokenizerPair(loaded.vocabulary, loaded.target_vocabulary)
    except InputError:
        return
    if isinstance(both.source, PretrainedTokenizer):
        both.source.save(folder)
    else:
        both.save(folder)
