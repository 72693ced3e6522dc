"""A model of ours beside its conversion for CTranslate2: what both make of the same ids."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Protocol

import torch

from jumok.data.table import Table
from jumok.decoding import DecodingConfig, GenerationRequest, generate_lm, generate_seq2seq
from jumok.evaluation import bleu_tokenizations, sequence_metrics
from jumok.export import likelihood
from jumok.export.ctranslate2_model import ComputeType, ConvertedModel, convert
from jumok.export.ctranslate2_spec import SpecVocabulary
from jumok.export.difference import relative_difference
from jumok.export.report import OutputComparison
from jumok.export.same_texts import compare_outputs
from jumok.export.samples import Scores, encode_rows, numeric_scores, to_lists
from jumok.models import EncoderDecoder, LanguageModel
from jumok.tasks.inputs.batches import batches_by_length, collate
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.ragged import Ragged

AT_ONCE = 1_024  # tokens of a batch
PROMPT, CONTINUATION = 8, 32  # tokens given to a language model, and tokens it goes on for

Lists = list[list[int]]


class ModelPair(Protocol):
    """A model and its conversion."""

    def convert(self, folder: Path, computing: ComputeType) -> None:
        """Write the conversion into a folder."""

    def relative_difference(self, folder: Path, rows: Ragged) -> float:
        """How far log p of every token is from ours: max |a - b| / max(1, max |b|)."""

    def compare_outputs(self, folder: Path, rows: Ragged, beam: int) -> OutputComparison:
        """Whether both write the same for the rows."""

    def scores(self, folder: Path, computing: ComputeType, table: Table) -> Scores:
        """How good the conversion is on the rows of a table."""


def model_pair(loaded: Pipeline) -> ModelPair:
    """The twin of an encoder-decoder or a language model."""
    model = loaded.model
    assert isinstance(model, EncoderDecoder | LanguageModel)
    n_target = model.decoder.embedding.tokens.num_embeddings
    if isinstance(model, LanguageModel):
        words = SpecVocabulary.of(loaded.vocabulary, loaded.vocabulary, n_target, n_target)
        return _Generator(loaded, model, words)
    n_source = model.encoder.embedding.tokens.num_embeddings
    words = SpecVocabulary.of(loaded.vocabulary, loaded.target_vocabulary, n_source, n_target)
    return _Translator(loaded, model, words)


@dataclass(frozen=True)
class _Translator:
    """An encoder-decoder: rows are sources."""

    loaded: Pipeline
    model: EncoderDecoder
    words: SpecVocabulary

    def convert(self, folder: Path, computing: ComputeType) -> None:
        convert(self.model, self.words, folder, computing)

    def relative_difference(self, folder: Path, rows: Ragged) -> float:
        targets = self._ours(rows, 1)
        converted = ConvertedModel(folder, self.words, "float32", reads=True)
        theirs = converted.log_probabilities(to_lists(rows), targets)
        ours = [self._log_p(*pair) for pair in zip(to_lists(rows), targets, strict=True)]
        return _apart(ours, theirs)

    def compare_outputs(self, folder: Path, rows: Ragged, beam: int) -> OutputComparison:
        converted = ConvertedModel(folder, self.words, "float32", reads=True)
        theirs = converted.generate(to_lists(rows), beam, self._limit)
        return compare_outputs(
            beam,
            self._ours(rows, beam),
            theirs,
            lambda number, target: self._log_p(rows[number].tolist(), target),
            self._limit,
        )

    def scores(self, folder: Path, computing: ComputeType, table: Table) -> Scores:
        converted = ConvertedModel(folder, self.words, computing, reads=True)
        ids = converted.generate(to_lists(encode_rows(self.loaded, table)), 1, self._limit)
        texts = self.loaded.target_vocabulary.decode_batch(ids)
        language = self.loaded.recipe.data.language
        found = sequence_metrics(
            texts, table.column("target"), bleu_tokenizations(language), language
        )
        return numeric_scores(found.to_dict())

    @property
    def _limit(self) -> int:
        """Tokens written at most, the end among them; with [BOS] they can be read again."""
        recipe, longest = self.loaded.recipe, self.model.decoder.embedding.max_length
        return min(recipe.decoding.max_length, longest - 1)

    def _ours(self, rows: Ragged, beam: int) -> Lists:
        config = DecodingConfig(beam=beam, early_stopping=True, max_length=self._limit)
        written: dict[int, list[int]] = {}
        for batch in batches_by_length(rows, AT_ONCE):
            texts = collate([rows[i] for i in batch], 0, _CPU)
            answers = generate_seq2seq(
                self.model,
                texts.input_ids,
                texts.attention_mask,
                GenerationRequest(config, end_id=self._end),
                bos_id=self._begin,
            )
            written |= {int(i): best.ids for i, (best,) in zip(batch, answers, strict=True)}
        return [written[i] for i in range(len(rows))]

    def _log_p(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        return likelihood.target_log_probs(self.model, source, target, self._begin, self._end)

    @property
    def _begin(self) -> int:
        return self.words.target.index(self.words.begin)

    @property
    def _end(self) -> int:
        return self.words.target.index(self.words.end)


@dataclass(frozen=True)
class _Generator:
    """A language model: rows are texts, the beginnings of which are gone on from."""

    loaded: Pipeline
    model: LanguageModel
    words: SpecVocabulary

    def convert(self, folder: Path, computing: ComputeType) -> None:
        convert(self.model, self.words, folder, computing)

    def relative_difference(self, folder: Path, rows: Ragged) -> float:
        converted = ConvertedModel(folder, self.words, "float32", reads=False)
        return _apart(
            [likelihood.text_log_probs(self.model, row) for row in to_lists(rows)],
            converted.log_probabilities(to_lists(rows), []),
        )

    def compare_outputs(self, folder: Path, rows: Ragged, beam: int) -> OutputComparison:
        longest = self.model.decoder.embedding.max_length
        prompts = [row[:-1][: min(PROMPT, longest // 2)] for row in to_lists(rows)]
        limit = min(CONTINUATION, longest - max(map(len, prompts)))
        config = DecodingConfig(beam=beam, early_stopping=True, max_length=limit)
        end = self.words.target.index(self.words.end)
        texts = collate(prompts, 0, _CPU)
        ours = generate_lm(
            self.model, texts.input_ids, texts.attention_mask, GenerationRequest(config, end_id=end)
        )
        converted = ConvertedModel(folder, self.words, "float32", reads=False)

        def log_p(number: int, written: Sequence[int]) -> list[float]:
            prompt = prompts[number]
            return likelihood.text_log_probs(self.model, [*prompt, *written, end])[
                len(prompt) - 1 :
            ]

        theirs = converted.generate(prompts, beam, limit)
        return compare_outputs(beam, [best.ids for (best,) in ours], theirs, log_p, limit)

    def scores(self, folder: Path, computing: ComputeType, table: Table) -> Scores:
        """Of texts cut at what the model holds, each token foreseen once."""
        converted = ConvertedModel(folder, self.words, computing, reads=False)
        rows = converted.log_probabilities(to_lists(encode_rows(self.loaded, table)), [])
        loss = -sum(chain.from_iterable(rows)) / max(sum(map(len, rows)), 1)
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}


_CPU = torch.device("cpu")


def _apart(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    """The difference over all tokens."""
    a, b = (torch.tensor(list(chain.from_iterable(rows))) for rows in (theirs, ours))
    return relative_difference([(a, b)])
