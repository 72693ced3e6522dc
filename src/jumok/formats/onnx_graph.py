"""Export an encoder to an ONNX graph with dynamic batch size and length.

The graph uses explicit attention (equation 1), as a model with hooks does: plain matrix products,
which every runtime supports and which can be quantized. Shapes: B texts, T tokens.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.export.samples import backbone_of
from jumok.models import Encoder, SentenceEncoder
from jumok.nn.hooks import HookPoint, shared_copy
from jumok.nn.masks import positions_from_mask

GRAPH = "model.onnx"
MAX_BYTES = 2**31 - 2**20  # an ONNX file is one protobuf message


class NamedInputs(nn.Module):
    """A model with the inputs of transformers; positions follow from the mask.

    >>> from jumok.models import TextClassifier, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> wrapped = NamedInputs(TextClassifier(config, n_labels=2)).eval()
    >>> ids = torch.tensor([[4, 5, 6]])
    >>> padded = torch.tensor([[0, 4, 5, 6]])
    >>> alone = wrapped(ids, torch.ones_like(ids))
    >>> bool(torch.allclose(wrapped(padded, torch.tensor([[0, 1, 1, 1]])), alone, atol=1e-6))
    True
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def inputs(self) -> tuple[str, ...]:
        """Input names, each (B, T) int64; token_type_ids only if the model uses them."""
        segmented = backbone_of(self.model).embedding.segments is not None
        return ("input_ids", "attention_mask", *(["token_type_ids"] if segmented else []))

    @property
    def output(self) -> str:
        """The name of the output."""
        if isinstance(self.model, SentenceEncoder):
            return "sentence_embedding"
        return "last_hidden_state" if isinstance(self.model, Encoder) else "logits"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """attention_mask is 1 for real tokens; padding may be on either side."""
        mask = attention_mask.bool()
        return self.model(  # type: ignore[no-any-return]
            input_ids, mask, positions=positions_from_mask(mask), segments=token_type_ids
        )


def write_graph(model: nn.Module, path: Path) -> None:
    """Write the graph of a model to `path`, in float32, with the names of `NamedInputs`."""
    import onnx

    wrapped = NamedInputs(_with_explicit_attention(model)).eval()
    batch = torch.export.Dim("batch")
    length = torch.export.Dim("length", max=backbone_of(model).embedding.max_length)
    # separate tensors: the exporter merges inputs that are the same object
    examples = tuple(torch.ones(2, 3, dtype=torch.int64) for _ in wrapped.inputs)
    with _quiet():
        program = torch.onnx.export(
            wrapped,
            examples,
            input_names=wrapped.inputs,
            output_names=(wrapped.output,),
            dynamic_shapes=({0: batch, 1: length},) * len(wrapped.inputs),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    message = program.model_proto
    for node in message.graph.node:
        node.ClearField("metadata_props")  # file paths of this machine
    message.graph.ClearField("value_info")  # would contradict the shapes after quantization
    onnx.save(message, path)


def quantize_graph(path: Path, quantized: Path) -> None:
    """Quantize the weights of a graph to int8; activations are quantized dynamically."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with _quiet():
        quantize_dynamic(path, quantized, weight_type=QuantType.QInt8, per_channel=True)


def _with_explicit_attention(model: nn.Module) -> nn.Module:
    """A copy of the model with a hook on each attention, which selects explicit attention."""
    view = shared_copy(model)
    for point in view.modules():
        if isinstance(point, HookPoint):
            point.register_forward_hook(lambda point, inputs, weights: weights)
    return view


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log messages and warnings of the exporters, not their errors."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
