"""WordPiece as BERT, ELECTRA and DistilBERT have it: vocab.txt, or the vocab of tokenizer.json.

Whatever tokenizer.json says of lower case and accents, transformers asks tokenizer_config.json:
with nothing said there a text is lower-cased and stripped of accents, and Hangul comes apart.
"""

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from jumok.text.pretrained.files import TokenizerFiles
from jumok.text.pretrained.library_errors import library_errors
from jumok.text.pretrained.special_tokens import Assembly, add_pieces, named_pieces, piece_id
from jumok.text.pretrained.tokenizer_config import Settings
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.text.template import Fixed, Slot

_DEFAULTS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}

# What Rust calls white space at the end of a line: Python's strip takes four more signs.
_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def bert(files: TokenizerFiles, settings: Settings, written: TokenizerJson | None) -> Assembly:
    """BERT's tokeniser, which numbers segments."""
    return _bert(files, settings, written, has_token_type_ids=True)


def distilbert(
    files: TokenizerFiles, settings: Settings, written: TokenizerJson | None
) -> Assembly:
    """DistilBERT's, which does not."""
    return _bert(files, settings, written, has_token_type_ids=False)


def read_lines(text: str) -> dict[str, int]:
    r"""The pieces of a vocab.txt, one a line; of equal ones the last counts.

    >>> read_lines("[UNK]\n나무\r\n##들 \n")
    {'[UNK]': 0, '나무': 1, '##들': 2}
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return {line.rstrip(_SPACE): i for i, line in enumerate(lines)}


def _bert(
    files: TokenizerFiles,
    settings: Settings,
    written: TokenizerJson | None,
    *,
    has_token_type_ids: bool,
) -> Assembly:
    named = named_pieces(settings, _DEFAULTS)
    vocab = written.model["vocab"] if written else read_lines(files.text("vocab.txt"))
    unknown = str(named["unk_token"])
    with library_errors("the vocabulary cannot be used"):
        tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=settings.flag("tokenize_chinese_chars", default=True),
            strip_accents=settings.optional_flag("strip_accents"),  # None: as do_lower_case
            lowercase=settings.flag("do_lower_case", default=True),
        )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    names = add_pieces(tokenizer, settings, named)
    cls = Fixed((piece_id(tokenizer, names, "cls_token"),))
    sep = piece_id(tokenizer, names, "sep_token")
    single = (cls, Slot(0), Fixed((sep,)))
    return Assembly(
        tokenizer,
        names,
        (single, (*single, Slot(1, 1), Fixed((sep,), 1))),
        unknown=tokenizer.token_to_id(unknown),
        has_token_type_ids=settings.has_token_type_ids(has_token_type_ids),
    )
