"""`--to ctranslate2`: encoder-decoders and language models for CTranslate2."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jumok.errors import InputError, Message
from jumok.export.report import ExportReport, NumericComparison
from jumok.export.samples import Samples
from jumok.export.target import Progress, Quantization
from jumok.formats.ctranslate2_spec import unsupported_reason
from jumok.formats.parity import ModelPair, model_pair
from jumok.models import EncoderDecoder
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.sentencepiece import SentencePieceTokenizer

TOLERANCE = 1e-4  # of log p: other kernels, other summation order
BEAMS = (1, 4)


@dataclass(frozen=True)
class CTranslate2:
    """A folder with `model.bin`, `config.json` and the vocabulary files."""

    libraries: tuple[str, ...] = ("ctranslate2",)
    quantizations: tuple[Quantization, ...] = ("int8",)
    tolerance: float = TOLERANCE

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

    def write(
        self,
        pipeline: Pipeline,
        folder: Path,
        samples: Samples,
        quantize: Quantization | None,
        progress: Progress,
    ) -> ExportReport:
        """Convert in float32 and compare; with int8, measure its cost."""
        pair = model_pair(pipeline)
        if quantize is None:
            return ExportReport(_compared(pair, folder, samples, progress))
        with TemporaryDirectory(dir=folder) as scratch:
            float32_folder = Path(scratch)
            compared = _compared(pair, float32_folder, samples, progress)
            progress("quantizing to int8")
            pair.convert(folder, "int8")
            progress(f"measuring int8 on {samples.dev_description}")
            cost = samples.cost(
                lambda table: pair.scores(float32_folder, "float32", table),
                lambda table: pair.scores(folder, "int8", table),
            )
        return ExportReport(compared, cost)

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write `model.bin`, `config.json` and the vocabularies."""
        model_pair(pipeline).convert(folder, "float32")

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference in log p of every token of the texts, or of generated targets."""
        return model_pair(pipeline).difference(folder, samples.rows)

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


def _compared(
    pair: ModelPair, folder: Path, samples: Samples, progress: Progress
) -> NumericComparison:
    """Convert in float32, compare log p of every token and generated texts."""
    progress("converting")
    pair.convert(folder, "float32")
    progress(f"comparing {samples.description}")
    compared = NumericComparison(
        "log p of every token",
        samples.description,
        pair.difference(folder, samples.rows),
        TOLERANCE,
        tuple(pair.compare_outputs(folder, samples.rows, beam) for beam in BEAMS),
    )
    compared.check_tolerance()
    return compared
