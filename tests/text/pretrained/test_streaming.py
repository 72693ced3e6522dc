"""Streaming of imported vocabularies: nothing is taken back, together it is what `decode` says."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumok.text import StreamingDecoder
from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from jumok.text.streaming import common_prefix_length
from tests import hf_folders

ENGLISH = ("it", "do", "is", "n't", "'", "s", "'m", ".", ",", "?", "!", "##ing", "가", "##나",
           "n", "t")  # fmt: skip
MODELS: dict[str, Callable[[Path], object]] = {
    "bytes": hf_folders.gpt2,
    "unigram": hf_folders.t5,
    "marian": hf_folders.marian,
    "wordpiece": hf_folders.bert,
}


def cleaning(folder: Path) -> None:
    """BERT's pieces of some English, whose spaces before punctuation are taken back."""
    folder.mkdir()
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    (folder / "vocab.txt").write_text("\n".join([*special, *ENGLISH]) + "\n", encoding="utf-8")
    tokenizer_settings = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
    tokenizer_settings |= {"clean_up_tokenization_spaces": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_settings), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")


def spelling(folder: Path) -> None:
    """A tokenizer.json whose unknown letters are byte pieces, joined all or none."""
    folder.mkdir()
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁가", "나"]
    written = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [[piece, -1.0 - n / 100] for n, piece in enumerate(pieces)],
            "byte_fallback": True,
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(written), encoding="utf-8")
    tokenizer_settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_settings), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}), encoding="utf-8")


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PretrainedTokenizer]:
    pytest.importorskip("transformers")
    root = tmp_path_factory.mktemp("streams")
    found = {}
    for name, make in (MODELS | {"cleaning": cleaning, "spelling": spelling}).items():
        make(root / name)
        config = json.loads((root / name / "config.json").read_text(encoding="utf-8"))
        vocabulary = load_tokenizer(root / name, config)
        assert vocabulary is not None
        found[name] = vocabulary.target
    assert [name for name, each in found.items() if each.clean_up] == ["cleaning"]
    return found


@pytest.mark.parametrize("name", [*MODELS, "cleaning", "spelling"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_joined_parts_equal_decode(
    vocabularies: dict[str, PretrainedTokenizer], name: str, data: st.DataObject
) -> None:
    vocabulary = vocabularies[name]
    ids = data.draw(st.lists(st.integers(0, len(vocabulary) - 1), max_size=30))
    stream = StreamingDecoder(vocabulary)
    parts = [*map(stream.push, ids), stream.finish()]
    assert "".join(parts) == vocabulary.decode(ids)


@pytest.mark.parametrize("name", [*MODELS, "cleaning", "spelling"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_after_a_prompt_only_the_added_text_is_streamed(
    vocabularies: dict[str, PretrainedTokenizer], name: str, data: st.DataObject
) -> None:
    vocabulary = vocabularies[name]
    tokens = st.lists(st.integers(0, len(vocabulary) - 1), max_size=12)
    prompt, ids = data.draw(tokens), data.draw(tokens)
    stream = StreamingDecoder(vocabulary)
    stream.set_prompt(prompt)
    parts = [*map(stream.push, ids), stream.finish()]
    before, whole = vocabulary.decode(prompt), vocabulary.decode([*prompt, *ids])
    assert "".join(parts) == whole[common_prefix_length(before, whole) :]


@pytest.mark.parametrize(
    ("pieces", "parts", "rest"),
    [
        (("it", "'", "s", "is", "n't", "it", "?"), ["", "", "", "", "", "it's", ""], " isn't it?"),
        (("do", "n", "'", "t", "it", "s"), ["", "", "do", "", "", "n't"], " it s"),
    ],
)
def test_a_space_that_punctuation_removes_is_not_streamed(
    vocabularies: dict[str, PretrainedTokenizer],
    pieces: tuple[str, ...],
    parts: list[str],
    rest: str,
) -> None:
    stream = StreamingDecoder(vocabularies["cleaning"])
    assert [stream.push(5 + ENGLISH.index(piece)) for piece in pieces] == parts
    assert stream.finish() == rest


def test_bytes_are_held_back_until_they_are_decided(
    vocabularies: dict[str, PretrainedTokenizer],
) -> None:
    """One byte too many and the library gives none of the letters before it."""
    vocabulary = vocabularies["spelling"]
    ids = [vocabulary.id(f"<0x{byte:02X}>") for byte in "뷁".encode()]
    na = vocabulary.id("나")
    stream = StreamingDecoder(vocabulary)
    assert [stream.push(i) for i in [*ids, na]] == ["", "", "", "뷁나"]
    stream = StreamingDecoder(vocabulary)
    invalid = [na, *ids, vocabulary.unk_id, ids[0]]  # what is not shown parts no bytes
    parts = [stream.push(i) for i in invalid]
    assert "".join([*parts, stream.finish()]) == vocabulary.decode(invalid)
