"""An exported graph, open in onnxruntime: asked alone, or in the place of a model.

Shapes: B texts, T tokens, L labels, V vocabulary, D model width.
"""

from collections.abc import Callable
from copy import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from jumok.export.onnx_graph import GRAPH
from jumok.models import MaskedLanguageModel
from jumok.nn.hooks import shared_copy
from jumok.nn.masks import AttentionMask
from jumok.tasks.pipeline.pipeline import Pipeline

Speaker = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""input_ids, attention_mask and token_type_ids (B, T) to what a model answers."""


class Session:
    """A graph as a function, on the CPU, with as many threads as torch has.

    `exported_logits(folder)` makes one of a folder of `jumok export`.
    """

    def __init__(self, path: Path) -> None:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors
        self._session = InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self._inputs = [each.name for each in self._session.get_inputs()]

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Integers (B, T) -> float32 (B, L), (B, T, L), (B, T, V), or (B, T, D) without a head."""
        given = {
            "input_ids": input_ids,
            "attention_mask": torch.ones_like(input_ids)
            if attention_mask is None
            else attention_mask,
            "token_type_ids": torch.zeros_like(input_ids)
            if token_type_ids is None
            else token_type_ids,
        }
        (found,) = self._session.run(
            None, {name: given[name].long().cpu().numpy() for name in self._inputs}
        )
        return torch.from_numpy(found)


def exported_logits(folder: Path) -> Session:
    """The model in a folder of `jumok export --to onnx`, asked like `Loaded.logits`."""
    return Session(folder / GRAPH)


def speaking_for(loaded: Pipeline, speaker: Speaker) -> Pipeline:
    """The same task and vocabulary, answered by a session: to be scored like the model itself."""

    def answer(
        ids: Tensor,
        seen: Tensor | AttentionMask | None = None,
        *,
        positions: Tensor | None = None,  # follow from what is seen
        segments: Tensor | None = None,
    ) -> Tensor:
        real = seen.allowed if isinstance(seen, AttentionMask) else seen
        mask = torch.ones_like(ids) if real is None else real.view(ids.shape)
        return speaker(ids, mask, segments)

    twin = copy(loaded)
    twin.model = shared_copy(loaded.model)
    spoken: nn.Module = twin.model
    if isinstance(twin.model, MaskedLanguageModel):  # scored where its blanks are, head by head
        twin.model.transform, twin.model.output = nn.Sequential(), nn.Identity()  # type: ignore[assignment]
        spoken = twin.model.encoder
    spoken.forward = answer
    return twin
