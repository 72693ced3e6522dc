"""What a run reads and writes with: one vocabulary for both, or one for each side."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from jumok.data.table import Table
from jumok.tasks.known import task_of
from jumok.tasks.recipe import Recipe, VocabularyChoice
from jumok.text.sentencepiece import SentencePieceVocabulary


@dataclass(frozen=True)
class Vocabularies:
    """The vocabulary of what is read and that of what is written; the same one when joint."""

    source: SentencePieceVocabulary
    target: SentencePieceVocabulary

    @property
    def joint(self) -> bool:
        """Whether both sides share one."""
        return self.target is self.source

    @property
    def fingerprints(self) -> dict[str, str]:
        """The checksum of each, by name."""
        prints = {"vocabulary": self.source.fingerprint}
        return prints if self.joint else prints | {"target_vocabulary": self.target.fingerprint}

    def fit(self, recipe: Recipe) -> Recipe:
        """The recipe with the sizes of these vocabularies in its model."""
        return recipe.with_vocabulary(len(self.source), None if self.joint else len(self.target))


def learn(recipe: Recipe, train: Table) -> Vocabularies:
    """The vocabularies a recipe names, or those learnt from the training rows."""
    choice = recipe.vocabulary
    if choice.joint:
        only = _named_or_learnt(choice, task_of(recipe).texts(recipe, train))
        return Vocabularies(only, only)
    own = replace(choice, file=choice.target_file, size=choice.target_size or choice.size)
    return Vocabularies(
        _named_or_learnt(choice, train.column("source")),
        _named_or_learnt(own, train.column("target")),
    )


def _named_or_learnt(choice: VocabularyChoice, texts: Iterable[str]) -> SentencePieceVocabulary:
    if choice.file:
        return SentencePieceVocabulary.load(choice.file)
    return SentencePieceVocabulary.train(texts, choice)
