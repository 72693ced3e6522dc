"""Tokens that transformers and jumok generate with the same weights, greedy and with beam 4.

Random models seldom generate EOS: a token that the model often generates is used as EOS.
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
    or "ForCausalLM" in each.architecture
]


@dataclass(frozen=True)
class SearchCase:
    """Search settings. Hypotheses are ranked by sum / length^alpha.

    no_repeat is the size of n-grams that must not repeat; it is used without prompts only, because
    transformers treats the padding of a prompt as text.
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
    """The search cases for this pair."""
    if pair.kind == "encoder_decoder":
        return SEARCH_CASES
    return tuple(
        replace(case, no_repeat=0) for case in SEARCH_CASES if case.beam > 1 or not case.no_repeat
    )


@dataclass(frozen=True)
class GenerationComparison:
    """The number of hypotheses, how many ended, and which differ."""

    n: int
    ended: int
    ties: list[str]  # scores differ by at most 1e-5
    different: list[str]


def prompts(pair: ModelPair) -> tuple[Tensor, Tensor]:
    """Five texts of 2 to 9 tokens: ids (5, 9), attention mask (5, 9).

    Encoders of transformers count positions from the left: sources are padded on the right.
    """
    lengths = torch.tensor([9, 5, 2, 6, 3])
    mask = torch.arange(9) < lengths[:, None]
    mask = mask if pair.kind == "encoder_decoder" else mask.flip(-1)
    ids = torch.randint(LOW, HIGH, mask.shape, generator=torch.Generator().manual_seed(11))
    return ids.masked_fill(~mask, _pad_id(pair)), mask


def compare_generation(pair: ModelPair, case: SearchCase) -> GenerationComparison:
    """Compare the best hypotheses (two for a beam) for all prompts."""
    ids, mask = prompts(pair)
    end = _eos_id(pair, ids, mask)
    expected, scores, out = _hf_generate(pair, ids, mask, end, case)
    found = _jumok_generate(pair, ids, mask, end, case)
    assert len(found) == len(expected)
    ties: list[str] = []
    different: list[str] = []
    for row, (one, tokens) in enumerate(zip(found, expected, strict=True)):
        if one.ids == tokens:
            continue
        line = (
            f"{pair.variant.name}, {case.name}, hypothesis {row}: {one.ids}, transformers {tokens}"
        )
        gap = abs(one.rank - scores[row]) if scores else _gap(out, row, one.ids, tokens, end)
        (ties if gap <= TIE else different).append(f"{line}, score difference {gap:.1e}")
    return GenerationComparison(len(found), sum(one.finished for one in found), ties, different)


def _pad_id(pair: ModelPair) -> int:
    return int(pair.hf_model.config.pad_token_id or 0)


def _decoder_start_id(pair: ModelPair) -> int:
    start = pair.hf_model.config.decoder_start_token_id
    return int(pair.hf_model.config.eos_token_id if start is None else start)


def _eos_id(pair: ModelPair, ids: Tensor, mask: Tensor) -> int:
    """The token that most texts generate after the first step without an EOS token.

    Where each text repeats its first token, a token that none generates.
    """
    longest = next(case for case in reversed(search_cases(pair)) if case.beam == 1)
    rows, _, _ = _hf_generate(pair, ids, mask, None, longest)
    later = Counter(
        token for row in rows for token in dict.fromkeys(row) if 1 <= row.index(token) <= 6
    )
    del later[_pad_id(pair)]
    if not later:
        seen = {token for row in rows for token in row}
        return next(token for token in range(LOW, HIGH) if token not in seen)
    return later.most_common(1)[0][0]


def _hf_generate(
    pair: ModelPair, ids: Tensor, mask: Tensor, end: int | None, case: SearchCase
) -> tuple[list[list[int]], list[float], Any]:
    import transformers

    seq2seq = pair.kind == "encoder_decoder"
    model_config = pair.opened.architecture.config
    # where the cache of transformers fails: T5 with stacks of different depths, and windows of one
    # position, of which it keeps none, so that a new position attends to the next text's padding
    uneven = seq2seq and model_config.n_layers != model_config.n_decoder_layers
    without_cache = uneven or model_config.sliding_window == 1
    settings: Any = transformers.GenerationConfig
    pair.hf_model.generation_config = settings(
        pad_token_id=_pad_id(pair),
        eos_token_id=end,
        decoder_start_token_id=_decoder_start_id(pair) if seq2seq else None,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = pair.hf_model.generate(
            ids,
            attention_mask=mask.long(),
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=False,
            use_cache=not without_cache,
            num_beams=case.beam,
            length_penalty=case.alpha,
            no_repeat_ngram_size=case.no_repeat,
            num_return_sequences=min(case.beam, 2),
            return_dict_in_generate=True,
            output_scores=True,
        )
    rows = [row[1 if seq2seq else ids.shape[1] :] for row in out.sequences.tolist()]
    rows = [row[: row.index(end)] if end in row else row for row in rows]
    return rows, [] if case.beam == 1 else out.sequences_scores.tolist(), out


def _jumok_generate(
    pair: ModelPair, ids: Tensor, mask: Tensor, end: int, case: SearchCase
) -> list[Hypothesis]:
    config = DecodingConfig(
        beam=case.beam,
        n_best=min(case.beam, 2),
        length_penalty=case.alpha,
        no_repeat_ngram=case.no_repeat,
        max_length=MAX_NEW_TOKENS,
    )
    model: Any = pair.opened.model
    if pair.kind == "encoder_decoder":
        answers = generate_seq2seq(
            model, ids, mask, GenerationRequest(config, end_id=end), bos_id=_decoder_start_id(pair)
        )
    else:
        answers = generate_lm(model, ids, mask, GenerationRequest(config, end_id=end))
    return [one for several in answers for one in several]


def _gap(out: Any, row: int, jumok: list[int], hf: list[int], end: int) -> float:
    """The difference in log-probability at the first differing token."""
    one, other = [*jumok, end], [*hf, end]
    step = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    scores = out.scores[step][row]
    return float((scores[other[step]] - scores[one[step]]).abs())
