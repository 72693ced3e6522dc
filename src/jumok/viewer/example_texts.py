"""Texts to try a loaded model with: of its development set, of its corpus, or general ones."""

from collections.abc import Sequence
from pathlib import Path

from jumok.errors import JumokError
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe

COUNT = 3
MAX_CHARS = 60  # of an example
MAX_FILE_BYTES = 4_000_000  # larger files are not read while the page waits
LESSON_TEXTS = ("겨울은 추워요.", "감기 조심하세요.")


def example_texts(pipeline: Pipeline) -> tuple[str, ...]:
    """Up to three short inputs; those of a pair are separated by TAB.

    Texts from the development file of the recipe, else the examples of its corpus, else general
    texts for the task, without those that the vocabulary cannot spell.
    """
    from jumok.tasks.runs.examples import examples

    recipe = pipeline.recipe
    found = _development_texts(recipe) or examples(
        recipe.data.corpus, masked=pipeline.task.answer == "masks"
    )
    if not recipe.reads_pairs:
        found = [text.partition("\t")[0] for text in found]
    if not found and not recipe.reads_pairs:
        found = list(pipeline.task.examples)
    known = [text for text in found if unknown_pieces(pipeline, text) == 0]
    return tuple((known or found)[:COUNT])


def lesson_texts(pipeline: Pipeline) -> tuple[str, ...]:
    """Two texts for the calculation step by step: those with the fewest unknown pieces.

    Ours, unless the vocabulary cannot spell them; then two examples of the run.
    """
    own = example_texts(pipeline)[:2]
    ours = () if pipeline.recipe.reads_pairs else LESSON_TEXTS
    candidates = [texts for texts in (ours, own) if texts]
    if not candidates:
        return LESSON_TEXTS
    return min(candidates, key=lambda texts: _unknown(pipeline, texts))


def unknown_pieces(pipeline: Pipeline, text: str) -> int:
    """The number of pieces of a text that the vocabulary does not have.

    0 for a model without a vocabulary.
    """
    from jumok.text.tokenizer import unk_id

    tokenizer = pipeline.vocabulary_or_none
    if tokenizer is None:
        return 0
    unknown = unk_id(tokenizer)
    return sum(id_ == unknown for part in text.split("\t") for id_ in tokenizer.encode(part))


def _unknown(pipeline: Pipeline, texts: Sequence[str]) -> int:
    return sum(unknown_pieces(pipeline, text) for text in texts)


def _development_texts(recipe: Recipe) -> list[str]:
    """The first short inputs of the development file; none if it cannot be read quickly."""
    from jumok.data.load import load_splits

    if recipe.data.pieces:  # lists, not texts
        return []
    files = [recipe.data.dev] if isinstance(recipe.data.dev, str) else list(recipe.data.dev)
    try:
        if not any(files) or sum(Path(file).stat().st_size for file in files) > MAX_FILE_BYTES:
            return []
        columns = recipe.columns
        table = load_splits(recipe.data, columns, only=["dev"]).tables["dev"]
        inputs = [name for name in ("source", "text", "pair") if name in table.column_names]
        if "source" in inputs:
            inputs = ["source"]
        rows = zip(*(table.column(name)[: 20 * COUNT] for name in inputs), strict=True)
        return [text for row in rows if len(text := "\t".join(map(str, row))) <= MAX_CHARS]
    except (JumokError, OSError, ValueError, KeyError):
        return []
