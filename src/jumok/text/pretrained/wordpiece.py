"""WordPiece of BERT, ELECTRA and DistilBERT: vocab.txt, or the vocab of tokenizer.json.

transformers reads lower case and accents from tokenizer_config.json, not from tokenizer.json. By
default texts are lower-cased and accents are stripped, which decomposes Hangul syllables.
"""

import unicodedata

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from jumok.text.limits import check_pieces
from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.post_processor import bert_template
from jumok.text.pretrained.special_tokens import (
    BERT_PIECES,
    TokenizerSpec,
    add_pieces,
    named_pieces,
    piece_id,
)
from jumok.text.pretrained.tokenizer_config import TokenizerConfig
from jumok.text.pretrained.tokenizer_json import TokenizerJson

INSIDE_WORD = "##"  # the prefix of pieces that continue a word

# White space at the end of a line in Rust; Python's strip removes four more characters.
_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def read_lines(text: str) -> dict[str, int]:
    r"""The pieces of a vocab.txt, one a line; of duplicates the last counts.

    >>> read_lines("[UNK]\n나무\r\n##들 \n")
    {'[UNK]': 0, '나무': 1, '##들': 2}
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return {line.rstrip(_SPACE): i for i, line in enumerate(lines)}


def is_word_boundary(character: str) -> bool:
    """Whether WordPiece splits at a character: a Chinese one, or punctuation.

    As in BERT, all of ASCII but letters, digits and white space is punctuation.
    """
    if unicodedata.name(character, "").startswith("CJK"):
        return True
    sign = character.isascii() and character.isprintable() and not character.isalnum()
    return sign or unicodedata.category(character).startswith("P")


def bert(
    files: TokenizerFiles,
    config: TokenizerConfig,
    tokenizer_json: TokenizerJson | None,
    *,
    has_token_type_ids: bool = True,
) -> TokenizerSpec:
    """BERT; DistilBERT has no token types."""
    named = named_pieces(config, BERT_PIECES)
    vocab = tokenizer_json.model["vocab"] if tokenizer_json else read_lines(files.text("vocab.txt"))
    check_pieces(vocab)
    unknown = str(named["unk_token"])
    with library_errors("the vocabulary cannot be used"):
        tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=config.flag("tokenize_chinese_chars", default=True),
            strip_accents=config.optional_flag("strip_accents"),  # None: as do_lower_case
            lowercase=config.flag("do_lower_case", default=True),
        )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=INSIDE_WORD)
    names = add_pieces(tokenizer, config, named)
    cls, sep = (piece_id(tokenizer, names, name) for name in ("cls_token", "sep_token"))
    return TokenizerSpec(
        tokenizer,
        names,
        bert_template(cls, sep),
        unk_id=tokenizer.token_to_id(unknown),
        has_token_type_ids=config.has_token_type_ids(has_token_type_ids),
    )
