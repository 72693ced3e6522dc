"""The README.md of an exported folder: the model, its scores, its data, and how to load it."""

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jumok.data.corpora.registry import corpus_by_name
from jumok.export.generation_config import unsupported_settings
from jumok.export.report import ExportReport
from jumok.models.weights import named_weights
from jumok.tasks.pipeline.generation_pipeline import GenerationPipeline
from jumok.tasks.pipeline.generation_rules import describe_processors
from jumok.tasks.pipeline.pipeline import Pipeline


def card(
    pipeline: Pipeline,
    results: Mapping[str, Any],
    report: ExportReport,
    *,
    to: str,
    weight_type: str,
    usage_example: str,
) -> str:
    """The text of the card. `results` are those of the run, or empty."""
    parts = [
        f"# {pipeline.recipe.name}\n",
        *_about(pipeline, to, weight_type),
        *_measured(results),
        "## The export\n",
        "```",
        *report.lines(),
        "```\n",
        *_data(pipeline),
        "## How to load it\n",
        f"```python\n{usage_example}\n```\n",
        *_reading(pipeline, to),
        *_writing(pipeline, to),
        *_korean(pipeline, results, to),
    ]
    return "\n".join(parts)


def results_of(folder: Path) -> dict[str, Any]:
    """The `results.json` of a run; empty for a folder without one."""
    from jumok.tasks.runs.run import Run

    run = Run(folder)
    return run.results() if run.finished else {}


def _about(pipeline: Pipeline, to: str, weight_type: str) -> Iterator[str]:
    recipe, model = pipeline.recipe, pipeline.recipe.model
    size = sum(weight.numel() for weight in named_weights(pipeline.model).values())
    origin = pipeline.origin
    trained = (
        f"trained with jumok for {recipe.task.replace('_', ' ')} with the recipe `{recipe.name}`"
    )
    source = trained if origin is None else f"imported from a {origin.architecture}"
    version_ = version("jumok")
    yield f"A model {source}; exported by jumok {version_} to {to}, weights in {weight_type}.\n"
    yield (
        f"- {type(pipeline.model).__name__}: {model.n_layers} layers, d_model {model.d_model}, "
        f"{model.n_heads} heads, {size:,} parameters, at most {model.max_length} tokens"
    )
    yield f"- vocabulary: {model.vocabulary_size:,} pieces"
    if pipeline.labels:
        yield f"- labels, in the order of the outputs: {', '.join(pipeline.labels)}"
    yield ""


def _measured(results: Mapping[str, Any]) -> Iterator[str]:
    """The scores of the run on its test sets."""
    if not results:
        return
    yield "## Measured\n"
    yield "Scores of the run in float32, before the export:\n"
    yield "| split | score | value |"
    yield "| --- | --- | --- |"
    for scores in (results, *results.get("others", [])):
        for name, value in _scores(scores):
            yield f"| {scores.get('split', '')} | {name} | {value:.4f} |"
    yield ""
    described = {"seed": "seed", "steps": "steps", "wall_seconds": "seconds of training"}
    facts = [f"{text} {results[name]:,}" for name, text in described.items() if name in results]
    if facts:
        yield f"{', '.join(facts)}.\n"


def _scores(scores: Mapping[str, Any]) -> list[tuple[str, float]]:
    times = ("training_seconds", "wall_seconds")
    return [(k, v) for k, v in scores.items() if isinstance(v, float) and k not in times]


def _data(pipeline: Pipeline) -> Iterator[str]:
    data = pipeline.recipe.data
    yield "## Data and licences\n"
    for name in (*([data.corpus] if data.corpus else []), *data.extra):
        corpus = corpus_by_name(name)
        passed_on = "" if corpus.redistributable else "; not redistributable"
        yield f"- {name}: {corpus.description}. {corpus.licence}{passed_on}. {corpus.url}"
    if pipeline.origin is not None:
        yield "- see the imported checkpoint for its training data and licence"
    elif not data.corpus:
        yield "- user data; their licence is not known to jumok"
    yield (
        "\nThe licence of these weights is set by those who publish them; the licences of the data "
        "may restrict it.\n"
    )


def _reading(pipeline: Pipeline, to: str) -> Iterator[str]:
    """The special tokens around a text."""
    if pipeline.origin is not None:
        yield "The tokenizer files define the special tokens.\n"
        return
    if to == "ctranslate2" and pipeline.task.generates and pipeline.task.reads_source:
        yield "CTranslate2 adds [EOS] after a source and [BOS] before a target.\n"
    else:
        yield f"{pipeline.task.input_format}\n"


def _writing(pipeline: Pipeline, to: str) -> Iterator[str]:
    """Generation settings that the folder does not hold."""
    if not isinstance(pipeline, GenerationPipeline):
        return
    if pipeline.origin is None:
        unsupported = unsupported_settings(pipeline.recipe.decoding)
        if to == "hf" and unsupported:
            yield f"[decoding] settings missing from generation_config.json: {unsupported}.\n"
    elif to == "ctranslate2" and pipeline.processors:
        rules = describe_processors(pipeline.processors).removeprefix("; ")
        yield (
            f"The checkpoint's {rules}; this folder does not contain that and was "
            "compared without it; in CTranslate2 use `suppress_sequences` and `target_prefix`.\n"
        )


def _korean(pipeline: Pipeline, results: Mapping[str, Any], to: str) -> Iterator[str]:
    recipe = pipeline.recipe
    scores = ", ".join(f"{name} {value:.4f}" for name, value in _scores(results))
    yield "## 요약\n"
    origin = pipeline.origin
    came = (
        f"`{recipe.name}` 레시피로 학습한"
        if origin is None
        else f"{origin.architecture}에서 들여온"
    )
    yield (
        f"주목(jumok)에서 {came}, {pipeline.task.korean} 모델을 {to} 형식으로 내보낸 폴더입니다."
    )
    if scores:
        yield f"학습이 끝났을 때 잰 점수({results.get('split', 'test')}): {scores}."
    yield (
        "글은 NFC로 바꾼 다음 함께 든 어휘로 나누면 됩니다. 데이터의 이용 조건은 위 "
        "“Data and licences”를 보십시오.\n"
    )
