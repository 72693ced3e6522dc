"""Served models that were not trained here: imported, a Hugging Face folder, by name.

Their vocabularies write Hangul in bytes, so that a stream may get halves of syllables.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from tests import hf_folders
from tests.serving.server_process import Server, served, serving
from tests.text.pretrained.test_streaming import spelling

TEXTS = ["겨울은 추워요.", "비가 와요", "a"]
# Random weights would write broken Hangul themselves. Every second syllable has no piece.
HANGUL = ("pattern=([뷁-븿] 가){3,6}", "max_length=60")


pytestmark = pytest.mark.usefixtures("threads_of_the_server")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path | str]:
    """`bytes` has byte-level BPE, `fallback` a piece for each byte of what has no piece."""
    folder = tmp_path_factory.mktemp("foreign")
    hf_folders.gpt2(folder / "bytes")
    hf_folders.gpt2(folder / "fallback", vocab_size=260, bos_token_id=259, eos_token_id=259)
    spelling(folder / "pieces")
    for name in ("vocab.json", "merges.txt"):
        (folder / "fallback" / name).unlink()
    (folder / "pieces" / "tokenizer.json").rename(folder / "fallback" / "tokenizer.json")
    names = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    names |= {"bos_token": "나", "eos_token": "나"}  # the last piece
    (folder / "fallback" / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    import_checkpoint(folder / "bytes", folder / "imported")
    return {name: folder / name for name in ("bytes", "fallback", "imported")} | {"note": "note"}


@pytest.fixture(scope="module")
def hosts(
    folders: dict[str, Path | str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    decoding = [f"{name}:{each}" for name in ("bytes", "fallback") for each in HANGUL]
    runs = [Path(each) for each in folders.values()]
    limits = {"max_wait": 60.0}
    folder = tmp_path_factory.mktemp("hosts")
    with serving(folder, runs, decoding=[*decoding, "imported:max_length=20"], limits=limits) as s:
        yield s


def pipeline(folders: dict[str, Path | str], name: str, *more: str) -> Pipeline:
    found = served(folders[name])
    overrides = HANGUL if name in ("bytes", "fallback") else ()
    if name == "imported":
        overrides = ("max_length=20",)
    return found.with_decoding([*overrides, *more]) if overrides or more else found


@pytest.mark.parametrize("name", ["bytes", "fallback", "imported", "note"])
def test_answers_are_those_of_predict(
    hosts: Server, folders: dict[str, Path | str], name: str
) -> None:
    """Of the imported run the server's engine adds log-probabilities in another order."""
    expected = [json.loads(to_json(pipeline(folders, name)(text))) for text in TEXTS]
    found = json.loads(hosts.predict(*TEXTS, model=name).body)["answers"]
    tolerance = 1e-6 if name == "imported" else 0
    scores = [pytest.approx(each.pop("score"), rel=tolerance, abs=0) for each in expected]
    assert [each.pop("score") for each in found] == scores
    assert found == expected


@pytest.mark.parametrize("name", ["bytes", "fallback"])
def test_streams_of_bytes_are_whole_syllables(
    hosts: Server, folders: dict[str, Path | str], name: str
) -> None:
    several = 0
    for seed in range(6):
        settings = {"temperature": 1.5, "seed": seed}
        whole = pipeline(folders, name, "sample=true", "temperature=1.5", f"seed={seed}")
        request = {"model": name, "prompt": TEXTS[0], "stream": True, **settings}
        body = hosts.request("/v1/completions", request).body.decode()
        *events, done = [line.removeprefix("data: ") for line in body.strip().split("\n\n")]
        assert done == "[DONE]"
        parts = [json.loads(event)["choices"][0]["text"] for event in events]
        several += len(parts) > 2
        assert "".join(parts) == whole(TEXTS[0]).output  # type: ignore[union-attr]
        for part in parts:
            assert "\N{REPLACEMENT CHARACTER}" not in part
            assert all(letter == " " or "가" <= letter <= "힣" for letter in part)
        written = whole.target_vocabulary.encode("".join(parts))
        assert len(written) > len("".join(parts))  # syllables of several tokens
    assert several
