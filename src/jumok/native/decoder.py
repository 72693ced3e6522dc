"""Writing with the C++ kernel: the same steps as the plain writers of `jumok.decoding`.

Shapes: B rows being written, N sources, S source tokens, T new tokens, V vocabulary.
"""

import torch
from torch import Tensor

from jumok.errors import InputError, JumokError
from jumok.native.library import NO_SUCH_ROW, OK, OUT_OF_VOCABULARY, library
from jumok.native.model import NativeModel


class NativeDecoder:
    """A request to a native model: several rows in the midst of being written.

    For an encoder-decoder give the sources it shall read; for a language model give nothing, or
    the padding that stands left of each prompt. Work is shared by `torch.get_num_threads()`
    threads. Beams of one source share its keys and values, and beams of one past share that.

        writer = NativeWriter(NativeModel(model), source, real, room=100)
        logits = writer.step(torch.full((len(source), 1), bos_id))
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
        """source (N, S) int64; real (N, S) bool, None without padding; padding (B) int64."""
        if model.has_encoder != (source is not None):
            raise InputError(
                "an encoder-decoder reads sources and a language model has none; "
                f"{'give' if model.has_encoder else 'leave out'} the source"
            )
        if capacity > model.max_length:
            raise InputError(
                f"room for {capacity} tokens was asked, the model holds {model.max_length}; "
                "ask for less or train with a larger model.max_length"
            )
        self.vocabulary_size = model.vocabulary_size
        self._model = model  # keeps the weights alive
        self._capacity = capacity
        self._length = 0
        self._rows: int | None = None
        self._broken = False
        self._library = library()
        self._request: int = self._library.jumok_request(model.handle)
        if source is not None:
            self._encode_sources(source, source_mask)
        elif padding is not None:
            if len(padding) and int(padding.min()) < 0:
                raise InputError(f"padding of {int(padding.min())} tokens came; give 0 or more")
            self._reset(len(padding), _on_cpu(padding).long().contiguous())

    def __del__(self) -> None:
        if hasattr(self, "_request"):
            self._library.jumok_free_request(self._request)

    @property
    def length(self) -> int:
        """Positions remembered so far, padding among them."""
        return self._length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, V) float32 of what follows the last."""
        return self._logits(ids, every=False)

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> logits (B, T, V) float32 of what follows each; 0 on padding."""
        return self._logits(ids, every=True)

    def top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """A step, and of its answer the k likeliest tokens alone, best first.

        (B, T) int64 -> log-probabilities (B, k) float32 and tokens (B, k) int64; of equally
        likely ones the smaller id comes first.
        """
        if not 0 < k <= self.vocabulary_size:
            raise InputError(f"the best {k} of {self.vocabulary_size} tokens; ask for 1 or more")
        ids = self._check_ids(ids)
        log_p = torch.empty(len(ids), k)
        tokens = torch.empty(len(ids), k, dtype=torch.int64)
        self._check_status(
            self._library.jumok_best(
                *(self._request, ids.data_ptr(), ids.shape[1], k),
                *(log_p.data_ptr(), tokens.data_ptr(), torch.get_num_threads()),
            )
        )
        self._length += ids.shape[1]
        return log_p, tokens

    def reorder(self, rows: Tensor) -> None:
        """Go on with these rows (B') int64, in this order."""
        if self._rows is None:
            return  # the first tokens tell how many rows there are
        rows = _on_cpu(rows).long().contiguous()
        self._check_status(self._library.jumok_select(self._request, rows.data_ptr(), len(rows)))
        self._rows = len(rows)

    def rewind(self, tokens: int) -> None:
        """Forget the newest `tokens` positions of every row."""
        if not 0 <= tokens <= self._length:
            raise InputError(
                f"{tokens} of {self._length} positions cannot be forgotten; rewind less"
            )
        self._library.jumok_rewind(self._request, tokens)
        self._length -= tokens

    def _encode_sources(self, source: Tensor, real: Tensor | None) -> None:
        if source.ndim != 2 or (real is not None and real.shape != source.shape):
            raise InputError(
                f"sources {tuple(source.shape)} and "
                f"{'no mask' if real is None else f'a mask {tuple(real.shape)}'} came; "
                "give (sources, tokens) both"
            )
        N, S = source.shape
        longest = self._model.max_length
        if longest < S:
            raise InputError(
                f"{S} tokens came, the model holds {longest}; "
                "shorten the text or train with a larger model.max_length"
            )
        source = _on_cpu(source).long().contiguous()
        real = None if real is None else _on_cpu(real).bool().contiguous()
        self._rows = N
        self._check_status(
            self._library.jumok_read(
                *(self._request, source.data_ptr(), None if real is None else real.data_ptr()),
                *(N, S, torch.get_num_threads()),
            ),
            self._model.source_vocabulary_size,
        )

    def _reset(self, rows: int, padding: Tensor | None) -> None:
        self._rows = rows
        at = None if padding is None else padding.data_ptr()
        self._check_status(self._library.jumok_begin(self._request, at, rows))

    def _check_ids(self, ids: Tensor) -> Tensor:
        """The newest tokens, checked and as they lie in memory."""
        if self._broken:
            raise JumokError("memory ran out in an earlier step; begin anew with a new writer")
        if self._rows is None:
            self._reset(len(ids), None)
        if ids.ndim != 2 or len(ids) != self._rows or ids.shape[1] < 1:
            raise InputError(
                f"tokens of shape {tuple(ids.shape)} came for {self._rows} rows; "
                f"give ({self._rows}, 1) or more"
            )
        if self._length + ids.shape[1] > self._capacity:
            raise InputError(
                f"{self._length + ids.shape[1]} positions do not fit a writer with room for "
                f"{self._capacity}; make it with more room"
            )
        return _on_cpu(ids).long().contiguous()

    def _logits(self, ids: Tensor, *, every: bool) -> Tensor:
        ids = self._check_ids(ids)
        B, T = ids.shape
        logits = torch.empty((B, T, self.vocabulary_size) if every else (B, self.vocabulary_size))
        self._check_status(
            self._library.jumok_step(
                *(self._request, ids.data_ptr(), T, every),
                *(logits.data_ptr(), torch.get_num_threads()),
            )
        )
        self._length += T
        return logits

    def _check_status(self, answer: int, size: int | None = None) -> None:
        if answer == OUT_OF_VOCABULARY:
            raise InputError(
                f"a token outside the vocabulary of {size or self.vocabulary_size} came; "
                "give ids of the model's own vocabulary"
            )
        if answer == NO_SUCH_ROW:
            raise InputError(f"rows were chosen that are not among the {self._rows}; count from 0")
        if answer != OK:
            self._broken = True  # some rows may have gone on and others not
            raise JumokError("memory ran out while writing; write fewer rows at once")


def _on_cpu(tensor: Tensor) -> Tensor:
    """The tensor, whose numbers the kernel can read: InputError for one on another device."""
    if tensor.device.type != "cpu":
        raise InputError(f"tokens on {tensor.device} came, the kernel writes on the CPU; move them")
    return tensor
