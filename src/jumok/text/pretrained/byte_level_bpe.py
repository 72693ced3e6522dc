"""Byte-level BPE of GPT-2, RoBERTa and BART: vocab.json and merges.txt."""

from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from jumok.errors import TokenizerError
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.post_processor import parse_post_processor, roberta_template
from jumok.text.pretrained.special_tokens import TokenizerSpec, add_pieces, named_pieces, piece_id
from jumok.text.pretrained.tokenizer_config import Token, TokenizerConfig, check_ids
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.template import SpecialToken, Template, TemplatePiece, TextSlot

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


def roberta(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """RoBERTa and BART: <s> A </s>."""
    tokenizer = _byte_level(files, config, tokenizer_json)
    names = add_pieces(tokenizer, config, named_pieces(config, _ROBERTA))
    tokenizer.post_processor = processors.ByteLevel(  # only for the offsets
        add_prefix_space=config.flag("add_prefix_space", default=False),
        trim_offsets=config.flag("trim_offsets", default=True),
    )
    cls = piece_id(tokenizer, names, "cls_token")
    sep = piece_id(tokenizer, names, "sep_token")
    token_types = config.has_token_type_ids(default=False)
    return TokenizerSpec(
        tokenizer, names, roberta_template(cls, sep), has_token_type_ids=token_types
    )


def gpt2(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> TokenizerSpec:
    """GPT-2: no special tokens, unless the files contain some."""
    tokenizer = _byte_level(files, config, tokenizer_json)
    names = add_pieces(tokenizer, config, named_pieces(config, _GPT2))
    if tokenizer_json and tokenizer_json.processor is not None:
        template = parse_post_processor(tokenizer_json.processor)
        _move_offsets(tokenizer, tokenizer_json.processor)
    else:
        template = bos_eos_template(tokenizer, names, config, use_flags=tokenizer_json is None)
    token_types = config.has_token_type_ids(default=False)
    return TokenizerSpec(tokenizer, names, template, has_token_type_ids=token_types)


def _move_offsets(tokenizer: Tokenizer, processor: Mapping[str, Any]) -> None:
    """Copy the step of the file's processor that removes spaces from offsets."""
    match processor:
        case {"type": "Sequence", "processors": list(steps)}:
            for step in steps:
                _move_offsets(tokenizer, step)
        case {"type": "ByteLevel"}:
            tokenizer.post_processor = processors.ByteLevel(
                add_prefix_space=processor.get("add_prefix_space", True) is True,
                trim_offsets=processor.get("trim_offsets", True) is True,
            )


def bos_eos_template(
    tokenizer: Tokenizer, names: Mapping[str, str], config: TokenizerConfig, *, use_flags: bool
) -> Template:
    """The template if no file has one: <s> and </s> by `add_bos_token` and `add_eos_token`.

    transformers reads these two flags (`use_flags`) only if there is no tokenizer.json.
    """
    before, after = [
        [piece_id(tokenizer, names, name)]
        if use_flags and config.flag(f"add_{name}", False)
        else []
        for name in ("bos_token", "eos_token")
    ]

    def surrounded(text: TextSlot) -> tuple[TemplatePiece, ...]:
        start = [SpecialToken((i,), text.token_type) for i in before]
        end = [SpecialToken((i,), text.token_type) for i in after]
        return (*start, text, *end)

    first = surrounded(TextSlot(0))
    return Template(first, (*first, *surrounded(TextSlot(1, 1))))


def read_merges(text: str) -> list[tuple[str, str]]:
    r"""The merges of a merges.txt, one a line, by precedence.

    >>> read_merges("#version: 0.2\nĠ t\nh e\n")
    [('Ġ', 't'), ('h', 'e')]
    """
    merges = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if line.startswith("#version") or not text:
            continue
        parts = line.removesuffix("\r").split(" ")
        if len(parts) != 2:
            raise TokenizerError(
                "tokenizer.merges_txt_syntax",
                "merges.txt, line {number} must be a pair of pieces, got {line!r}",
                number=number,
                line=line[:80],
            )
        merges.append((parts[0], parts[1]))
    return merges


def _byte_level(
    files: TokenizerFiles, config: TokenizerConfig, tokenizer_json: TokenizerJson | None
) -> Tokenizer:
    if tokenizer_json:
        vocab, merges = tokenizer_json.model["vocab"], tokenizer_json.merges
    else:
        vocab, merges = files.table("vocab.json"), read_merges(files.text("merges.txt"))
        check_ids(vocab.values(), "vocab.json")
    lost = [pair for pair in merges if not ("".join(pair) in vocab and vocab.keys() >= set(pair))]
    if lost:
        raise TokenizerError(
            "tokenizer.merges_txt_of_other_vocabulary",
            "merges.txt must merge pieces of vocab.json, got {lost!r} and {lost_2!r}; give the "
            "two files of one tokenizer",
            lost=lost[0][0],
            lost_2=lost[0][1],
        )
    with library_errors("the vocabulary cannot be used"):
        model = models.BPE(
            vocab, merges, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False
        )
    tokenizer = Tokenizer(model)
    spaced = config.flag("add_prefix_space", default=False)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
