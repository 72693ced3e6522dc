"""The README.md of an exported folder: what the model is, how good, from what, how to open it."""

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jumok.data.corpora.registry import corpus_by_name
from jumok.export.generation_config import left_out
from jumok.export.report import Outcome
from jumok.models.weights import named_weights
from jumok.tasks.pipeline.origin import describe_processors
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS

_KOREAN = {
    "classification": "글 하나(또는 두 글)에 레이블 하나를 붙이는",
    "regression": "글 하나(또는 두 글)에 점수를 매기는",
    "tagging": "글자마다 태그를 붙이는",
    "sequence_to_sequence": "글을 읽고 다른 글로 옮겨 쓰는",
    "language_modeling": "글을 이어 쓰는",
    "masked_language_modeling": "가려진 조각을 알아맞히는",
}


def card(
    loaded: Pipeline,
    results: Mapping[str, Any],
    outcome: Outcome,
    *,
    to: str,
    numbers: str,
    opening: str,
) -> str:
    """The text of the card. `results` are those of the run, empty where there are none."""
    parts = [
        f"# {loaded.recipe.name}\n",
        *_about(loaded, to, numbers),
        *_measured(results),
        "## The export\n",
        "```",
        *outcome.lines(),
        "```\n",
        *_data(loaded),
        "## How to open it\n",
        f"```python\n{opening}\n```\n",
        *_reading(loaded, to),
        *_writing(loaded, to),
        *_korean(loaded, results, to),
    ]
    return "\n".join(parts)


def results_of(folder: Path) -> dict[str, Any]:
    """What `results.json` of a run says; empty for a folder without one."""
    from jumok.tasks.runs.run import Run

    run = Run(folder)
    return run.results() if run.finished else {}


def _about(loaded: Pipeline, to: str, numbers: str) -> Iterator[str]:
    recipe, model = loaded.recipe, loaded.recipe.model
    size = sum(weight.numel() for weight in named_weights(loaded.model).values())
    origin = loaded.origin
    trained = (
        f"trained with jumok for {recipe.task.replace('_', ' ')} by the recipe `{recipe.name}`"
    )
    came = trained if origin is None else f"imported from a {origin.architecture}"
    ours = version("jumok")
    yield f"A model {came}; exported by jumok {ours} for {to}, its weights in {numbers}.\n"
    yield (
        f"- {type(loaded.model).__name__}: {model.n_layers} layers, width {model.d_model}, "
        f"{model.n_heads} heads, {size:,} weights, at most {model.max_length} tokens"
    )
    yield f"- vocabulary: {model.vocabulary_size:,} pieces"
    if loaded.labels:
        yield f"- labels, in the order of the outputs: {', '.join(loaded.labels)}"
    yield ""


def _measured(results: Mapping[str, Any]) -> Iterator[str]:
    """The scores of the run on its test sets, as they were measured when it ended."""
    if not results:
        return
    yield "## Measured\n"
    yield "By the run itself, in float32, before the export:\n"
    yield "| split | score | value |"
    yield "| --- | --- | --- |"
    for scores in (results, *results.get("others", [])):
        for name, value in _scores(scores):
            yield f"| {scores.get('split', '')} | {name} | {value:.4f} |"
    yield ""
    told = {"seed": "seed", "steps": "steps", "wall_seconds": "seconds of training in all"}
    facts = [f"{text} {results[name]:,}" for name, text in told.items() if name in results]
    if facts:
        yield f"{', '.join(facts)}.\n"


def _scores(scores: Mapping[str, Any]) -> list[tuple[str, float]]:
    times = ("training_seconds", "wall_seconds")
    return [(k, v) for k, v in scores.items() if isinstance(v, float) and k not in times]


def _data(loaded: Pipeline) -> Iterator[str]:
    data = loaded.recipe.data
    yield "## Data and licences\n"
    for name in (*([data.corpus] if data.corpus else []), *data.extra):
        corpus = corpus_by_name(name)
        passed_on = "" if corpus.redistributable else "; the data may not be passed on"
        yield f"- {name}: {corpus.description}. {corpus.licence}{passed_on}. {corpus.url}"
    if loaded.origin is not None:
        yield "- the checkpoint this came from says what it learned from, and its licence"
    elif not data.corpus:
        yield "- the data are the trainer's own; jumok knows nothing of their licence"
    yield (
        "\nUnder which licence these weights may be used is for those to say who publish them; the "
        "licences of the data may limit it.\n"
    )


def _reading(loaded: Pipeline, to: str) -> Iterator[str]:
    """What stands around the pieces of a text."""
    if loaded.origin is not None:
        yield "What stands around the pieces of a text, the tokenizer's own files say.\n"
        return
    match loaded.recipe.task:
        case "sequence_to_sequence" if to == "ctranslate2":
            yield "CTranslate2 itself puts [EOS] behind a source and [BOS] before a target.\n"
        case "sequence_to_sequence":
            yield "A source is its pieces and then [EOS], a target begins with [BOS].\n"
        case "language_modeling":
            yield "A text begins with [BOS].\n"
        case _:
            yield "A text is read as [CLS] and its pieces, a pair as [CLS] a [SEP] b [SEP].\n"


def _writing(loaded: Pipeline, to: str) -> Iterator[str]:
    """What the model keeps to when it writes, and the folder does not hold."""
    if loaded.recipe.task not in GENERATIVE_TASKS:
        return
    if loaded.origin is None:
        unsaid = left_out(loaded.recipe.decoding)
        if to == "hf" and unsaid:
            yield f"Of its [decoding] generation_config.json does not hold: {unsaid}.\n"
    elif to == "ctranslate2" and loaded.processors:
        rules = describe_processors(loaded.processors).removeprefix("; its folder ")
        yield (
            f"The checkpoint's folder {rules}; this one does not hold that, and was compared "
            "without it. CTranslate2 is told with `suppress_sequences` and `target_prefix`.\n"
        )


def _korean(loaded: Pipeline, results: Mapping[str, Any], to: str) -> Iterator[str]:
    recipe = loaded.recipe
    scores = ", ".join(f"{name} {value:.4f}" for name, value in _scores(results))
    yield "## 요약\n"
    origin = loaded.origin
    came = (
        f"`{recipe.name}` 레시피로 학습한"
        if origin is None
        else f"{origin.architecture}에서 들여온"
    )
    yield (
        f"주목(jumok)에서 {came}, {_KOREAN[recipe.task]} 모델을 {to} 형식으로 내보낸 폴더입니다."
    )
    if scores:
        yield f"학습이 끝났을 때 잰 점수({results.get('split', 'test')}): {scores}."
    yield (
        "글은 NFC로 바꾼 다음 함께 든 어휘로 나누면 됩니다. 데이터의 이용 조건은 위 "
        "“Data and licences”를 보십시오.\n"
    )
