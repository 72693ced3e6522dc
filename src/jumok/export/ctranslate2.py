"""`--to ctranslate2`: encoder-decoders and language models, for programs that write with it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jumok.export.ctranslate2_spec import obstacle
from jumok.export.parity import Twin, twin_of
from jumok.export.report import Compared, Outcome
from jumok.export.samples import Samples
from jumok.export.target import Quantization, Tell
from jumok.models import EncoderDecoder
from jumok.tasks.inputs.special_tokens import decoder_start_id
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.sentencepiece import SentencePieceTokenizer

TOLERANCE = 1e-4  # of log p: other kernels, other orders of sums
BEAMS = (1, 4)


@dataclass(frozen=True)
class CTranslate2:
    """A folder with `model.bin`, its settings and the pieces of its vocabularies."""

    libraries: tuple[str, ...] = ("ctranslate2",)

    def obstacle(self, loaded: Pipeline) -> str | None:
        """What CTranslate2 cannot express of this model."""
        if not loaded.has_text_head:
            return f"a {loaded.architecture} has no head that writes; train one with model.init"
        return obstacle(loaded.model)

    def write(
        self,
        loaded: Pipeline,
        folder: Path,
        samples: Samples,
        quantize: Quantization | None,
        tell: Tell,
    ) -> Outcome:
        """The model in float32, compared with ours; of int8 the cost is measured."""
        twin = twin_of(loaded)
        if quantize is None:
            return Outcome(_compared(twin, folder, samples, tell))
        with TemporaryDirectory(dir=folder) as scratch:
            plain = Path(scratch)
            compared = _compared(twin, plain, samples, tell)
            tell("weights to int8")
            twin.convert(folder, "int8")
            tell(f"measuring int8 on {samples.measured}")
            cost = samples.cost(
                lambda table: twin.scores(plain, "float32", table),
                lambda table: twin.scores(folder, "int8", table),
            )
        return Outcome(compared, cost)

    def convert(self, loaded: Pipeline, folder: Path) -> None:
        """`model.bin`, `config.json` and the pieces of the vocabularies."""
        twin_of(loaded).convert(folder, "float32")

    def difference(self, loaded: Pipeline, folder: Path, samples: Samples) -> float:
        """Of log p of every token: of the texts read, or of those written for the sources."""
        return twin_of(loaded).difference(folder, samples.rows)

    def opening(self, loaded: Pipeline) -> str:
        """CTranslate2, and pieces as the vocabulary cuts them."""
        vocabulary = loaded.vocabulary
        if not isinstance(vocabulary, SentencePieceTokenizer):
            cut, read = _TOKENIZER, "tokenizer.convert_tokens_to_string"
        else:
            cut, read = _PIECES, "pieces.decode"
            if not loaded.recipe.vocabulary.joint:
                cut += '\ntarget = sentencepiece.SentencePieceProcessor("vocabulary.target.model")'
                read = "target.decode"
        if isinstance(loaded.model, EncoderDecoder):
            return f"""\
{cut}
translator = ctranslate2.Translator(".")
(answer,) = translator.translate_batch([tokens], beam_size=4, min_decoding_length=0)
print({read}(answer.hypotheses[0]))"""
        alone = loaded.recipe.windows.across_documents
        begin = "" if alone else f'"{vocabulary.piece(decoder_start_id(vocabulary))}", '
        return f"""\
{cut}
generator = ctranslate2.Generator(".")
(answer,) = generator.generate_batch([[{begin}*tokens]], max_length=64)
print({read}(answer.sequences[0]))"""


_PIECES = """\
import unicodedata

import ctranslate2
import sentencepiece

pieces = sentencepiece.SentencePieceProcessor("vocabulary.model")
tokens = pieces.encode(unicodedata.normalize("NFC", "..."), out_type=str)"""

_TOKENIZER = """\
import ctranslate2
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("the checkpoint this came from")
tokens = tokenizer.convert_ids_to_tokens(tokenizer("...").input_ids)"""


def _compared(twin: Twin, folder: Path, samples: Samples, tell: Tell) -> Compared:
    """Convert in float32; log p of every token, and what both write."""
    tell("converting")
    twin.convert(folder, "float32")
    tell(f"comparing {samples.shown}")
    compared = Compared(
        "log p of every token",
        samples.shown,
        twin.difference(folder, samples.rows),
        TOLERANCE,
        tuple(twin.searched(folder, samples.rows, beam) for beam in BEAMS),
    )
    compared.refuse_other_numbers()
    return compared
