"""Folders, and the functions of a loaded tokenizer besides ids."""

import hashlib
import json
import logging
import shutil
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from jumok.errors import InputError, StorageError
from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from jumok.text.pretrained import load as load_module
from jumok.text.pretrained.registry import tokenizer_class_name
from jumok.text.tokenizer import Tokenizer
from tests.errors import raises
from tests.pretrained_tokenizers import TrainedTokenizers
from tests.text.pretrained.conftest import Folders, config_of

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "나무", "##가", "tree", "##s", "한", "글"]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder with a vocab.txt of eleven pieces."""
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    return tmp_path


def read(folder: Path, **config: object) -> PretrainedTokenizer:
    found = load_tokenizer(folder, {"model_type": "bert", **config})
    assert found is not None
    return found


def settings(folder: Path, **options: object) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(options), encoding="utf-8")


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert load_tokenizer(tmp_path, {"model_type": "bert"}) is None


def test_a_tokenizer_encodes_and_decodes(small: Path) -> None:
    settings(small, do_lower_case=False)
    vocabulary: Tokenizer = read(small)
    assert len(vocabulary) == 11
    assert vocabulary.encode("나무가 trees") == [5, 6, 7, 8]
    assert vocabulary.pieces("나무 물") == ["나무", "[UNK]"]
    assert (vocabulary.piece(5), vocabulary.id("나무")) == ("나무", 5)
    assert vocabulary.decode([2, 5, 6, 3]) == "나무가"
    assert vocabulary.decode_batch([[5], []]) == ["나무", ""]
    assert (vocabulary.pad_id, vocabulary.unk_id, vocabulary.mask_id) == (0, 1, 4)
    assert (vocabulary.cls_id, vocabulary.sep_id) == (2, 3)


def test_missing_pieces_are_named(small: Path) -> None:
    vocabulary = read(small, vocab_size=12)
    for ask in (lambda: vocabulary.bos_id, lambda: vocabulary.eos_id):
        with raises(InputError, "tokenizer.no_special_piece"):
            ask()
    with raises(InputError, "tokenizer.no_such_piece"):
        vocabulary.id("물")
    with raises(InputError, "tokenizer.no_such_id"):
        vocabulary.piece(11)
    assert vocabulary.decode([7, 11]) == "tree"  # an id the model can give, without a piece
    for wrong in (-1, 12, 2**40):
        with raises(InputError, "tokenizer.id_range"):
            vocabulary.decode([wrong])
    with raises(InputError, "tokenizer.one_segmentation"):
        vocabulary.sample_batch(["나무"], alpha=0.1, seed=0)


def test_a_typed_special_piece_is_a_word_except_in_templates(small: Path) -> None:
    settings(small, do_lower_case=False)
    vocabulary = read(small)
    assert vocabulary.encode("나무 [MASK]") == [5, 1, 1, 1]
    assert vocabulary.encode("나무 [UNK]") == [5, 1, 1, 1]
    assert vocabulary.encode_hf(["나무 [UNK]"]) == [[5, 1]]
    spans = [(0, 2), (3, 4), (4, 7), (7, 8), (9, 10)]
    assert vocabulary.encode_with_offsets("나무 [UNK] 물").offsets == spans
    encoded = vocabulary.encode_with_special_tokens("나무 [MASK]", "[SEP]")
    assert encoded.ids == [2, 5, 4, 3, 3, 3]
    assert encoded.token_type_ids == [0, 0, 0, 0, 1, 1]


def test_templates_are_truncated_at_the_limit_of_the_model(small: Path) -> None:
    settings(small, model_max_length=4)
    vocabulary = read(small)
    assert vocabulary.encode_with_special_tokens("tree " * 9).ids == [2, 7, 7, 3]
    assert vocabulary.apply_template([7] * 9, max_length=5).ids == [2, 7, 7, 7, 3]
    assert vocabulary.encode_batch_with_special_tokens(["tree"], [""]) == [
        vocabulary.apply_template([7], [])
    ]
    with raises(InputError, "config.out_of_range"):
        vocabulary.apply_template([7], max_length=0)
    with raises(InputError, "tokenizer.number_of_pairs"):
        vocabulary.encode_batch_with_special_tokens(["a"], ["b", "c"])
    with raises(InputError, "tokenizer.one_string"):
        vocabulary.encode_batch("tree")


def test_offsets_are_characters_of_the_text(small: Path) -> None:
    settings(small, do_lower_case=False)
    cut = read(small).encode_with_offsets("😀 나무가 tree")
    assert cut.ids == [1, 5, 6, 7]
    assert cut.offsets == [(0, 1), (2, 4), (4, 5), (6, 10)]


@pytest.mark.parametrize("family", ["roberta", "bart", "gpt2", "xlm-r", "kobart", "bert-lower"])
def test_offsets_are_those_of_transformers(family: str, folder: Folders, lines: list[str]) -> None:
    transformers = pytest.importorskip("transformers")
    reference = transformers.AutoTokenizer.from_pretrained(folder(family))
    actual = load_tokenizer(folder(family), config_of(folder(family)))
    assert actual is not None
    texts = [*lines[:200], *(f" {line}" for line in lines[20:40]), "  둘 "]
    plain = [text for text in texts if actual.encode(text) == actual.encode_hf([text])[0]]
    assert len(plain) > len(texts) / 2  # the others spell special pieces
    for text in plain:
        told = reference(text, add_special_tokens=False, return_offsets_mapping=True)
        assert actual.encode_with_offsets(text) == (told["input_ids"], told["offset_mapping"])


@pytest.mark.parametrize(
    "processor",
    [
        processors.ByteLevel(trim_offsets=True),
        processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
        processors.ByteLevel(trim_offsets=False),
        processors.Sequence([processors.ByteLevel(trim_offsets=True)]),
    ],
)
def test_offsets_are_trimmed_as_the_file_configures(
    processor: object, folder: Folders, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder("gpt2"))
    tokenizer.backend_tokenizer.post_processor = processor
    tokenizer.save_pretrained(tmp_path)
    shutil.copy(folder("gpt2") / "config.json", tmp_path)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    actual = load_tokenizer(tmp_path, config_of(tmp_path))
    assert actual is not None
    for text in ("나무 둘", " 나무 둘", "  나무  "):
        told = reference(text, add_special_tokens=False, return_offsets_mapping=True)
        assert actual.encode_with_offsets(text) == (told["input_ids"], told["offset_mapping"])


def test_marian_has_no_offsets(folder: Folders) -> None:
    vocabulary = load_tokenizer(folder("marian"), {"model_type": "marian"})
    assert vocabulary is not None
    with raises(InputError, "tokenizer.marian_without_offsets"):
        vocabulary.encode_with_offsets("안녕")


def test_decomposed_hangul_warns_once(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_module._warn_of_decomposition.cache_clear()
    settings(small, do_lower_case=False)
    with caplog.at_level(logging.WARNING):
        read(small)
        assert not caplog.records
        settings(small)
        assert read(small).encode("한글") == [1]
        read(small)
    assert [record.message for record in caplog.records] == [
        "the tokenizer decomposes Hangul syllables, because its files set lower case or stripped "
        "accents; the model was trained so, if these are its own files"
    ]


def test_the_original_files_are_saved(small: Path, tmp_path: Path) -> None:
    settings(small, do_lower_case=False)
    (small / "notes.txt").write_text("no file of a tokeniser")
    vocabulary = read(small)
    copy = tmp_path / "new" / "copy"
    vocabulary.save(copy)
    assert {path.name for path in copy.iterdir()} == {"vocab.txt", "tokenizer_config.json"}
    for path in copy.iterdir():
        assert path.read_bytes() == (small / path.name).read_bytes()
    assert read(copy).fingerprint == vocabulary.fingerprint
    digest = hashlib.sha256()
    for name in ("tokenizer_config.json", "vocab.txt"):
        digest.update(name.encode() + b"\0")
        digest.update(hashlib.sha256((small / name).read_bytes()).digest())
    assert vocabulary.fingerprint == digest.hexdigest()


def test_what_the_configuration_decides_is_part_of_the_identity(small: Path) -> None:
    """Ids are kept by it: after a config.json is put right they are made anew."""
    one, other = read(small, model_type="bert"), read(small, model_type="electra")
    assert one.fingerprint == other.fingerprint
    assert one.identity != other.identity
    assert one.identity == read(small, model_type="bert").identity


@pytest.mark.parametrize("family", ["marian", "marian-separate", "mbart", "mbart50", "t5"])
def test_the_written_language(family: str, folder: Folders) -> None:
    actual = load_tokenizer(folder(family), config_of(folder(family)))
    assert actual is not None
    assert (actual.target is actual) == (family == "t5")
    assert actual.target.target is actual.target
    assert actual.target.special_ids == actual.special_ids


def test_a_translation_may_name_its_language(folder: Folders) -> None:
    vocabulary = load_tokenizer(folder("marian"), {"model_type": "marian"})
    assert vocabulary is not None
    assert vocabulary.encode(">>kor<< 안녕")[0] == vocabulary.id(">>kor<<")
    assert vocabulary.encode("안녕 >>kor<<")[0] != vocabulary.id(">>kor<<")


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["gpt2", "t5"])
def test_a_file_of_another_model_is_used_unchanged(
    model_type: str, learned: TrainedTokenizers, tmp_path: Path
) -> None:
    """KoGPT2 is not byte-level BPE, pko-t5 is: transformers 5 builds a wrong tokenizer, or none."""
    if model_type == "gpt2":
        tokenizer = learned.metaspace
    else:
        tokenizer = tokenizers.Tokenizer(models.BPE(*learned.byte_level))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens(["<s>", "</s>", "<pad>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_tokenizer(tmp_path, {"model_type": model_type})
    assert vocabulary is not None
    text = "안녕하세요, 한국어 tokeniser입니다"
    assert vocabulary.encode(text) == tokenizer.encode(text, add_special_tokens=False).ids
    assert vocabulary.decode(vocabulary.encode(text)).strip() == text
    assert vocabulary.eos_id == tokenizer.token_to_id("</s>")
    assert vocabulary.pad_id == tokenizer.token_to_id("<pad>")


@pytest.mark.parametrize(
    ("config", "tokenizer_config", "name"),
    [
        ({"model_type": "roberta", "tokenizer_class": "BertTokenizer"}, {}, "BertTokenizer"),
        ({"model_type": "bart"}, {"tokenizer_class": "BartTokenizerFast"}, "RobertaTokenizer"),
        ({"model_type": "electra"}, {}, "BertTokenizer"),
        ({"model_type": "umt5"}, {"tokenizer_class": "T5Tokenizer"}, "TokenizersBackend"),
        ({"model_type": "bert"}, {"tokenizer_class": "KoBertTokenizer"}, "KoBertTokenizer"),
        ({"model_type": "unheard"}, {}, "TokenizersBackend"),
        ({}, {"tokenizer_class": "PreTrainedTokenizerFast"}, "TokenizersBackend"),
    ],
)
def test_the_class_that_transformers_takes(
    config: dict[str, object], tokenizer_config: dict[str, object], name: str
) -> None:
    assert tokenizer_class_name(config, tokenizer_config) == name


@pytest.mark.parametrize(
    ("config", "overrides"),
    [
        ({"tokenizer_class": "KoBertTokenizer"}, "tokenizer.unknown_class"),
        ({"tokenizer_class": 7}, "tokenizer.class_not_a_name"),
        ({"model_type": "roberta"}, "tokenizer.file_missing"),
        ({"model_type": "t5"}, "tokenizer.file_missing"),
        ({"model_type": "marian"}, "tokenizer.file_missing"),
        ({"model_type": "umt5"}, "tokenizer.file_missing"),
    ],
)
def test_files_of_another_kind_are_refused(
    small: Path, config: dict[str, object], overrides: str
) -> None:
    with raises(InputError, overrides):
        read(small, **config)


def test_a_file_that_is_not_a_tokenizer_is_refused(small: Path) -> None:
    (small / "merges.txt").mkdir()
    with raises(StorageError, "storage.not_regular_file"):
        read(small)


@pytest.mark.parametrize(
    ("options", "overrides"),
    [
        ({"cls_token": None}, "tokenizer.no_special_token"),
        ({"do_lower_case": None}, "tokenizer.not_a_boolean"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    small: Path, options: dict[str, object], overrides: str
) -> None:
    settings(small, **options)
    with raises(InputError, overrides):
        read(small)


def test_an_unknown_word_without_unk_is_refused(small: Path) -> None:
    settings(small, unk_token="[NONE]")
    vocabulary = read(small)
    assert vocabulary.encode("tree") == [7]
    with pytest.raises(InputError, match="fails on a text"):
        vocabulary.encode("bush")


def test_lines_of_a_vocabulary_end_as_in_rust(tmp_path: Path) -> None:
    """Trailing spaces of any kind and \\r are no part of a piece; a later equal piece counts."""
    transformers = pytest.importorskip("transformers")
    text = "[PAD]\n[UNK]\r\n[CLS]\n[SEP] \n[MASK]\n가\u3000\n나\x1f\n\n다\n가\n##라\u2028\n"
    (tmp_path / "vocab.txt").write_bytes(text.encode())
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    settings(tmp_path, do_lower_case=False)
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    actual = read(tmp_path)
    assert actual.backend.pieces == reference.get_vocab()
    assert (
        actual.encode("가 나 다라")
        == reference("가 나 다라", add_special_tokens=False)["input_ids"]
    )
