"""Incremental decoding with the C++ kernel, under the protocols of `jumok.decoding.incremental`.

Shapes: B decoded rows, N sources, S source tokens, T new tokens, V vocabulary.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.errors import InputError, JumokError
from jumok.native.library import NO_SUCH_ROW, OK, OUT_OF_VOCABULARY, StepCall, library
from jumok.native.model import NativeModel
from jumok.native.threads import kernel_threads


class NativeDecoder:
    """The state of one request to a native model: several rows that are decoded together.

    An encoder-decoder takes the sources to encode; a language model takes no source, and the left
    padding of each prompt if there is any. Uses `kernel_threads()` threads. Beams of one
    source share its cross-attention cache, and beams with a common prefix share its slots.

        decoder = NativeDecoder(NativeModel(model), source, source_mask, capacity=100)
        logits = decoder.step(torch.full((len(source), 1), bos_id))
    """

    def __init__(
        self,
        model: NativeModel,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        capacity: int,
    ) -> None:
        """source (N, S) int64; source_mask (N, S) bool, None without padding; padding (B) int64."""
        if model.has_encoder != (source is not None):
            raise InputError(
                "kernel.source_of_decoder",
                "source must be given for an encoder-decoder only; {has_encoder} the source",
                has_encoder="give" if model.has_encoder else "leave out",
            )
        if capacity > model.max_length:
            raise InputError(
                "kernel.capacity_too_large",
                "capacity must be at most {max_length} tokens, got {capacity}; use less, "
                'decoding.kernel = "torch", or a model with a larger model.max_length',
                max_length=model.max_length,
                capacity=capacity,
            )
        self.vocabulary_size = model.vocabulary_size
        self.model = model  # keeps the weights alive
        self._capacity = capacity
        self._length = 0
        self._n_rows: int | None = None
        self._failed = False
        self._n_recorded = 0
        self._library = library()
        self._request: int = self._library.jumok_create_request(model.handle)
        if source is not None:
            self._encode_sources(source, source_mask)
        elif padding is not None:
            if len(padding) and int(padding.min()) < 0:
                raise InputError(
                    "kernel.negative_padding",
                    "padding must be 0 or more tokens, got {min}",
                    min=int(padding.min()),
                )
            self._reset(len(padding), _on_cpu(padding).long().contiguous())

    def __del__(self) -> None:
        if hasattr(self, "_request"):
            self._library.jumok_free_request(self._request)

    @property
    def length(self) -> int:
        """The number of cached positions, padding included."""
        return self._length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, V) float32 after the last token."""
        return self._logits(ids, all_positions=False)

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, T, V) float32 after every token; 0 on padding."""
        return self._logits(ids, all_positions=True)

    def top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """A step that returns only the k most likely tokens, in descending order.

        (B, T) int64 -> log-probabilities (B, k) float32 and tokens (B, k) int64; ties are resolved
        by the smaller id.
        """
        self._check_k(k)
        ids = self._check_ids(ids)
        log_p = torch.empty(len(ids), k)
        tokens = torch.empty(len(ids), k, dtype=torch.int64)
        self._check_status(
            self._library.jumok_topk(
                *(self._request, ids.data_ptr(), ids.shape[1], k),
                *(log_p.data_ptr(), tokens.data_ptr(), kernel_threads()),
            )
        )
        self._length += ids.shape[1]
        return log_p, tokens

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order."""
        if self._n_rows is None:
            return  # the first step determines the number of rows
        rows = _on_cpu(rows).long().contiguous()
        self._check_status(self._library.jumok_reorder(self._request, rows.data_ptr(), len(rows)))
        self._n_rows = len(rows)

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions of every row."""
        if not 0 <= tokens <= self._length:
            raise InputError(
                "kernel.rewind_range",
                "rewind must be by 0 to {length} positions, got {tokens}; rewind by less",
                length=self._length,
                tokens=tokens,
            )
        self._library.jumok_rewind(self._request, tokens)
        self._length -= tokens

    def record_attention(
        self, block: Literal["self", "cross"], heads: Sequence[tuple[int, int]]
    ) -> None:
        """Record the weights of these heads (layer, head) of the decoder from the next step on."""
        model = self.model
        if block == "cross" and not model.has_encoder:
            raise InputError(
                "kernel.cross_attention_needs_encoder_decoder",
                "cross-attention needs an encoder-decoder, got a language model",
            )
        for layer, head in heads:
            if not (0 <= layer < model.n_decoder_layers and 0 <= head < model.n_heads):
                raise InputError(
                    "kernel.heads_range",
                    "heads must be (layer, head) up to ({n_decoder_layers}, {n_heads}), got "
                    "({layer}, {head})",
                    n_decoder_layers=model.n_decoder_layers - 1,
                    n_heads=model.n_heads - 1,
                    layer=layer,
                    head=head,
                )
        if len(set(heads)) < len(heads):
            raise InputError(
                "kernel.head_twice", "each head must be given once, got {heads}", heads=list(heads)
            )
        numbers = [layer * model.n_heads + head for layer, head in heads]
        chosen = torch.tensor(numbers, dtype=torch.int32)
        self._check_status(
            self._library.jumok_record_attention(
                *(self._request, block == "cross", chosen.data_ptr(), len(heads))
            )
        )
        self._n_recorded = len(heads)

    def recorded_attention(self) -> Tensor:
        """The weights of the newest token of each row, before any reorder: (B, heads, S) float32.

        S is the largest number of keys: real source tokens for cross-attention, cached tokens
        without padding for self-attention. A row with fewer has zeros at the end.
        """
        width = int(self._library.jumok_attention_width(self._request))
        shape = (self._n_rows or 0, self._n_recorded, width)
        weights = torch.from_numpy(np.zeros(shape, np.float32))  # without other threads
        self._library.jumok_read_attention(self._request, weights.data_ptr())
        return weights

    def mean_attention(self) -> NDArray[np.float32]:
        """The mean of `recorded_attention` over the heads: (B, S)."""
        width = int(self._library.jumok_attention_width(self._request))
        mean = np.empty((self._n_rows or 0, width), np.float32)
        self._library.jumok_read_mean_attention(self._request, mean.ctypes.data)
        return mean

    def _encode_sources(self, source: Tensor, source_mask: Tensor | None) -> None:
        if source.ndim != 2 or (source_mask is not None and source_mask.shape != source.shape):
            mask = "no mask" if source_mask is None else f"a mask {tuple(source_mask.shape)}"
            raise InputError(
                "kernel.source_shape",
                "source and source_mask must both be (sources, tokens), got source {shape} and "
                "{mask}",
                shape=tuple(source.shape),
                mask=mask,
            )
        N, S = source.shape
        if self.model.max_length < S:
            raise InputError(
                "kernel.source_too_long",
                "the source must have at most {max_length} tokens, got {s}; shorten the text or "
                "train with a larger model.max_length",
                max_length=self.model.max_length,
                s=S,
            )
        source = _on_cpu(source).long().contiguous()
        source_mask = None if source_mask is None else _on_cpu(source_mask).bool().contiguous()
        mask_address = None if source_mask is None else source_mask.data_ptr()
        self._n_rows = N
        self._check_status(
            self._library.jumok_encode_sources(
                *(self._request, source.data_ptr(), mask_address),
                *(N, S, kernel_threads()),
            ),
            self.model.source_vocabulary_size,
        )

    def _reset(self, n_rows: int, padding: Tensor | None) -> None:
        self._n_rows = n_rows
        address = None if padding is None else padding.data_ptr()
        self._check_status(self._library.jumok_reset(self._request, address, n_rows))

    def _check_k(self, k: int) -> None:
        if not 0 < k <= self.vocabulary_size:
            raise InputError(
                "kernel.k_range",
                "k must be from 1 to {vocabulary_size} tokens, got {k}",
                vocabulary_size=self.vocabulary_size,
                k=k,
            )

    def _check_ids(self, ids: Tensor) -> Tensor:
        """The new tokens, checked and contiguous."""
        self._check_memory()
        if self._n_rows is None:
            self._reset(len(ids), None)
        if ids.ndim != 2 or len(ids) != self._n_rows or ids.shape[1] < 1:
            raise InputError(
                "kernel.ids_shape",
                "ids must be ({n_rows}, T) with T of 1 or more, got {shape}",
                n_rows=self._n_rows,
                shape=tuple(ids.shape),
            )
        self._check_capacity(ids.shape[1])
        return _on_cpu(ids).long().contiguous()

    def _prepare_token(self) -> int:
        """The number of rows, after the checks of a step with one token each."""
        self._check_memory()
        if self._n_rows is None:
            self._reset(1, None)
        self._check_capacity(1)
        return self._n_rows or 0

    def _check_memory(self) -> None:
        if self._failed:
            raise JumokError(
                "kernel.out_of_memory_before",
                "memory ran out in an earlier step; start again with a new decoder",
            )

    def _check_capacity(self, n: int) -> None:
        if self._length + n > self._capacity:
            raise InputError(
                "kernel.capacity_exceeded",
                "the decoder must not exceed its capacity of {capacity} positions, got {length}; "
                "create it with a larger capacity",
                capacity=self._capacity,
                length=self._length + n,
            )

    def _logits(self, ids: Tensor, *, all_positions: bool) -> Tensor:
        ids = self._check_ids(ids)
        B, T = ids.shape
        V = self.vocabulary_size
        logits = torch.empty((B, T, V) if all_positions else (B, V))
        self._check_status(
            self._library.jumok_step(
                *(self._request, ids.data_ptr(), T, all_positions),
                *(logits.data_ptr(), kernel_threads()),
            )
        )
        self._length += T
        return logits

    def _check_status(self, status: int, vocabulary_size: int | None = None) -> None:
        if status == OUT_OF_VOCABULARY:
            size = vocabulary_size or self.vocabulary_size
            raise InputError(
                "kernel.token_id_range",
                "token ids must be from 0 to {size}, got one outside this range; use ids of the "
                "model's own vocabulary",
                size=size - 1,
            )
        if status == NO_SUCH_ROW:
            raise InputError(
                "kernel.rows_range",
                "rows must be from 0 to {n_rows}, got another one",
                n_rows=(self._n_rows or 0) - 1,
            )
        if status != OK:
            self._failed = True  # some rows may be ahead of others
            raise JumokError(
                "kernel.out_of_memory_in_decoding",
                "memory ran out while decoding; decode fewer rows at once",
            )


class DecoderStep(NamedTuple):
    """The step of one decoder: the new tokens (B, T), and k > 0 for the k most likely only."""

    decoder: NativeDecoder
    ids: Tensor
    k: int = 0


def step_together(steps: Sequence[DecoderStep]) -> list[Tensor | tuple[Tensor, Tensor]]:
    """The steps of several decoders of one `NativeModel`, computed as one pass.

    Returns for each what `step`, or with k `top_k`, returns; the bytes are the same. T may differ.
    Raises InputError, before a decoder changes, if the arguments of one are wrong.

        a, b = step_together([DecoderStep(first, ids), DecoderStep(second, other_ids, k=4)])
    """
    first = steps[0].decoder
    if any(step.decoder.model is not first.model for step in steps):
        raise InputError(
            "kernel.decoders_of_several_models",
            "all decoders must be of one NativeModel; step those of others apart",
        )
    if len({id(step.decoder) for step in steps}) < len(steps):
        raise InputError(
            "kernel.decoder_twice", "each decoder must have one step, got two of one decoder"
        )
    checked = []
    for decoder, ids, k in steps:
        if k:
            decoder._check_k(k)
        checked.append(decoder._check_ids(ids))
    calls = (StepCall * len(steps))(
        *(
            StepCall(step.decoder._request, ids.data_ptr(), ids.shape[1])
            for step, ids in zip(steps, checked, strict=True)
        )
    )
    threads, V = kernel_threads(), first.vocabulary_size
    logits = torch.empty(sum(map(len, checked)), V)
    status = first._library.jumok_step_together(calls, len(steps), logits.data_ptr(), threads)
    if status not in (OK, OUT_OF_VOCABULARY):
        for step in steps:
            step.decoder._failed = True  # some rows may be ahead of others
    for step, ids in zip(steps, checked, strict=True):
        step.decoder._check_status(status)
        step.decoder._length += ids.shape[1]
    parts = torch.split(logits, [len(ids) for ids in checked])
    return [_top_k(part, k) if k else part for part, (_, _, k) in zip(parts, steps, strict=True)]


def step_rows(
    decoders: Sequence[NativeDecoder], ids: Tensor, k: int = 0
) -> Tensor | tuple[Tensor, Tensor]:
    """The next token of each row of several decoders of one `NativeModel`, computed as one pass.

    ids (B, 1) int64 for the rows of all decoders, in order -> logits (B, V) float32, or with k what
    `top_k` returns for all rows; the bytes are those of each decoder alone.
    """
    first, n = decoders[0], len(decoders)
    if any(decoder.model is not first.model for decoder in decoders):
        raise InputError(
            "kernel.decoders_of_several_models",
            "all decoders must be of one NativeModel; step those of others apart",
        )
    if k:
        first._check_k(k)
    ids = _on_cpu(ids).long().contiguous()
    calls, address = (StepCall * n)(), ids.data_ptr()
    for call, decoder in zip(calls, decoders, strict=True):
        rows = decoder._prepare_token()
        call.request, call.ids, call.T = decoder._request, address, 1
        address += rows * ids.element_size()
    if address != ids.data_ptr() + ids.numel() * ids.element_size() or ids.shape[1:] != (1,):
        raise InputError(
            "kernel.step_ids_shape",
            "ids must be one token for each row of the decoders, got {shape}; pass their rows in "
            "order",
            shape=tuple(ids.shape),
        )
    logits = torch.empty(len(ids), first.vocabulary_size)
    status = first._library.jumok_step_together(calls, n, logits.data_ptr(), kernel_threads())
    if status not in (OK, OUT_OF_VOCABULARY):
        for decoder in decoders:
            decoder._failed = True  # some rows may be ahead of others
    first._check_status(status)
    for decoder in decoders:
        decoder._length += 1
    return _top_k(logits, k) if k else logits


def _top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k most likely tokens of contiguous logits (B, V), as `NativeDecoder.top_k`."""
    B, V = logits.shape
    log_p, tokens = torch.empty(B, k), torch.empty(B, k, dtype=torch.int64)
    library().jumok_topk_rows(
        *(logits.data_ptr(), B, V, k, log_p.data_ptr(), tokens.data_ptr()), kernel_threads()
    )
    return log_p, tokens


def _on_cpu(tensor: Tensor) -> Tensor:
    """The tensor itself; InputError if it is on another device."""
    if tensor.device.type != "cpu":
        raise InputError(
            "kernel.not_on_cpu",
            "the C++ kernel runs on the CPU, got a tensor on {device}; move it to the CPU",
            device=tensor.device,
        )
    return tensor
