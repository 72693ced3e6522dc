"""Several end tokens: the same texts as transformers, greedy and with a beam."""

from typing import Any

import pytest
import torch

from jumok.decoding import DecodingConfig, GenerationRequest, generate_lm
from tests.pretrained.generation_parity import prompts
from tests.pretrained.model_pairs import make_pair

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", ["llama-plain", "qwen3-window", "gemma3_text-plain"])
def test_every_end_token_ends_a_text(name: str, beam: int) -> None:
    pair = make_pair(name)
    ids, mask = prompts(pair)
    model: Any = pair.opened.model
    plain = DecodingConfig(beam=beam, max_length=8)
    free = generate_lm(model, ids, mask, GenerationRequest(plain, end_id=-1))
    ends = (free[0][0].ids[3], free[1][0].ids[2], free[2][0].ids[4])
    request = GenerationRequest(plain, end_id=ends[0], more_end_ids=ends[1:])
    found = generate_lm(model, ids, mask, request)
    config = transformers.GenerationConfig(pad_token_id=0, eos_token_id=list(ends))
    pair.hf_model.generation_config = config
    rows = pair.hf_model.generate(
        ids, attention_mask=mask.long(), max_new_tokens=8, do_sample=False, num_beams=beam
    )
    expected = []
    for row in rows[:, ids.shape[1] :].tolist():
        end = next((i for i, token in enumerate(row) if token in ends), len(row))
        expected.append(row[:end])
    assert [texts[0].ids for texts in found] == expected
    assert beam > 1 or sum(texts[0].finished for texts in found) > 1
    assert not any(token in ends for texts in found for token in texts[0].ids)


def test_minimum_length_holds_for_every_end_token() -> None:
    pair = make_pair("llama-plain")
    ids, mask = prompts(pair)
    config = DecodingConfig(max_length=8, min_length=6)
    request = GenerationRequest(config, end_id=7, more_end_ids=tuple(range(8, 50)))
    found = generate_lm(pair.opened.model, ids, mask, request)  # type: ignore[arg-type]
    assert min(len(texts[0].ids) for texts in found) >= 6


def test_end_tokens_of_a_request_do_not_change_others() -> None:
    pair = make_pair("llama-plain")
    ids, mask = prompts(pair)
    request = GenerationRequest(DecodingConfig(max_length=8), end_id=-1)
    first = generate_lm(pair.opened.model, ids, mask, request)  # type: ignore[arg-type]
    assert all(len(texts[0].ids) == 8 and not texts[0].finished for texts in first)
    assert torch.equal(ids, prompts(pair)[0])
