"""Byte-level BPE as GPT-2, RoBERTa and BART have it: vocab.json and merges.txt."""

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from jumok.errors import InputError
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.special_tokens import Assembly, Parts, add_pieces, named_pieces, piece_id
from jumok.text.pretrained.tokenizer_config import Settings, Token, check_ids
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.template import Fixed, Part, Slot, double_sep, processor_parts

_ROBERTA: Mapping[str, Token | None] = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_GPT2: Mapping[str, Token | None] = dict.fromkeys(
    ("unk_token", "bos_token", "eos_token"), "<|endoftext|>"
)


def roberta(files: TokenizerFiles, settings: Settings, written: TokenizerJson | None) -> Assembly:
    """RoBERTa's and BART's: <s> A </s>."""
    tokenizer = _byte_level(files, settings, written)
    names = add_pieces(tokenizer, settings, named_pieces(settings, _ROBERTA))
    tokenizer.post_processor = processors.ByteLevel(  # only for the offsets
        add_prefix_space=settings.flag("add_prefix_space", default=False),
        trim_offsets=settings.flag("trim_offsets", default=True),
    )
    cls = piece_id(tokenizer, names, "cls_token")
    sep = piece_id(tokenizer, names, "sep_token")
    segments = settings.has_token_type_ids(default=False)
    return Assembly(tokenizer, names, double_sep(cls, sep), has_token_type_ids=segments)


def gpt2(files: TokenizerFiles, settings: Settings, written: TokenizerJson | None) -> Assembly:
    """GPT-2's: nothing stands around a text, unless the files ask for it."""
    tokenizer = _byte_level(files, settings, written)
    names = add_pieces(tokenizer, settings, named_pieces(settings, _GPT2))
    if written and written.processor is not None:
        parts = processor_parts(written.processor)
        _move_offsets(tokenizer, written.processor)
    else:
        parts = bos_eos(tokenizer, names, settings, told=written is None)
    segments = settings.has_token_type_ids(default=False)
    return Assembly(tokenizer, names, parts, has_token_type_ids=segments)


def _move_offsets(tokenizer: Tokenizer, processor: Mapping[str, Any]) -> None:
    """Give the tokenizer the step of the file's processor that takes spaces off the offsets."""
    match processor:
        case {"type": "Sequence", "processors": list(steps)}:
            for step in steps:
                _move_offsets(tokenizer, step)
        case {"type": "ByteLevel"}:
            tokenizer.post_processor = processors.ByteLevel(
                add_prefix_space=processor.get("add_prefix_space", True) is True,
                trim_offsets=processor.get("trim_offsets", True) is True,
            )


def bos_eos(
    tokenizer: Tokenizer, names: Mapping[str, str], settings: Settings, *, told: bool
) -> Parts:
    """The frame where no file has one: <s> and </s> as `add_bos_token` and `add_eos_token` say.

    transformers listens to these two (`told`) only where there is no tokenizer.json.
    """
    before, after = [
        [piece_id(tokenizer, names, name)] if told and settings.flag(f"add_{name}", False) else []
        for name in ("bos_token", "eos_token")
    ]

    def framed(text: Slot) -> tuple[Part, ...]:
        start = [Fixed((i,), text.segment) for i in before]
        end = [Fixed((i,), text.segment) for i in after]
        return (*start, text, *end)

    return framed(Slot(0)), (*framed(Slot(0)), *framed(Slot(1, 1)))


def read_merges(text: str) -> list[tuple[str, str]]:
    r"""The merges of a merges.txt, one a line, the first heard first.

    >>> read_merges("#version: 0.2\nĠ t\nh e\n")
    [('Ġ', 't'), ('h', 'e')]
    """
    merges = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if line.startswith("#version") or not text:
            continue
        parts = line.removesuffix("\r").split(" ")
        if len(parts) != 2:
            raise InputError(f"merges.txt, line {number}: {line[:80]!r} is no pair of pieces")
        merges.append((parts[0], parts[1]))
    return merges


def _byte_level(
    files: TokenizerFiles, settings: Settings, written: TokenizerJson | None
) -> Tokenizer:
    if written:
        vocab, merges = written.model["vocab"], written.merges
    else:
        vocab, merges = files.table("vocab.json"), read_merges(files.text("merges.txt"))
        check_ids(vocab.values(), "vocab.json")
    lost = [pair for pair in merges if not ("".join(pair) in vocab and vocab.keys() >= set(pair))]
    if lost:
        raise InputError(
            f"merges.txt merges {lost[0][0]!r} and {lost[0][1]!r}, which vocab.json does not know; "
            "give the two files of one tokeniser"
        )
    with library_errors("the vocabulary cannot be used"):
        model = models.BPE(
            vocab, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False
        )
    tokenizer = Tokenizer(model)
    spaced = settings.flag("add_prefix_space", default=False)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
