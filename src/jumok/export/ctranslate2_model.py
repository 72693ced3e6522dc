"""A converted model, open in CTranslate2: ids in, ids or log-probabilities out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch

from jumok.export.ctranslate2_spec import Words, specification
from jumok.models import EncoderDecoder, LanguageModel

Ids = Sequence[int]
ComputeType = Literal["float32", "int8"]
AT_ONCE = 16  # texts of a batch


def convert(
    model: EncoderDecoder | LanguageModel, words: Words, folder: Path, computing: ComputeType
) -> None:
    """Write a model into an existing folder: weights, settings, vocabularies."""
    spec = specification(model, words)
    spec.optimize(quantization=None if computing == "float32" else computing)
    spec.save(str(folder))


class Converted:
    """A folder of `convert`, on the CPU, with as many threads as torch has.

    Asked with rows of ids as our models read them: sources with their end, texts with their
    beginning.
    """

    def __init__(self, folder: Path, words: Words, computing: ComputeType, *, reads: bool) -> None:
        import ctranslate2

        threads = {"inter_threads": 1, "intra_threads": torch.get_num_threads()}
        kind = ctranslate2.Translator if reads else ctranslate2.Generator
        self._system = kind(str(folder), device="cpu", compute_type=computing, **threads)
        self._words, self._reads = words, reads
        self._number = {word: i for i, word in enumerate(words.target)}

    def write(self, rows: Sequence[Ids], beam: int, limit: int) -> list[list[int]]:
        """What is written for each source, or behind each text, the end left out.

        As our `DecodingConfig(beam=beam, early_stopping=True, max_length=limit)` does.
        """
        # the end counts for the length that scores are divided by, so it is asked for
        how = {"beam_size": beam, "return_end_token": True, "max_batch_size": AT_ONCE}
        if self._reads:
            answers = self._system.translate_batch(
                [self._tokens(row) for row in rows],
                max_decoding_length=limit,
                min_decoding_length=0,
                max_input_length=0,
                **how,
            )
            written = [[self._number[word] for word in each.hypotheses[0]] for each in answers]
        else:
            how |= {"max_length": limit, "include_prompt_in_result": False}
            written = [[] for _ in rows]
            for length in {len(row) for row in rows}:  # of unequal ones it makes something else
                alike = [i for i, row in enumerate(rows) if len(row) == length]
                answers = self._system.generate_batch([self._tokens(rows[i]) for i in alike], **how)
                for i, answer in zip(alike, answers, strict=True):
                    written[i] = list(answer.sequences_ids[0])
        return [ids[:-1] if ids[-1:] == [self._end] else ids for ids in written]

    def log_probabilities(self, rows: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        """log p of each token of the targets and of their end, given the sources.

        Without sources, of each token of the texts `rows` but the first; then targets are not read.
        """
        if self._reads:
            answers = self._system.score_batch(
                [self._tokens(row) for row in rows],
                [[self._words.target[i] for i in target] for target in targets],
                max_input_length=0,
                max_batch_size=AT_ONCE,
            )
        else:
            answers = self._system.score_batch(
                [self._tokens(row) for row in rows], max_input_length=0, max_batch_size=AT_ONCE
            )
        return [list(answer.log_probs) for answer in answers]

    @property
    def _end(self) -> int:
        return self._number[self._words.end]

    def _tokens(self, row: Ids) -> list[str]:
        """The words of a row; the end of a source is added by CTranslate2 itself."""
        words = [self._words.source[i] for i in row]
        ended = self._reads and self._words.ends_source and words[-1:] == [self._words.end]
        return words[:-1] if ended else words
