"""`--to onnx`: encoders and what they are asked, for onnxruntime and whoever else reads ONNX."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from jumok.data.packing import pad
from jumok.data.table import Table
from jumok.export.difference import difference
from jumok.export.onnx_graph import GRAPH, LARGEST, ByNames, quantize_graph, write_graph
from jumok.export.onnx_session import Session, exported_logits, speaking_for
from jumok.export.report import Compared, Outcome
from jumok.export.samples import Samples, Scores, numbers_of, tower_of
from jumok.export.target import Quantization, Tell
from jumok.models import (
    Decoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    LanguageModel,
    TextClassifier,
)
from jumok.models.weights import named_weights
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate
from jumok.text.ragged import Ragged

TOLERANCE = 1e-5
AT_ONCE = 8  # rows compared together


@dataclass(frozen=True)
class Onnx:
    """One file, `model.onnx`, with the names of inputs that transformers uses."""

    libraries: tuple[str, ...] = ("onnx", "onnxruntime", "onnxscript")

    def obstacle(self, loaded: Pipeline) -> str | None:
        """Models with a decoder write token by token, which one graph does not."""
        model = loaded.model
        if isinstance(model, EncoderDecoder | LanguageModel | Decoder):
            return (
                f"a {type(model).__name__} writes texts, ONNX holds encoders; use --to ctranslate2"
            )
        if isinstance(model, EncoderDecoderClassifier):
            return (
                "a classifier with a decoder came, ONNX holds encoders; train one of model.kind = "
                '"encoder"'
            )
        size = sum(4 * weight.numel() for weight in named_weights(model).values())
        if size > LARGEST:
            return (
                f"weights of {size:,} bytes came, a file of ONNX holds {LARGEST:,}; use --to hf, "
                "or a smaller model"
            )
        return None

    def write(
        self,
        loaded: Pipeline,
        folder: Path,
        samples: Samples,
        quantize: Quantization | None,
        tell: Tell,
    ) -> Outcome:
        """The graph in float32, compared with the model; of int8 the cost is measured."""
        graph = folder / GRAPH
        if quantize is None:
            return Outcome(self._written(loaded, graph, samples, tell))
        with TemporaryDirectory(dir=folder) as scratch:
            plain = Path(scratch) / GRAPH
            compared = self._written(loaded, plain, samples, tell)
            tell("weights to int8")
            quantize_graph(plain, graph)
            tell(f"measuring int8 on {samples.measured}")
            cost = samples.cost(_scoring(loaded, plain), _scoring(loaded, graph))
        return Outcome(compared, cost)

    def _written(self, loaded: Pipeline, graph: Path, samples: Samples, tell: Tell) -> Compared:
        tell("writing the graph")
        write_graph(loaded.model, graph)
        tell(f"comparing {samples.shown}")
        found = difference(both_answers(loaded.model, Session(graph), samples.rows))
        what = ByNames(loaded.model).output
        compared = Compared(what, samples.shown, found, TOLERANCE)
        compared.refuse_other_numbers()
        return compared

    def convert(self, loaded: Pipeline, folder: Path) -> None:
        """`model.onnx`."""
        write_graph(loaded.model, folder / GRAPH)

    def difference(self, loaded: Pipeline, folder: Path, samples: Samples) -> float:
        """Of the logits of padded batches, over real tokens."""
        return difference(both_answers(loaded.model, exported_logits(folder), samples.rows))

    def opening(self, loaded: Pipeline) -> str:
        """onnxruntime, and the ids that the model reads."""
        asked = ByNames(loaded.model)
        types = "" if len(asked.inputs) == 2 else ', "token_type_ids": 0 * ids'
        return f"""\
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
ids = np.array([[...]], dtype=np.int64)  # (texts, tokens), from the vocabulary beside it
feed = {{"input_ids": ids, "attention_mask": np.ones_like(ids){types}}}
(found,) = session.run(["{asked.output}"], feed)"""


@torch.inference_mode()
def both_answers(
    model: nn.Module, session: Session, rows: Ragged
) -> Iterator[tuple[Tensor, Tensor]]:
    """What the session and the model say to rows padded left or right: to their real tokens."""
    plain = ByNames(model)
    segments = tower_of(model).embedding.segments
    kinds = 1 if segments is None else segments.num_embeddings
    for start in range(0, len(rows), AT_ONCE):
        batch = [rows[i] for i in range(start, min(start + AT_ONCE, len(rows)))]
        box = pad(batch, 0, left=start // AT_ONCE % 2 == 1)
        ids, real = torch.from_numpy(box.ids), torch.from_numpy(box.mask)
        asked = (ids, real.long(), ids % kinds)[: len(plain.inputs)]
        theirs, ours = session(*asked), plain(*asked)
        if not isinstance(model, TextClassifier):  # of padding nothing is asked
            theirs, ours = theirs[real], ours[real]
        yield theirs, ours


def _scoring(loaded: Pipeline, graph: Path) -> Callable[[Table], Scores]:
    """What scores the graph as its task scores the model."""

    def scores(table: Table) -> Scores:
        twin = speaking_for(loaded, Session(graph))
        return numbers_of(evaluate(twin, table, "dev").scores)

    return scores
