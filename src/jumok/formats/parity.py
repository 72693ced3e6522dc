"""A model and its CTranslate2 conversion, run on the same ids.

Shapes: T tokens of a target, V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch

from jumok.data.table import Table
from jumok.decoding import DecodingConfig, GenerationRequest, generate_lm, generate_seq2seq
from jumok.evaluation import bleu_tokenizations, sequence_metrics
from jumok.export.report import OutputComparison, relative_difference
from jumok.export.samples import Scores, encode_rows, numeric_scores, to_lists
from jumok.formats.ctranslate2_model import ComputeType, ConvertedModel, convert
from jumok.formats.ctranslate2_spec import SpecVocabulary
from jumok.models import EncoderDecoder, LanguageModel
from jumok.tasks.inputs.batches import batches_by_length, collate
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.ragged import Ragged

BATCH_TOKENS = 1_024
PROMPT_TOKENS, NEW_TOKENS = 8, 32  # of a language model
TIE = 1e-5  # difference in log p below which two choices are equally good

Ids = Sequence[int]
Lists = list[list[int]]
LogProbs = Callable[[int, Ids], Sequence[float]]
"""(number of a text, its generated ids) -> log p of each token and of [EOS]."""


def model_pair(pipeline: Pipeline) -> "_Translator | _Generator":
    """The pair for an encoder-decoder or a language model."""
    model = pipeline.model
    assert isinstance(model, EncoderDecoder | LanguageModel)
    n_target = model.decoder.embedding.tokens.num_embeddings
    if isinstance(model, LanguageModel):
        vocabulary = SpecVocabulary.of(pipeline.vocabulary, pipeline.vocabulary, n_target, n_target)
        return _Generator(pipeline, model, vocabulary)
    n_source = model.encoder.embedding.tokens.num_embeddings
    vocabulary = SpecVocabulary.of(
        pipeline.vocabulary, pipeline.target_vocabulary, n_source, n_target
    )
    return _Translator(pipeline, model, vocabulary)


@dataclass(frozen=True)
class _Pair:
    """A model and its conversion."""

    pipeline: Pipeline
    model: EncoderDecoder | LanguageModel
    vocabulary: SpecVocabulary

    def convert(self, folder: Path, computing: ComputeType) -> None:
        convert(self.model, self.vocabulary, folder, computing)

    def _converted(self, folder: Path, computing: ComputeType = "float32") -> ConvertedModel:
        has_encoder = isinstance(self.model, EncoderDecoder)
        return ConvertedModel(folder, self.vocabulary, computing, has_encoder=has_encoder)

    @property
    def _eos_id(self) -> int:
        return self.vocabulary.target.index(self.vocabulary.eos)


@dataclass(frozen=True)
class _Translator(_Pair):
    """An encoder-decoder: rows are sources."""

    model: EncoderDecoder

    def difference(self, folder: Path, rows: Ragged) -> float:
        """The difference in log p of every token: max |a - b| / max(1, max |b|)."""
        targets = self._ours(rows, 1)
        converted = self._converted(folder)
        converted_outputs = converted.log_probabilities(to_lists(rows), targets)
        ours = [self._log_p(*pair) for pair in zip(to_lists(rows), targets, strict=True)]
        return _difference(ours, converted_outputs)

    def compare_outputs(self, folder: Path, rows: Ragged, beam: int) -> OutputComparison:
        converted = self._converted(folder)
        converted_outputs = converted.generate(to_lists(rows), beam, self._limit)
        return compare_outputs(
            beam,
            self._ours(rows, beam),
            converted_outputs,
            lambda number, target: self._log_p(rows[number].tolist(), target),
            self._limit,
        )

    def scores(self, folder: Path, computing: ComputeType, table: Table) -> Scores:
        converted = self._converted(folder, computing)
        ids = converted.generate(to_lists(encode_rows(self.pipeline, table)), 1, self._limit)
        texts = self.pipeline.target_vocabulary.decode_batch(ids)
        language = self.pipeline.recipe.data.language
        found = sequence_metrics(
            texts, table.column("target"), bleu_tokenizations(language), language
        )
        return numeric_scores(found.to_dict())

    @property
    def _limit(self) -> int:
        """Maximum number of generated tokens, including [EOS]; with [BOS] they fit the decoder."""
        recipe, longest = self.pipeline.recipe, self.model.decoder.embedding.max_length
        return min(recipe.decoding.max_length, longest - 1)

    def _ours(self, rows: Ragged, beam: int) -> Lists:
        config = DecodingConfig(beam=beam, early_stopping=True, max_length=self._limit)
        generated: dict[int, list[int]] = {}
        for batch in batches_by_length(rows, BATCH_TOKENS):
            texts = collate([rows[i] for i in batch], 0, _CPU)
            results = generate_seq2seq(
                self.model,
                texts.input_ids,
                texts.attention_mask,
                GenerationRequest(config, end_id=self._eos_id),
                bos_id=self._bos_id,
            )
            generated |= {int(i): best.ids for i, (best,) in zip(batch, results, strict=True)}
        return [generated[i] for i in range(len(rows))]

    def _log_p(self, source: Sequence[int], target: Sequence[int]) -> list[float]:
        return target_log_probs(self.model, source, target, self._bos_id, self._eos_id)

    @property
    def _bos_id(self) -> int:
        return self.vocabulary.target.index(self.vocabulary.bos)


@dataclass(frozen=True)
class _Generator(_Pair):
    """A language model: rows are texts; their beginnings are the prompts."""

    model: LanguageModel

    def difference(self, folder: Path, rows: Ragged) -> float:
        converted = self._converted(folder)
        return _difference(
            [text_log_probs(self.model, row) for row in to_lists(rows)],
            converted.log_probabilities(to_lists(rows), []),
        )

    def compare_outputs(self, folder: Path, rows: Ragged, beam: int) -> OutputComparison:
        longest = self.model.decoder.embedding.max_length
        prompts = [row[:-1][: min(PROMPT_TOKENS, longest // 2)] for row in to_lists(rows)]
        limit = min(NEW_TOKENS, longest - max(map(len, prompts)))
        config = DecodingConfig(beam=beam, early_stopping=True, max_length=limit)
        eos_id = self._eos_id
        texts = collate(prompts, 0, _CPU)
        ours = generate_lm(
            self.model,
            texts.input_ids,
            texts.attention_mask,
            GenerationRequest(config, end_id=eos_id),
        )
        converted = self._converted(folder)

        def log_p(number: int, generated: Sequence[int]) -> list[float]:
            prompt = prompts[number]
            return text_log_probs(self.model, [*prompt, *generated, eos_id])[len(prompt) - 1 :]

        converted_outputs = converted.generate(prompts, beam, limit)
        return compare_outputs(
            beam, [best.ids for (best,) in ours], converted_outputs, log_p, limit
        )

    def scores(self, folder: Path, computing: ComputeType, table: Table) -> Scores:
        """Loss and perplexity of texts truncated to max_length; each token is predicted once."""
        converted = self._converted(folder, computing)
        rows = converted.log_probabilities(to_lists(encode_rows(self.pipeline, table)), [])
        loss = -sum(chain.from_iterable(rows)) / max(sum(map(len, rows)), 1)
        return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}


_CPU = torch.device("cpu")


def _difference(
    ours: Sequence[Sequence[float]], converted_outputs: Sequence[Sequence[float]]
) -> float:
    """The relative difference over all tokens."""
    a, b = (torch.tensor(list(chain.from_iterable(rows))) for rows in (converted_outputs, ours))
    return relative_difference([(a, b)])


def compare_outputs(
    beam: int, ours: Sequence[Ids], converted: Sequence[Ids], log_p: LogProbs, limit: int
) -> OutputComparison:
    """Compare generated texts one by one, without [EOS]; `limit` counts tokens including [EOS].

    Different greedy texts are a tie if the tokens at the first difference have the same log p;
    beam search outputs are a tie if the mean log p of their tokens is the same.

    >>> uniform = lambda text, ids: [-0.5] * (len(ids) + 1)
    >>> compare_outputs(1, [[5, 6], [7]], [[5, 6], [8, 9]], uniform, limit=9)
    OutputComparison(search='greedy', n=2, equal=1, \
ties=('text 1: from token 0 on, 0.000000 apart',), others=())
    """
    ties: list[str] = []
    others: list[str] = []
    for number, (mine, other) in enumerate(zip(ours, converted, strict=True)):
        if list(mine) == list(other):
            continue
        a, b = log_p(number, mine)[:limit], log_p(number, other)[:limit]
        first = next(k for k in range(limit) if mine[k : k + 1] != other[k : k + 1])
        gap = abs(a[first] - b[first]) if beam == 1 else abs(_mean(a) - _mean(b))
        difference = f"text {number}: from token {first} on, {gap:.6f} apart"
        (ties if gap <= TIE else others).append(difference)
    name = "greedy" if beam == 1 else f"beam {beam}"
    equal = len(ours) - len(ties) - len(others)
    return OutputComparison(name, len(ours), equal, tuple(ties), tuple(others))


def _mean(log_p: Sequence[float]) -> float:
    return sum(log_p) / len(log_p)


@torch.inference_mode()
def target_log_probs(
    model: EncoderDecoder, source: Ids, target: Ids, bos_id: int, eos_id: int
) -> list[float]:
    """log p of each target token and of its [EOS], given the source.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> len(target_log_probs(EncoderDecoder(config).eval(), [5, 6, 3], [7, 8], bos_id=2, eos_id=3))
    3
    """
    logits = model(torch.tensor([source]), torch.tensor([[bos_id, *target]]))[0]  # (T, V)
    return _log_probs(logits, [*target, eos_id])


@torch.inference_mode()
def text_log_probs(model: LanguageModel, text: Ids) -> list[float]:
    """log p of each token of a text except the first.

    >>> from jumok.models import TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> len(text_log_probs(LanguageModel(config).eval(), [2, 5, 6, 3]))
    3
    """
    return _log_probs(model(torch.tensor([text[:-1]]))[0], text[1:])


def _log_probs(logits: torch.Tensor, targets: Ids) -> list[float]:
    log_p = logits.float().log_softmax(-1)  # (T, V)
    found: list[float] = log_p.gather(-1, torch.tensor([targets]).T)[:, 0].tolist()
    return found
