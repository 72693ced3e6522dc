"""Folders that transformers 5 reads with other ids than 4 did, each as published.

jumok reads the ids of tokenizer.json, which the models were trained with, and `jumok check` finds
that AutoTokenizer gives others.
"""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from jumok.checks import CheckTarget, draw_samples, run_checks
from jumok.checks.read_ids import ReadIdsCheck, sentences
from jumok.checks.target import text_samples
from jumok.tasks.runs.load import load
from jumok.text.pretrained import load_tokenizer
from tests import hf_folders

BERT_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
XLM_R_NAMES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
END = hf_folders.END
BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
XLM_R = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "unk": "<unk>"}
XLM_R |= {"pad": "<pad>", "mask": "<mask>"}
WORDS_OF_GRANITE = (  # numbers of up to three digits
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=[*BERT_NAMES], show_progress=False
    )
    tokenizer.train_from_iterator(hf_folders.lines(), trainer)
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def word_piece_with_own_steps() -> Tokenizer:
    tokenizer = word_piece()
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex("ㅋ+"), "ㅋ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=[*XLM_R_NAMES], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(hf_folders.lines(), trainer)
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)]
    )
    return tokenizer


def byte_level_with_own_words() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS_OF_GRANITE), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = random.Random(0)
    numbers = [str(rng.randrange(10**6)) for _ in range(2_000)]
    tokenizer.train_from_iterator([*hf_folders.lines(), *numbers], trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def names(class_name: str, pieces: Mapping[str, str]) -> dict[str, Any]:
    """tokenizer_config.json with these special pieces, and a class unless it is ""."""
    config: dict[str, Any] = {f"{name}_token": piece for name, piece in pieces.items()}
    return (
        config | {"do_lower_case": False} | ({"tokenizer_class": class_name} if class_name else {})
    )


ROBERTA = {"type_vocab_size": 1, "pad_token_id": 0}
CASES: dict[str, tuple[Callable[[], Tokenizer], dict[str, Any], str, dict[str, Any]]] = {
    # transformers#45701 (camembertv2): texts are read as characters
    "WordPiece of RobertaTokenizer": (
        word_piece, names("RobertaTokenizer", BERT), "Roberta", ROBERTA,
    ),
    # mellea#947 (Granite): numbers are split by GPT-2's rule
    "numbers of GPT2Tokenizer": (
        byte_level_with_own_words,
        names("GPT2Tokenizer", {"bos": END, "eos": END, "unk": END}),
        "GPT2",
        {},
    ),
    # mteb#5377 (paraphrase-multilingual-MiniLM-L12-v2): the model type alone selects BERT's class
    "Unigram without a class": (unigram, names("", XLM_R), "Bert", {}),
    # mteb#5377 (mmlw): another class than that of the file
    "Unigram of RobertaTokenizer": (
        unigram, names("RobertaTokenizer", XLM_R), "XLMRoberta", ROBERTA | {"pad_token_id": 1},
    ),
    # the same class of failure: the right class, whose own steps replace those of the file
    "lower case of XLMRobertaTokenizer": (
        unigram, names("XLMRobertaTokenizer", XLM_R), "XLMRoberta", ROBERTA | {"pad_token_id": 1},
    ),
    "normalizer of BertTokenizer": (
        word_piece_with_own_steps, names("BertTokenizer", BERT), "Bert", {},
    ),
}  # fmt: skip


def made(folder: Path, name: str) -> Tokenizer:
    """The folder of a model, and its tokenizer.json as the tokenizers library reads it."""
    make, config, family, settings = CASES[name]
    tokenizer = make()
    size = {"vocab_size": tokenizer.get_vocab_size()}
    dimensions = (
        {"n_embd": 24, "n_layer": 2, "n_head": 3} if family == "GPT2" else hf_folders.DIMENSIONS
    )
    head = "LMHeadModel" if family == "GPT2" else "ForMaskedLM"
    hf_folders._saved(folder, family, head, dimensions | size | settings)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer


def check(folder: Path) -> Any:
    pipeline = load(folder, "cpu")
    target = CheckTarget(pipeline, draw_samples(pipeline), 0, 0)
    return next(iter(run_checks(target, [ReadIdsCheck()])))


@pytest.mark.parametrize("name", CASES)
def test_the_ids_of_the_file_are_read_and_those_of_transformers_found(
    tmp_path: Path, name: str
) -> None:
    tokenizer = made(tmp_path, name)
    pipeline = load(tmp_path, "cpu")
    texts = [text for text in sentences() if text and len(tokenizer.encode(text)) < 38]
    assert len(texts) > 100
    samples = text_samples(pipeline, texts, generate=False)
    for text, sample in zip(texts, samples, strict=True):
        assert sample.ids.tolist() == tokenizer.encode(text).ids
    found = check(tmp_path)
    assert found.result == "fail"
    assert "tokenizer.json itself gives the ids that are read" in found.reason
    assert '"tokenizer_class": "TokenizersBackend"' in found.reason

    path = tmp_path / "tokenizer_config.json"  # the advice of the message
    config = json.loads(path.read_text()) | {"tokenizer_class": "TokenizersBackend"}
    path.write_text(json.dumps(config))
    assert check(tmp_path).result == "pass"


def test_a_vocabulary_of_100000_pieces(tmp_path: Path) -> None:
    """transformers#48967: read by both as the file gives it, since 5.24 at the latest."""
    tokenizer = word_piece()
    own = tokenizer.get_vocab()
    pieces = sorted(own, key=own.__getitem__)
    pieces += [f"##{chr(0xAC00 + n // 11_000)}{chr(0xAC00 + n % 11_000)}" for n in range(99_700)]
    tokenizer.model = models.WordPiece(
        {piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"
    )
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    config = names("BertTokenizer", {})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    read = load_tokenizer(tmp_path, {"model_type": "bert", "vocab_size": len(pieces)})
    assert read is not None
    from transformers import AutoTokenizer

    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert len(theirs) == len(pieces) > 99_000
    for text in sentences()[:200]:
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        assert read.encode(text) == expected
        assert theirs(text, add_special_tokens=False).input_ids == expected
