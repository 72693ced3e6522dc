"""Tokenizer folders like those of the Hub, with 8,000 pieces learned from the shared data.

`sample` is 10,000 lines: reviews with emoji and single jamo, verses and manuals in two languages,
the same in decomposed Hangul, other scripts, odd spaces, and names of special pieces. `train`
learns each vocabulary once; `FOLDERS` writes the files that each model family comes with.
"""

import csv
import io
import json
import lzma
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import sentencepiece
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.shared_data import shared_data

N_LINES = 10_000
N_PIECES = 8_000

_ODD = (
    "",
    " ",
    "  두 칸  띄고  끝에도  ",
    "탭\t과 줄\n바꿈\r\n그리고\u3000전각\u00a0공백\u200b",
    "😀😃 👨‍👩‍👧‍👦 👍🏽 ❤️ 🇰🇷 ㅋㅋㅋㅋ ㅠㅠ ㅏㅏ ㄱㄴㄷ",
    "한국어 English 日本語 中文 Русский العربية עברית ไทย Ελληνικά हिन्दी",
    "café naïve Ångström ﬁ ﬂ ㎏ ㈜ … ① Ⅷ ½ ＡＢＣ １２３",
    "\u1112\u1161\u11ab\u1100\u1173\u11af \u1100\u1173\u1105\u1175\u1100\u1169 a\u0301\u0323",
    "ARE YOU SURE? it's don't we'll I'd he'S 'tis n't ' s",
    "[CLS] 안녕 [SEP] [MASK][MASK] [PAD] [UNK] [mask] [cls]",
    "<s> 안녕 </s> <mask> <pad><unk> <|endoftext|> </S>",
    "앞<mask>뒤 앞 <mask> 뒤 앞  <mask>  뒤",
    "<extra_id_0> 비밀 <extra_id_99><extra_id_100> ko_KR en_XX 한ko_KR국",
    ">>kor<< 번역 >>eng<< <<",
    "뷁쀍 𠀀𠮷 \U0010ffff \ufeff \ufffd \u00ad\u200d \x01\x7f a\x00b",
    "가" * 300,
    "word" * 80,
    "1234567890 3.14159 1,000,000 100% $5 #해시태그 @이름 http://a.b/c?d=e&f=g",
)


def sample() -> list[str]:
    """10,000 fixed lines of the shared data; skips the test if they are missing."""
    reviews = [row["document"] for row in _rows("nsmc/ratings_test.txt.xz", csv.QUOTE_NONE)]
    verses = _rows("koen/bible.test.tsv.xz", csv.QUOTE_NONE)
    manuals = _rows("koen/docs.test.tsv", csv.QUOTE_NONE)
    lines = [*_ODD, *reviews[:6000]]
    for row in (*verses[:800], *manuals[:800]):
        lines += [row["ko"], row["en"]]
    lines += [unicodedata.normalize("NFD", line) for line in lines[len(_ODD) : len(_ODD) + 500]]
    lines += [f"{a} {b}" for a, b in zip(lines[100:600], lines[7000:7500], strict=True)]
    assert len(lines) >= N_LINES, len(lines)
    return lines[:N_LINES]


def _rows(name: str, quoting: int) -> list[dict[str, str]]:
    path = shared_data(name)
    packed = path.read_bytes()
    data = lzma.decompress(packed) if path.suffix == ".xz" else packed
    text = io.StringIO(data.decode("utf-8"), newline="")
    return list(csv.DictReader(text, delimiter="\t", quoting=quoting))


@dataclass(frozen=True)
class TrainedTokenizers:
    """The vocabularies of all folders."""

    wordpiece: dict[str, int]  # cased
    lower: dict[str, int]  # of lower-cased, unaccented text: Hangul decomposed
    byte_level: tuple[dict[str, int], list[tuple[str, str]]]
    metaspace: Tokenizer  # BPE of characters, spaces written ▁: KoGPT2, KoBART
    t5: bytes  # SentencePiece models; ids of <pad>, </s>, <unk>: 0, 1, 2
    fairseq: bytes  # of <unk>, <s>, </s>: 0, 1, 2
    bpe: bytes  # BPE with byte fallback
    target: bytes  # only English


def train_tokenizers(lines: list[str]) -> TrainedTokenizers:
    """Train every vocabulary on a third of the lines, in a few seconds."""
    few = _few(lines)
    english = [line for line in lines if line.isascii() and line.strip()]
    t5 = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    return replace(
        train_words(lines),
        t5=_sentencepiece(few, **t5),
        fairseq=_sentencepiece(few),
        bpe=_sentencepiece(
            few, model_type="bpe", byte_fallback=True, user_defined_symbols=["ㅋㅋ"]
        ),
        target=_sentencepiece(english, vocab_size=3_000),
    )


