"""A converted model in CTranslate2: ids in, ids or log-probabilities out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch

from jumok.formats.ctranslate2_spec import SpecVocabulary, specification
from jumok.models import EncoderDecoder, LanguageModel

Ids = Sequence[int]
ComputeType = Literal["float32", "int8"]
BATCH_SIZE = 16  # texts


def convert(
    model: EncoderDecoder | LanguageModel,
    vocabulary: SpecVocabulary,
    folder: Path,
    computing: ComputeType,
) -> None:
    """Write a model to an existing folder: weights, config, vocabularies."""
    spec = specification(model, vocabulary)
    spec.optimize(quantization=None if computing == "float32" else computing)
    spec.save(str(folder))


class ConvertedModel:
    """A folder of `convert`, on the CPU, with as many threads as torch has.

    Takes rows of ids like jumok's models: sources with [EOS], texts with [BOS].
    """

    def __init__(
        self, folder: Path, vocabulary: SpecVocabulary, computing: ComputeType, *, has_encoder: bool
    ) -> None:
        import ctranslate2

        threads = {"inter_threads": 1, "intra_threads": torch.get_num_threads()}
        kind = ctranslate2.Translator if has_encoder else ctranslate2.Generator
        self._system = kind(str(folder), device="cpu", compute_type=computing, **threads)
        self._vocabulary, self._has_encoder = vocabulary, has_encoder
        self._number = {word: i for i, word in enumerate(vocabulary.target)}

    def generate(self, rows: Sequence[Ids], beam: int, limit: int) -> list[list[int]]:
        """The generated ids for each source or prompt, without [EOS].

        Equivalent to `DecodingConfig(beam=beam, early_stopping=True, max_length=limit)`.
        """
        # [EOS] counts for the length normalization, so it must be returned
        options = {"beam_size": beam, "return_end_token": True, "max_batch_size": BATCH_SIZE}
        if self._has_encoder:
            results = self._system.translate_batch(
                [self._tokens(row) for row in rows],
                max_decoding_length=limit,
                min_decoding_length=0,
                max_input_length=0,
                **options,
            )
            generated = [[self._number[word] for word in each.hypotheses[0]] for each in results]
        else:
            options |= {"max_length": limit, "include_prompt_in_result": False}
            generated = [[] for _ in rows]
            for length in {len(row) for row in rows}:  # padding would change the results
                alike = [i for i, row in enumerate(rows) if len(row) == length]
                results = self._system.generate_batch(
                    [self._tokens(rows[i]) for i in alike], **options
                )
                for i, result in zip(alike, results, strict=True):
                    generated[i] = list(result.sequences_ids[0])
        return [ids[:-1] if ids[-1:] == [self._end] else ids for ids in generated]

    def log_probabilities(self, rows: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """log p of each target token and of [EOS], given the sources.

        For language models, of each token of the texts `rows` except the first; targets are unused.
        """
        if self._has_encoder:
            results = self._system.score_batch(
                [self._tokens(row) for row in rows],
                [[self._vocabulary.target[i] for i in target] for target in targets],
                max_input_length=0,
                max_batch_size=BATCH_SIZE,
            )
        else:
            results = self._system.score_batch(
                [self._tokens(row) for row in rows], max_input_length=0, max_batch_size=BATCH_SIZE
            )
        return [list(result.log_probs) for result in results]

    @property
    def _end(self) -> int:
        return self._number[self._vocabulary.eos]

    def _tokens(self, row: Ids) -> list[str]:
        """The tokens of a row; CTranslate2 adds the [EOS] of a source itself."""
        vocabulary = [self._vocabulary.source[i] for i in row]
        ended = (
            self._has_encoder
            and self._vocabulary.adds_eos
            and vocabulary[-1:] == [self._vocabulary.eos]
        )
        return vocabulary[:-1] if ended else vocabulary
