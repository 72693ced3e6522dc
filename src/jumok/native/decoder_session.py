"""A decoder in the C++ kernel, from ids to logits or to whole hypotheses, with numpy alone.

    weights = DecoderWeights(generator_dims(config, "encoder_decoder"), "float32")
    weights.add_model(config, arrays)
    session = DecoderSession(weights, Ragged.from_lists(sources), capacity=100)
    hypotheses = session.search(prompts, DecodingConfig(beam=4), stopping)

Sources are rows of ids without padding; what a text gets does not depend on the others. Shapes: B
decoded rows, N texts, P prompt tokens, T new tokens, V vocabulary, S source tokens.
"""

import ctypes
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jumok.config_io import check_range
from jumok.decoding.config import DecodingConfig
from jumok.decoding.finite import non_finite_error
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.stopping import StoppingCriteria
from jumok.errors import InputError, JumokError, Message
from jumok.models.config import TransformerConfig
from jumok.native.layout import (
    Arrays,
    Floats,
    GeneratorKind,
    decoder_layer_rotations,
    generator_tables,
    layer_linears,
    layer_norms,
    norm_vectors,
    token_tables,
)
from jumok.native.library import (
    NO_SUCH_ROW,
    NOT_FINITE,
    OK,
    OUT_OF_VOCABULARY,
    ModelDims,
    ScoreChanges,
    SearchCall,
    StepCall,
    Stops,
    library,
)
from jumok.native.packed_weights import DecoderPrecision, PackedWeights
from jumok.native.threads import kernel_threads
from jumok.text.ragged import Ragged

Tokens = NDArray[np.int64]
OnPacked = Callable[[Sequence[str]], None]  # the names of modules
OnNewToken = Callable[[int, int], object]  # the number of a text, and its new token
SearchStep = Callable[["DecoderSession"], int]  # one step of a search, a status

_ALL_STEPS = 2**31 - 1
_EARLY_STOPPING = {False: 0, True: 1, "never": 2}  # of kernel/search.h


class DecoderWeights:
    """The packed weights of an encoder-decoder or of a language model, which sessions share.

    Raises KernelError if the kernel is not available.
    """

    def __init__(self, dims: ModelDims, precision: DecoderPrecision) -> None:
        self.packed = PackedWeights(dims, precision)
        self.has_encoder: bool = dims.encoder_layers > 0
        self.max_length: int = dims.max_length
        self.vocabulary_size: int = dims.vocabulary
        self.source_vocabulary_size: int = dims.vocabulary
        self.n_layers: int = dims.decoder_layers
        self.n_heads: int = dims.n_heads

    def add_tokens(self, name: str, arrays: Arrays, module: str) -> None:
        """Pack a table of tokens: "output", which others are tied to, "source" or "target"."""
        self.packed.upload_linear(name, arrays, [module])
        if name == "source":
            self.source_vocabulary_size = len(arrays[f"{module}.weight"])

    def add_stack(
        self,
        side: str,
        arrays: Arrays,
        *,
        offset_norms: bool = False,
        on_packed: OnPacked = lambda modules: None,
    ) -> None:
        """Pack the layers and norms of one side; `on_packed` is called with what was copied."""
        dims, stack = self.packed.dims, f"{side}.stack."
        n_layers = dims.encoder_layers if side == "encoder" else dims.decoder_layers
        for name, modules in layer_linears(side, arrays, stack, n_layers):
            self.packed.upload_linear(name, arrays, modules)
            on_packed(modules)
        for norms in (
            norm_vectors(
                f"{side}.embedding_norm", arrays, f"{side}.embedding.norm", offset=offset_norms
            ),
            layer_norms(side, arrays, stack, n_layers, offset=offset_norms),
        ):
            for name, vector in norms:
                self.packed.upload_vector(name, vector)

    def add_table(self, name: str, table: Floats) -> None:
        """Copy a table of positions under its name in the kernel."""
        self.packed.upload_vector(name, table)

    def set_layer(self, index: int, window: int, rotary: int) -> None:
        """The window of a layer of the decoder (0: none) and its rotation: 0 none, 1, 2 local."""
        self.packed.set_decoder_layer(index, window, rotary)

    def add_model(
        self,
        config: TransformerConfig,
        kind: GeneratorKind,
        arrays: Arrays,
        on_packed: Callable[[], None] = lambda: None,
    ) -> None:
        """Add all of a model; `on_packed` is called at the end, for example to release memory."""
        for name, module in token_tables(config, kind):
            self.add_tokens(name, arrays, module)
        for side in ("encoder", "decoder") if self.has_encoder else ("decoder",):
            self.add_stack(side, arrays, offset_norms=config.norm == "rms_offset")
            for name, table in generator_tables(config, side, arrays):
                self.add_table(name, table)
        for index, (window, rotary) in enumerate(decoder_layer_rotations(config)):
            self.set_layer(index, window, rotary)
        on_packed()


