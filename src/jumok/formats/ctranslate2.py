"""`--to ctranslate2`: encoder-decoders and language models for CTranslate2."""

from collections.abc import Iterator
from pathlib import Path

from jumok.data.table import Table
from jumok.errors import InputError, Message
from jumok.export.report import OutputComparison
from jumok.export.samples import Samples, Scores
from jumok.export.target import Quantization, Target
from jumok.formats.ctranslate2_spec import unsupported_reason
from jumok.formats.parity import model_pair
from jumok.models import EncoderDecoder
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.sentencepiece import SentencePieceTokenizer

BEAMS = (1, 4)


class CTranslate2(Target):
    """A folder with `model.bin`, `config.json` and the vocabulary files."""

    libraries = ("ctranslate2",)
    quantizations = ("int8",)
    tolerance = 1e-4  # of log p: other kernels, other summation order

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why CTranslate2 does not support this model; None if it does."""
        if not pipeline.has_text_head:
            return Message(
                "export.no_lm_head",
                "a {architecture} has no LM head; train one with model.init",
                architecture=pipeline.architecture,
            )
        reason = unsupported_reason(pipeline.model)
        if reason is not None:
            return reason
        try:
            model_pair(pipeline)
        except InputError as error:  # of its vocabularies
            return error.message
        return None

    def output_name(self, pipeline: Pipeline) -> str:
        """CTranslate2 returns no logits."""
        return "log p of every token"

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write `model.bin`, `config.json` and the vocabularies."""
        model_pair(pipeline).convert(folder, "float32")

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference in log p of every token of the texts, or of generated targets."""
        return model_pair(pipeline).difference(folder, samples.rows)

    def compare_outputs(
        self, pipeline: Pipeline, folder: Path, samples: Samples
    ) -> Iterator[OutputComparison]:
        """Compare what both models generate, greedily and with a beam."""
        pair = model_pair(pipeline)
        return (pair.compare_outputs(folder, samples.rows, beam) for beam in BEAMS)

    def quantize(
        self, pipeline: Pipeline, converted: Path, folder: Path, weights: Quantization
    ) -> None:
        """Convert the model again."""
        model_pair(pipeline).convert(folder, "int8")

    def scores(
        self, pipeline: Pipeline, folder: Path, weights: Quantization | None, table: Table
    ) -> Scores:
        """The scores of the conversion."""
        return model_pair(pipeline).scores(folder, "int8" if weights else "float32", table)

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code with CTranslate2 and the tokenizer."""
        vocabulary = pipeline.vocabulary
        if not isinstance(vocabulary, SentencePieceTokenizer):
            cut, read = _TOKENIZER, "tokenizer.convert_tokens_to_string"
        else:
            cut, read = _PIECES, "pieces.decode"
            if not pipeline.recipe.vocabulary.joint:
                cut += '\ntarget = sentencepiece.SentencePieceProcessor("vocabulary.target.model")'
                read = "target.decode"
        if isinstance(pipeline.model, EncoderDecoder):
            return f"""\
{cut}
translator = ctranslate2.Translator(".")
(answer,) = translator.translate_batch([tokens], beam_size=4, min_decoding_length=0)
print({read}(answer.hypotheses[0]))"""
        no_bos = pipeline.recipe.windows.across_documents
        bos = "" if no_bos else f'"{vocabulary.piece(vocabulary.decoder_start_id)}", '
        return f"""\
{cut}
generator = ctranslate2.Generator(".")
(answer,) = generator.generate_batch([[{bos}*tokens]], max_length=64)
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

tokenizer = AutoTokenizer.from_pretrained("the imported checkpoint")
tokens = tokenizer.convert_ids_to_tokens(tokenizer("...").input_ids)"""