def train_words(lines: list[str]) -> TrainedTokenizers:
    """The vocabularies of the tokenizers library alone, in less time."""
    few = _few(lines)
    return TrainedTokenizers(
        wordpiece=_wordpiece(few, lowercase=False),
        lower=_wordpiece(few, lowercase=True),
        byte_level=_byte_level(few),
        metaspace=_metaspace(few),
        **dict.fromkeys(("t5", "fairseq", "bpe", "target"), b""),
    )


def _few(lines: list[str]) -> list[str]:
    return [line for line in lines[:: len(lines) // 3_300] if line.strip() and "\x00" not in line]


def _wordpiece(lines: list[str], lowercase: bool) -> dict[str, int]:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=N_PIECES, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer.get_vocab()


def _byte_level(lines: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=N_PIECES,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def _metaspace(lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=N_PIECES,
        special_tokens=["<s>", "</s>", "<usr>", "<pad>", "<sys>", "<unk>", "<mask>", "<unused0>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def _sentencepiece(lines: list[str], vocab_size: int = N_PIECES, **options: object) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocab_size,
        seed_sentencepiece_size=100_000,
        shrinking_factor=0.6,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def _write(folder: Path, config: dict[str, object], **files: object) -> None:
    """Write files into a folder: tables as JSON, lists as lines, bytes as they are."""
    folder.mkdir(parents=True)
    for name, content in {"config.json": config, **files}.items():
        if isinstance(content, list):
            content = "\n".join(content) + "\n"
        if isinstance(content, dict):
            content = json.dumps(content)
        data = content if isinstance(content, bytes) else str(content).encode()
        (folder / name).write_bytes(data)


def _lines(vocab: dict[str, int]) -> list[str]:
    return sorted(vocab, key=vocab.__getitem__)


def _bert(learned: TrainedTokenizers, folder: Path) -> None:
    """klue/bert-base, KcBERT: cased."""
    _write(
        folder,
        {"model_type": "bert"},
        **{
            "vocab.txt": _lines(learned.wordpiece),
            "tokenizer_config.json": {"do_lower_case": False, "max_len": 300},
        },
    )


def _bert_lower(learned: TrainedTokenizers, folder: Path) -> None:
    """A folder without settings: lower case, accents stripped, Hangul decomposed."""
    _write(folder, {"model_type": "bert"}, **{"vocab.txt": _lines(learned.lower)})


def _electra(learned: TrainedTokenizers, folder: Path) -> None:
    """KoELECTRA."""
    _write(
        folder,
        {"model_type": "electra"},
        **{
            "vocab.txt": _lines(learned.wordpiece),
            "tokenizer_config.json": {
                "do_lower_case": False,
                "model_max_length": 512,
                "tokenizer_class": "ElectraTokenizer",
            },
            "special_tokens_map.json": {"unk_token": "[UNK]", "mask_token": "[MASK]"},
        },
    )


def _kf_deberta(learned: TrainedTokenizers, folder: Path) -> None:
    """kf-deberta: BERT's pieces in a DeBERTa."""
    _write(
        folder,
        {"model_type": "deberta-v2"},
        **{
            "vocab.txt": _lines(learned.wordpiece),
            "tokenizer_config.json": {"do_lower_case": False, "tokenizer_class": "BertTokenizer"},
        },
    )


def _modernbert(learned: TrainedTokenizers, folder: Path) -> None:
    """A.X-Encoder and Ettin: byte-level BPE in tokenizer.json, [CLS] A [SEP] of one token type."""
    vocabulary, merges = learned.byte_level
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer.add_special_tokens(special)
    ends = [(piece, tokenizer.token_to_id(piece)) for piece in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    _write(
        folder,
        {"model_type": "modernbert"},
        **{
            "tokenizer.json": tokenizer.to_str(),
            "tokenizer_config.json": {
                **{f"{piece.strip('[]').lower()}_token": piece for piece in special},
                "tokenizer_class": "PreTrainedTokenizerFast",
                "model_input_names": ["input_ids", "attention_mask"],
                "model_max_length": 8192,
            },
        },
    )


def _distilbert(learned: TrainedTokenizers, folder: Path) -> None:
    """DistilBERT by the name of its class, without splitting Chinese characters."""
    _write(
        folder,
        {"model_type": "distilbert"},
        **{
            "vocab.txt": _lines(learned.wordpiece),
            "tokenizer_config.json": {
                "do_lower_case": True,
                "strip_accents": False,
                "tokenize_chinese_chars": False,
                "tokenizer_class": "DistilBertTokenizer",
                "model_max_length": 512,
            },
            "added_tokens.json": {"ㅋㅋ": N_PIECES, "[NEW]": N_PIECES + 1},
            "special_tokens_map.json": {"additional_special_tokens": ["[NEW]"]},
        },
    )


def _klue_roberta(learned: TrainedTokenizers, folder: Path) -> None:
    """klue/roberta: a RoBERTa that reads BERT's pieces."""
    tokenizer = Tokenizer(models.WordPiece(learned.wordpiece, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"bos_token": "[CLS]", "eos_token": "[SEP]", "cls_token": "[CLS]"}
    special |= {"sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    _write(
        folder,
        {"model_type": "roberta", "tokenizer_class": "BertTokenizer"},
        **{
            "vocab.txt": _lines(learned.wordpiece),
            "tokenizer.json": tokenizer.to_str(),
            "tokenizer_config.json": {"do_lower_case": False, "tokenizer_class": "BertTokenizer"},
            "special_tokens_map.json": special | {"mask_token": "[MASK]"},
        },
    )


def _merges(learned: TrainedTokenizers) -> list[str]:
    return ["#version: 0.2", *(" ".join(pair) for pair in learned.byte_level[1])]


def _roberta(learned: TrainedTokenizers, folder: Path) -> None:
    """RoBERTa: vocab.json and merges.txt, a mask that includes the space before it."""
    mask = {"content": "<mask>", "lstrip": True, "rstrip": False, "single_word": False}
    _write(
        folder,
        {"model_type": "roberta"},
        **{
            "vocab.json": learned.byte_level[0],
            "merges.txt": _merges(learned),
            "tokenizer_config.json": {"add_prefix_space": True, "model_max_length": 512},
            "special_tokens_map.json": {"mask_token": mask | {"normalized": False}},
        },
    )


def _gpt2(learned: TrainedTokenizers, folder: Path) -> None:
    """GPT-2: no special tokens around a text."""
    _write(
        folder,
        {"model_type": "gpt2"},
        **{"vocab.json": learned.byte_level[0], "merges.txt": _merges(learned)},
    )


def _gpt2_bos(learned: TrainedTokenizers, folder: Path) -> None:
    """GPT-2 that begins with its only special token and truncates on the left."""
    settings = {"add_bos_token": True, "truncation_side": "left", "pad_token": None}
    _write(
        folder,
        {"model_type": "gpt2"},
        **{
            "vocab.json": learned.byte_level[0],
            "merges.txt": _merges(learned),
            "tokenizer_config.json": settings | {"tokenizer_class": "GPT2Tokenizer"},
        },
    )


def _kogpt2(learned: TrainedTokenizers, folder: Path) -> None:
    """KoGPT2: everything in tokenizer.json."""
    named = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    _write(
        folder,
        {"model_type": "gpt2"},
        **{
            "tokenizer.json": learned.metaspace.to_str(),
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "mask_token": "<mask>",
                **named,
            },
        },
    )


def _kobart(learned: TrainedTokenizers, folder: Path) -> None:
    """KoBART: <s> A </s>; truncation and padding in its file are ignored."""
    tokenizer = Tokenizer.from_str(learned.metaspace.to_str())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    tokenizer.enable_truncation(20)
    tokenizer.enable_padding(pad_id=3, pad_token="<pad>", length=20)
    _write(
        folder,
        {"model_type": "bart", "tokenizer_class": "PreTrainedTokenizerFast"},
        **{
            "tokenizer.json": tokenizer.to_str(),
            "special_tokens_map.json": {"bos_token": "<s>", "eos_token": "</s>"},
            "tokenizer_config.json": {"model_max_length": 1026},
        },
    )


def _bart(learned: TrainedTokenizers, folder: Path) -> None:
    """BART: RoBERTa's files."""
    _write(
        folder,
        {"model_type": "bart"},
        **{
            "vocab.json": learned.byte_level[0],
            "merges.txt": _merges(learned),
            "tokenizer_config.json": {"tokenizer_class": "BartTokenizer", "model_max_length": 1024},
        },
    )


def _t5(learned: TrainedTokenizers, folder: Path) -> None:
    """T5: spiece.model and 100 extra ids."""
    _write(folder, {"model_type": "t5"}, **{"spiece.model": learned.t5})


def _mt5(learned: TrainedTokenizers, folder: Path) -> None:
    """mT5: no extra ids; a piece that the user added."""
    _write(
        folder,
        {"model_type": "mt5"},
        **{
            "spiece.model": learned.t5,
            "tokenizer_config.json": {"extra_ids": 0, "tokenizer_class": "T5Tokenizer"},
            "special_tokens_map.json": {"eos_token": "</s>", "unk_token": "<unk>"},
            "added_tokens.json": {"한국어": N_PIECES},
        },
    )


def _xlm_r(learned: TrainedTokenizers, folder: Path) -> None:
    """XLM-R: every id is one above that in its model."""
    _write(
        folder,
        {"model_type": "xlm-roberta"},
        **{"sentencepiece.bpe.model": learned.fairseq, "tokenizer_config.json": {"max_len": 512}},
    )


def _mbart(learned: TrainedTokenizers, folder: Path) -> None:
    """mBART: from Korean into English."""
    _write(
        folder,
        {"model_type": "mbart"},
        **{
            "sentencepiece.bpe.model": learned.fairseq,
            "tokenizer_config.json": {"src_lang": "ko_KR", "tgt_lang": "en_XX"},
        },
    )


def _mbart50(learned: TrainedTokenizers, folder: Path) -> None:
    """mBART-50: the language token first."""
    _write(
        folder,
        {"model_type": "mbart"},
        **{
            "sentencepiece.bpe.model": learned.fairseq,
            "tokenizer_config.json": {
                "tokenizer_class": "MBart50Tokenizer",
                "src_lang": "ko_KR",
                "tgt_lang": "en_XX",
            },
        },
    )


def _umt5(learned: TrainedTokenizers, folder: Path) -> None:
    """Only tokenizer.model: BPE with byte fallback."""
    _write(
        folder,
        {"model_type": "umt5"},
        **{"tokenizer.model": learned.bpe, "tokenizer_config.json": {"add_eos_token": True}},
    )


def _opus_ids(*data: bytes, pad: bool = True) -> dict[str, int]:
    """vocab.json as in opus-mt: </s>, <unk>, the pieces in order, <pad> last."""
    pieces: set[str] = set()
    for model in data:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces |= {processor.id_to_piece(i) for i in range(3, processor.get_piece_size())}
    ordered = ["</s>", "<unk>", ">>kor<<", *sorted(pieces), *(["<pad>"] if pad else [])]
    return {piece: i for i, piece in enumerate(ordered)}


def _marian(learned: TrainedTokenizers, folder: Path) -> None:
    """opus-mt: two models, one vocabulary."""
    _write(
        folder,
        {"model_type": "marian"},
        **{
            "source.spm": learned.fairseq,
            "target.spm": learned.target,
            "vocab.json": _opus_ids(learned.fairseq, learned.target),
            "tokenizer_config.json": {"source_lang": "ko", "target_lang": "en"},
        },
    )


def _marian_separate(learned: TrainedTokenizers, folder: Path) -> None:
    """opus-mt-tc: a vocabulary for each language; <pad> gets the id after the last."""
    _write(
        folder,
        {"model_type": "marian"},
        **{
            "source.spm": learned.fairseq,
            "target.spm": learned.target,
            "vocab.json": _opus_ids(learned.fairseq, pad=False),
            "target_vocab.json": _opus_ids(learned.target),
            "tokenizer_config.json": {
                "separate_vocabs": True,
                "model_max_length": 256,
                "tokenizer_class": "MarianTokenizer",
            },
        },
    )


FOLDERS: dict[str, Callable[[TrainedTokenizers, Path], None]] = {
    "bert": _bert,
    "bert-lower": _bert_lower,
    "electra": _electra,
    "distilbert": _distilbert,
    "kf-deberta": _kf_deberta,
    "modernbert": _modernbert,
    "klue-roberta": _klue_roberta,
    "roberta": _roberta,
    "gpt2": _gpt2,
    "gpt2-bos": _gpt2_bos,
    "kogpt2": _kogpt2,
    "kobart": _kobart,
    "bart": _bart,
    "t5": _t5,
    "mt5": _mt5,
    "xlm-r": _xlm_r,
    "mbart": _mbart,
    "mbart50": _mbart50,
    "umt5": _umt5,
    "marian": _marian,
    "marian-separate": _marian_separate,
}
