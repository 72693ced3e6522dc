"""An encoder as an ONNX graph: traced from the plain model, batch and length left open.

The graph has the attention written out (equation 1), the path a watched model takes: plain matrix
products that every runtime knows and that can be quantised. Shapes: B texts, T tokens.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.export.samples import backbone_of
from jumok.models import Encoder
from jumok.nn.hooks import HookPoint, shared_copy
from jumok.nn.masks import positions_from_mask

GRAPH = "model.onnx"
MAX_BYTES = 2**31 - 2**20  # bytes: an ONNX file is one message of protocol buffers


class NamedInputs(nn.Module):
    """A model with an encoder, asked as transformers asks: positions follow from the mask.

    >>> from jumok.models import TextClassifier, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> asked, ids = NamedInputs(TextClassifier(config, n_labels=2)).eval(), torch.tensor([[4, 5, 6]])
    >>> padded = torch.tensor([[0, 4, 5, 6]])
    >>> alone = asked(ids, torch.ones_like(ids))
    >>> bool(torch.allclose(asked(padded, torch.tensor([[0, 1, 1, 1]])), alone, atol=1e-6))
    True
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of its inputs, each (B, T) int64; types of tokens where the model has them."""
        segmented = backbone_of(self.model).embedding.segments is not None
        return ("input_ids", "attention_mask", *(["token_type_ids"] if segmented else []))

    @property
    def output(self) -> str:
        """The name of its output."""
        return "last_hidden_state" if isinstance(self.model, Encoder) else "logits"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """attention_mask is 1 for real tokens, which padding may stand before or behind."""
        real = attention_mask.bool()
        return self.model(  # type: ignore[no-any-return]
            input_ids, real, positions=positions_from_mask(real), segments=token_type_ids
        )


def write_graph(model: nn.Module, path: Path) -> None:
    """Write the model's graph to `path`, in float32, with the names of `ByNames`."""
    import onnx

    asked = NamedInputs(_written_out(model)).eval()
    batch = torch.export.Dim("batch")
    length = torch.export.Dim("length", max=backbone_of(model).embedding.max_length)
    examples = tuple(
        torch.ones(2, 3, dtype=torch.int64) for _ in asked.inputs
    )  # twins would be one
    with _quiet():
        program = torch.onnx.export(
            asked,
            examples,
            input_names=asked.inputs,
            output_names=(asked.output,),
            dynamic_shapes=({0: batch, 1: length},) * len(asked.inputs),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    message = program.model_proto
    for node in message.graph.node:
        node.ClearField("metadata_props")  # where it was traced: paths on this machine
    message.graph.ClearField("value_info")  # shapes that quantising would contradict
    onnx.save(message, path)


def quantize_graph(path: Path, quantized: Path) -> None:
    """The graph in `path` with its weights in int8; inputs of matrix products as they come."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet():
        quantize_dynamic(path, quantized, weight_type=QuantType.QInt8, per_channel=True)


def _written_out(model: nn.Module) -> nn.Module:
    """A view of the model whose every attention is watched, and so written out."""
    view = shared_copy(model)
    for point in view.modules():
        if isinstance(point, HookPoint):
            point.register_forward_hook(lambda point, inputs, weights: weights)
    return view


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporters tell of themselves; their errors come through."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