class DecoderSession:
    """The state of one request: several rows that are decoded together.

    An encoder-decoder has the sources to encode; a language model has none, and the left padding
    of each prompt if there is any. Uses `kernel_threads()` threads. Beams of one source share its
    cross-attention cache, and beams with a common prefix share its slots.
    """

    def __init__(
        self,
        weights: DecoderWeights,
        sources: Ragged | None = None,
        *,
        padding: Tokens | None = None,
        capacity: int,
    ) -> None:
        """padding (B) int64; at most `capacity` tokens of a row are decoded."""
        if weights.has_encoder != (sources is not None):
            raise InputError(
                "kernel.source_of_decoder",
                "source must be given for an encoder-decoder only; {has_encoder} the source",
                has_encoder="give" if weights.has_encoder else "leave out",
            )
        if capacity > weights.max_length:
            raise InputError(
                "kernel.capacity_too_large",
                "capacity must be at most {max_length} tokens, got {capacity}; use less, "
                'decoding.kernel = "torch", or a model with a larger model.max_length',
                max_length=weights.max_length,
                capacity=capacity,
            )
        self.weights = weights  # kept alive
        self.vocabulary_size = weights.vocabulary_size
        self._capacity = capacity
        self._length = 0
        self._n_rows: int | None = None
        self._padding: Tokens | None = None
        self._failed = False
        self._n_recorded = 0
        self.search_rows = 0  # of a step of its search, at most
        self._library = library()
        self._request: int = self._library.jumok_create_request(weights.packed.handle)
        if sources is not None:
            self._encode_sources(sources)
        elif padding is not None:
            if len(padding) and int(padding.min()) < 0:
                raise InputError(
                    "kernel.negative_padding",
                    "padding must be 0 or more tokens, got {min}",
                    min=int(padding.min()),
                )
            self._reset(len(padding), np.ascontiguousarray(padding, np.int64))

    def __del__(self) -> None:
        if hasattr(self, "_request"):
            self._library.jumok_free_request(self._request)

    @property
    def length(self) -> int:
        """The number of cached positions, padding included."""
        return self._length

    def step(self, ids: Tokens) -> Floats:
        """(B, T) -> logits (B, V) after the last token."""
        return self._logits(ids, all_positions=False)

    def step_all(self, ids: Tokens) -> Floats:
        """(B, T) -> logits (B, T, V) after every token; 0 on padding."""
        return self._logits(ids, all_positions=True)

    def top_k(self, ids: Tokens, k: int) -> tuple[Floats, Tokens]:
        """A step that returns only the k most likely tokens, in descending order.

        (B, T) -> log-probabilities (B, k) and tokens (B, k); ties are resolved by the smaller id.
        """
        check_range("k", k, f"[1, {self.vocabulary_size}]")
        ids = self._check_ids(ids)
        log_p, tokens = np.empty((len(ids), k), np.float32), np.empty((len(ids), k), np.int64)
        self._check_status(
            self._library.jumok_topk(
                *(self._request, ids.ctypes.data, ids.shape[1], k),
                *(log_p.ctypes.data, tokens.ctypes.data, kernel_threads()),
            )
        )
        self._length += ids.shape[1]
        return log_p, tokens

    def reorder(self, rows: Tokens) -> None:
        """Keep these rows (B'), in this order."""
        if self._n_rows is None:
            return  # the first step determines the number of rows
        rows = np.ascontiguousarray(rows, np.int64)
        self._check_status(self._library.jumok_reorder(self._request, rows.ctypes.data, len(rows)))
        self._n_rows = len(rows)

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions of every row."""
        check_range("rewind", tokens, f"[0, {self._length}]")
        self._library.jumok_rewind(self._request, tokens)
        self._length -= tokens

    def search(
        self,
        prompts: Tokens,
        config: DecodingConfig,
        stopping: StoppingCriteria,
        *,
        sample_keys: Sequence[int] = (),
        slides: bool = False,
        on_token: OnNewToken | None = None,
        step: SearchStep | None = None,
    ) -> list[list[Hypothesis]]:
        """The `n_best` hypotheses of each text, the best first; it is the last call of the object.

        prompts (N, P) are what the decoder reads first; those of one length may fill the window of
        a language model, which then `slides`. A sample needs the key of each text (`text_key`).
        `on_token` is called with each token of a single hypothesis, and at the end with those of
        several, end tokens left out. `step` computes the steps, perhaps with `search_together`.
        What `unsupported_search` names must not be in the config.

        Raises NonFiniteError for logits that are NaN or infinite.
        """
        assert unsupported_search(config) is None
        ids = self._check_ids(prompts, fits=slides)
        limits = np.asarray(stopping.limits, np.int32)
        ends = np.asarray(stopping.end_ids, np.int64)
        if not slides:
            self._check_capacity(ids.shape[1] + int(limits.max(initial=1)) - 1)
        padding = self._padding
        keys = np.array([(config.fixed_seed % 2**64, key) for key in sample_keys], np.uint64)
        stops = Stops() if stopping.stop_strings is None else _stops(stopping)
        call = SearchCall(
            n_texts=len(ids),
            prompt_length=ids.shape[1],
            prompts=ids.ctypes.data,
            padding=None if padding is None else padding.ctypes.data,
            limits=limits.ctypes.data,
            n_ends=len(ends),
            ends=ends.ctypes.data,
            beam=config.beam,
            n_best=config.n_best,
            early_stopping=_EARLY_STOPPING[config.early_stopping],
            gnmt=config.length_norm == "gnmt",
            min_length=config.min_length,
            window=self._capacity if slides else 0,
            length_penalty=config.length_penalty,
            keys=keys.ctypes.data if config.sample else None,
            stops=stops,
            changes=ScoreChanges(*(getattr(config, each[0]) for each in ScoreChanges._fields_)),
        )
        self._check_status(self._library.jumok_start_search(self._request, ctypes.byref(call)))
        rows = config.n_best if config.sample else config.beam
        self.search_rows = len(ids) * rows
        greedy = on_token is not None and rows == 1
        n_reported = [0] * len(ids)
        while self._library.jumok_unfinished(self._request):
            self._check_status(self._step_search(1 if greedy else _ALL_STEPS, step))
            if on_token is not None and greedy:
                for text, seen in enumerate(n_reported):
                    tokens, *_ = self._read_found(text, 0)
                    n_reported[text] = len(tokens)
                    for token in tokens[seen:]:
                        if token not in stopping.end_ids:
                            on_token(text, token)
        found = [self._hypotheses(text, stopping) for text in range(len(ids))]
        if on_token is not None and not greedy:
            for number, hypothesis in enumerate(chain.from_iterable(found)):
                for token in hypothesis.ids:
                    on_token(number, token)
        return found

    def _step_search(self, steps: int, step: SearchStep | None) -> int:
        if step is not None:
            return step(self)
        return int(self._library.jumok_search(self._request, steps, kernel_threads()))

    def _hypotheses(self, text: int, stopping: StoppingCriteria) -> list[Hypothesis]:
        found = []
        for number in range(self._library.jumok_n_found(self._request, text)):
            tokens, log_p, rank, ended = self._read_found(text, number)
            found.append(
                Hypothesis.from_tokens(tokens, log_p, stopping.end_of(tokens), ended, rank)
            )
        return found or [Hypothesis([], 0.0, finished=False)]

    def _read_found(self, text: int, number: int) -> tuple[list[int], list[float], float, bool]:
        """The tokens of a hypothesis, their log-probabilities, its rank, and whether it ended."""
        n = self._library.jumok_found_length(self._request, text, number)
        tokens, log_p, rank = np.empty(n, np.int64), np.empty(n, np.float32), ctypes.c_double()
        ended = self._library.jumok_read_found(
            *(self._request, text, number, tokens.ctypes.data, log_p.ctypes.data),
            ctypes.byref(rank),
        )
        return tokens.tolist(), log_p.tolist(), rank.value, bool(ended)

    def record_attention(
        self, block: Literal["self", "cross"], heads: Sequence[tuple[int, int]]
    ) -> None:
        """Record the weights of these heads (layer, head) of the decoder from the next step on."""
        weights = self.weights
        if block == "cross" and not weights.has_encoder:
            raise InputError(
                "kernel.cross_attention_needs_encoder_decoder",
                "cross-attention needs an encoder-decoder, got a language model",
            )
        for layer, head in heads:
            if not (0 <= layer < weights.n_layers and 0 <= head < weights.n_heads):
                raise InputError(
                    "kernel.heads_range",
                    "heads must be (layer, head) up to ({n_decoder_layers}, {n_heads}), got "
                    "({layer}, {head})",
                    n_decoder_layers=weights.n_layers - 1,
                    n_heads=weights.n_heads - 1,
                    layer=layer,
                    head=head,
                )
        if len(set(heads)) < len(heads):
            raise InputError(
                "kernel.head_twice", "each head must be given once, got {heads}", heads=list(heads)
            )
        numbers = [layer * weights.n_heads + head for layer, head in heads]
        chosen = np.array(numbers, np.int32)
        self._check_status(
            self._library.jumok_record_attention(
                *(self._request, block == "cross", chosen.ctypes.data, len(heads))
            )
        )
        self._n_recorded = len(heads)

    def recorded_attention(self) -> Floats:
        """The weights of the newest token of each row, before any reorder: (B, heads, S) float32.

        S is the largest number of keys: real source tokens for cross-attention, cached tokens
        without padding for self-attention. A row with fewer has zeros at the end.
        """
        width = int(self._library.jumok_attention_width(self._request))
        weights = np.zeros((self._n_rows or 0, self._n_recorded, width), np.float32)
        self._library.jumok_read_attention(self._request, weights.ctypes.data)
        return weights

    def mean_attention(self) -> Floats:
        """The mean of `recorded_attention` over the heads: (B, S)."""
        width = int(self._library.jumok_attention_width(self._request))
        mean = np.empty((self._n_rows or 0, width), np.float32)
        self._library.jumok_read_mean_attention(self._request, mean.ctypes.data)
        return mean

    def _encode_sources(self, sources: Ragged) -> None:
        longest = int(sources.lengths.max(initial=0))
        if self.weights.max_length < longest:
            raise InputError(
                "kernel.source_too_long",
                "the source must have at most {max_length} tokens, got {s}; shorten the text or "
                "train with a larger model.max_length",
                max_length=self.weights.max_length,
                s=longest,
            )
        ids = np.ascontiguousarray(sources.ids, np.int32)
        offsets = sources.offsets.astype(np.int32)
        self._n_rows = len(sources)
        self._check_status(
            self._library.jumok_encode_sources(
                *(self._request, ids.ctypes.data, offsets.ctypes.data),
                *(len(sources), kernel_threads()),
            ),
            self.weights.source_vocabulary_size,
        )

    def _reset(self, n_rows: int, padding: Tokens | None) -> None:
        self._n_rows, self._padding = n_rows, padding
        address = None if padding is None else padding.ctypes.data
        self._check_status(self._library.jumok_reset(self._request, address, n_rows))

    def _check_ids(self, ids: Tokens, *, fits: bool = False) -> Tokens:
        """The new tokens, checked and contiguous; `fits`: whatever their number."""
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
        if not fits:
            self._check_capacity(ids.shape[1])
        return np.ascontiguousarray(ids, np.int64)

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

    def _logits(self, ids: Tokens, *, all_positions: bool) -> Floats:
        ids = self._check_ids(ids)
        B, T = ids.shape
        V = self.vocabulary_size
        logits = np.empty((B, T, V) if all_positions else (B, V), np.float32)
        self._check_status(
            self._library.jumok_step(
                *(self._request, ids.ctypes.data, T, all_positions),
                *(logits.ctypes.data, kernel_threads()),
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
        if status == NOT_FINITE:
            raise non_finite_error("logits")
        if status != OK:
            self._failed = True  # some rows may be ahead of others
            raise JumokError(
                "kernel.out_of_memory_in_decoding",
                "memory ran out while decoding; decode fewer rows at once",
            )


class SessionStep(NamedTuple):
    """The step of one session: the new tokens (B, T)."""

    session: DecoderSession
    ids: Tokens


def step_together(steps: Sequence[SessionStep]) -> list[Floats]:
    """The steps of several sessions of the same weights, computed as one pass.

    Returns for each what `step` returns; the bytes are the same. T may differ. Raises InputError,
    before a session changes, if the arguments of one are wrong.
    """
    first = steps[0].session
    _check_same_weights([step.session for step in steps])
    if len({id(step.session) for step in steps}) < len(steps):
        raise InputError(
            "kernel.decoder_twice", "each decoder must have one step, got two of one decoder"
        )
    checked = [session._check_ids(ids) for session, ids in steps]
    calls = (StepCall * len(steps))(
        *(
            StepCall(step.session._request, ids.ctypes.data, ids.shape[1])
            for step, ids in zip(steps, checked, strict=True)
        )
    )
    logits = np.empty((sum(map(len, checked)), first.vocabulary_size), np.float32)
    _run_together([step.session for step in steps], calls, logits)
    for step, ids in zip(steps, checked, strict=True):
        step.session._length += ids.shape[1]
    return np.split(logits, np.cumsum([len(ids) for ids in checked])[:-1])


def search_together(sessions: Sequence[DecoderSession]) -> list[int]:
    """One step of the search of several sessions of the same weights, computed as one pass.

    Returns the status of each; hypotheses are the same as with a pass for each.
    """
    _check_same_weights(sessions)
    n = len(sessions)
    requests = (ctypes.c_void_p * n)(*(session._request for session in sessions))
    statuses = (ctypes.c_int * n)()
    status = library().jumok_search_together(requests, n, statuses, kernel_threads())
    if status == OUT_OF_VOCABULARY and n > 1:  # of one of them, and no session has changed
        return [each for session in sessions for each in search_together([session])]
    return [status or each for each in statuses]


def _check_same_weights(sessions: Sequence[DecoderSession]) -> None:
    if any(session.weights is not sessions[0].weights for session in sessions):
        raise InputError(
            "kernel.decoders_of_several_models",
            "all decoders must be of one NativeModel; step those of others apart",
        )


def _run_together(sessions: Sequence[DecoderSession], calls: Any, logits: Floats) -> None:
    status = library().jumok_step_together(
        calls, len(sessions), logits.ctypes.data, kernel_threads()
    )
    if status not in (OK, OUT_OF_VOCABULARY):
        for session in sessions:
            session._failed = True  # some rows may be ahead of others
    sessions[0]._check_status(status)


def _stops(stopping: StoppingCriteria) -> Any:
    """Whether the newest token of a text completes a stop string, as the kernel calls it."""
    return Stops(lambda text, tokens, n: stopping.finished(text, tokens[:n]))


def unsupported_search(config: DecodingConfig) -> Message | None:
    """Why the search of the kernel does not compute these settings; None if it does.

    >>> unsupported_search(DecodingConfig(beam=4, length_penalty=0.6))
    >>> print(unsupported_search(DecodingConfig(prefix="네")))
    the search of the kernel does not compute decoding.prefix
    """
    name = unsupported_setting(config)
    if name is None:
        return None
    return Message(
        "kernel.unsupported_search",
        "the search of the kernel does not compute decoding.{name}",
        name=name,
    )


def unsupported_setting(config: DecodingConfig) -> str | None:
    """The name of the first of these settings that the search of the kernel does not compute."""
    plain = DecodingConfig()
    changed = (name for name in _NOT_IN_KERNEL if getattr(config, name) != getattr(plain, name))
    return next(changed, None)


_NOT_IN_KERNEL = (*("coverage", "prefix", "allowed", "forbidden", "pattern", "choices"),)
