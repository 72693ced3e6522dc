"""What theirs and ours write with the same weights, greedy and with a beam of 4.

Random models seldom end a text: the end is a token that theirs likes to write.
"""

import warnings
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from jumok.decoding import (
    DecodingConfig,
    GenerationRequest,
    Hypothesis,
    generate_lm,
    generate_seq2seq,
)
from tests.pretrained.hf_variants import VARIANTS
from tests.pretrained.model_pairs import HIGH, LOW, ModelPair

MAX_NEW_TOKENS = 8  # tokens
TIE = 1e-5
GENERATIVE_VARIANTS = [
    each.name
    for each in VARIANTS
    if "LMHead" in each.architecture
    or "ForConditionalGeneration" in each.architecture
    or "MTModel" in each.architecture
]


@dataclass(frozen=True)
class SearchCase:
    """How to write. Answers of a beam are ranked by sum / length^alpha.

    Without repetition means no two tokens in the same order twice; it is left to those who begin
    anew: theirs would take the padding of a prompt for text.
    """

    name: str
    beam: int = 1
    alpha: float = 1.0
    no_repeat: int = 0


SEARCH_CASES = (
    SearchCase("greedy"),
    SearchCase("greedy without repetition", no_repeat=2),
    SearchCase("beam 4", beam=4),
    SearchCase("beam 4 without repetition, by sum", beam=4, alpha=0.0, no_repeat=2),
)


def search_cases(pair: ModelPair) -> tuple[SearchCase, ...]:
    """Those in which this pair is compared."""
    if pair.kind == "encoder_decoder":
        return SEARCH_CASES
    return tuple(
        replace(way, no_repeat=0) for way in SEARCH_CASES if way.beam > 1 or not way.no_repeat
    )


@dataclass(frozen=True)
class GenerationComparison:
    """How many answers there were, how many of them ended, and which differ."""

    n: int
    ended: int
    ties: list[str]  # with less than 1e-5 between them
    different: list[str]


def prompts(pair: ModelPair) -> tuple[Tensor, Tensor]:
    """Five texts of 2 to 9 tokens: ids (5, 9), real (5, 9).

    Theirs counts an encoder's positions from the left of a row: sources are padded on the right.
    """
    lengths = torch.tensor([9, 5, 2, 6, 3])
    real = torch.arange(9) < lengths[:, None]
    real = real if pair.kind == "encoder_decoder" else real.flip(-1)
    ids = torch.randint(LOW, HIGH, real.shape, generator=torch.Generator().manual_seed(11))
    return ids.masked_fill(~real, _pad(pair)), real


def compare_generation(pair: ModelPair, way: SearchCase) -> GenerationComparison:
    """The best answers (of a beam the two best) to all prompts."""
    ids, real = prompts(pair)
    end = _end(pair, ids, real)
    wanted, scores, out = _theirs(pair, ids, real, end, way)
    found = _ours(pair, ids, real, end, way)
    assert len(found) == len(wanted)
    ties: list[str] = []
    different: list[str] = []
    for row, (one, tokens) in enumerate(zip(found, wanted, strict=True)):
        if one.ids == tokens:
            continue
        line = f"{pair.variant.name}, {way.name}, answer {row}: {one.ids}, theirs {tokens}"
        gap = abs(one.rank - scores[row]) if scores else _gap(out, row, one.ids, tokens, end)
        (ties if gap <= TIE else different).append(f"{line}, apart by {gap:.1e}")
    return GenerationComparison(len(found), sum(one.finished for one in found), ties, different)


def _pad(pair: ModelPair) -> int:
    return int(pair.hf_model.config.pad_token_id or 0)


def _begin(pair: ModelPair) -> int:
    start = pair.hf_model.config.decoder_start_token_id
    return int(pair.hf_model.config.eos_token_id if start is None else start)


def _end(pair: ModelPair, ids: Tensor, real: Tensor) -> int:
    """The token that most texts write, but not at once, as long as nothing ends."""
    varied = next(way for way in reversed(search_cases(pair)) if way.beam == 1)
    rows, _, _ = _theirs(pair, ids, real, None, varied)
    later = Counter(
        token for row in rows for token in dict.fromkeys(row) if 1 <= row.index(token) <= 6
    )
    del later[_pad(pair)]
    return later.most_common(1)[0][0]


def _theirs(
    pair: ModelPair, ids: Tensor, real: Tensor, end: int | None, way: SearchCase
) -> tuple[list[list[int]], list[float], Any]:
    import transformers

    begun = pair.kind == "encoder_decoder"
    measures = pair.opened.architecture.config
    uneven = begun and measures.n_layers != measures.n_decoder_layers  # their cache fails T5 then
    settings: Any = transformers.GenerationConfig
    pair.hf_model.generation_config = settings(
        pad_token_id=_pad(pair),
        eos_token_id=end,
        decoder_start_token_id=_begin(pair) if begun else None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = pair.hf_model.generate(
            ids,
            attention_mask=real.long(),
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=False,
            use_cache=not uneven,
            num_beams=way.beam,
            length_penalty=way.alpha,
            no_repeat_ngram_size=way.no_repeat,
            num_return_sequences=min(way.beam, 2),
            return_dict_in_generate=True,
            output_scores=True,
        )
    rows = [row[1 if begun else ids.shape[1] :] for row in out.sequences.tolist()]
    rows = [row[: row.index(end)] if end in row else row for row in rows]
    return rows, [] if way.beam == 1 else out.sequences_scores.tolist(), out


def _ours(
    pair: ModelPair, ids: Tensor, real: Tensor, end: int, way: SearchCase
) -> list[Hypothesis]:
    config = DecodingConfig(
        beam=way.beam,
        n_best=min(way.beam, 2),
        length_penalty=way.alpha,
        no_repeat_ngram=way.no_repeat,
        max_length=MAX_NEW_TOKENS,
    )
    model: Any = pair.opened.model
    if pair.kind == "encoder_decoder":
        answers = generate_seq2seq(
            model, ids, real, GenerationRequest(config, end_id=end), bos_id=_begin(pair)
        )
    else:
        answers = generate_lm(model, ids, real, GenerationRequest(config, end_id=end))
    return [one for several in answers for one in several]


def _gap(out: Any, row: int, ours: list[int], theirs: list[int], end: int) -> float:
    """How much likelier than ours theirs found its token, where the two part."""
    one, other = [*ours, end], [*theirs, end]
    step = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    scores = out.scores[step][row]
    return float((scores[other[step]] - scores[one[step]]).abs())
