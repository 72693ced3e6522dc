"""`--to onnx`: encoders and what they are asked, for onnxruntime and whoever else reads ONNX."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from jumok.data.ragged import Ragged
from jumok.data.table import Table
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
from jumok.models.weights import weights_of
from jumok.tasks.answering import Loaded
from jumok.tasks.scoring import score

TOLERANCE = 1e-5
AT_ONCE = 8  # rows compared together


@dataclass(frozen=True)
class Onnx:
    """One file, `model.onnx`, with the names of inputs that transformers uses."""

    libraries: tuple[str, ...] = ("onnx", "onnxruntime", "onnxscript")

    def obstacle(self, loaded: Loaded) -> str | None:
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
        size = sum(4 * weight.numel() for weight in weights_of(model).values())
        if size > LARGEST:
            return (
                f"weights of {size:,} bytes came, a file of ONNX holds {LARGEST:,}; use --to hf, "
                "or a smaller model"
            )
        return None

    def write(
        self,
        loaded: Loaded,
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

    def _written(self, loaded: Loaded, graph: Path, samples: Samples, tell: Tell) -> Compared:
        tell("writing the graph")
        write_graph(loaded.model, graph)
        tell(f"comparing {samples.shown}")
        difference = largest_difference(loaded.model, Session(graph), samples.rows)
        what = ByNames(loaded.model).output
        compared = Compared(what, samples.shown, difference, TOLERANCE)
        compared.refuse_other_numbers()
        return compared

    def convert(self, loaded: Loaded, folder: Path) -> None:
        """`model.onnx`."""
        write_graph(loaded.model, folder / GRAPH)

    def difference(self, loaded: Loaded, folder: Path, samples: Samples) -> float:
        """Of the logits of padded batches, over real tokens."""
        return largest_difference(loaded.model, exported_logits(folder), samples.rows)

    def opening(self, loaded: Loaded) -> str:
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
def largest_difference(model: nn.Module, session: Session, rows: Ragged) -> float:
    """max |session - model| / max(1, max |model|) over real tokens of rows padded left or right."""
    plain = ByNames(model)
    segments = tower_of(model).embedding.segments
    kinds = 1 if segments is None else segments.num_embeddings
    far, largest = torch.zeros(()), torch.ones(())
    for start in range(0, len(rows), AT_ONCE):
        batch = [rows[i].tolist() for i in range(start, min(start + AT_ONCE, len(rows)))]
        ids, real = _padded(batch, left=start // AT_ONCE % 2 == 1)
        asked = (ids, real, ids % kinds)[: len(plain.inputs)]
        ours, theirs = plain(*asked), session(*asked)
        if not isinstance(model, TextClassifier):  # of padding nothing is asked
            ours, theirs = ours[real.bool()], theirs[real.bool()]
        far = torch.maximum(far, (ours - theirs).abs().max())  # NaN stays
        largest = torch.maximum(largest, ours.abs().max())
    return float(far / largest)


def _padded(batch: list[list[int]], *, left: bool) -> tuple[Tensor, Tensor]:
    """The rows as one rectangle, and its mask: 2 x (B, T) int64."""
    width = max(map(len, batch))
    ids, real = torch.zeros(2, len(batch), width, dtype=torch.int64)
    for number, row in enumerate(batch):
        place = slice(width - len(row), None) if left else slice(0, len(row))
        ids[number, place], real[number, place] = torch.tensor(row), 1
    return ids, real


def _scoring(loaded: Loaded, graph: Path) -> Callable[[Table], Scores]:
    """What scores the graph as its task scores the model."""

    def scores(table: Table) -> Scores:
        twin = speaking_for(loaded, Session(graph))
        return numbers_of(score(twin, table, "dev").scores)

    return scores
