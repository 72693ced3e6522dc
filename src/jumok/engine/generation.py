"""Generated text without torch, equal to that of `jumok.load`: translations and continuations."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from jumok.decoding.config import DecodingConfig
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.random_numbers import text_key
from jumok.decoding.stopping import StoppingCriteria, StopStrings, TextStreamer
from jumok.engine.model import EngineModel, check_weights
from jumok.engine.run import GeneratorRun, UnsupportedError
from jumok.errors import Message
from jumok.native.decoder_session import (
    DecoderSession,
    DecoderWeights,
    OnNewToken,
    SearchStep,
    unsupported_search,
)
from jumok.native.kernel_choice import KernelChoice
from jumok.native.layout import generator_dims
from jumok.native.teacher_forcing import teacher_forced_attention
from jumok.tasks.inputs.special_tokens import build_source
from jumok.tasks.pipeline.generated import (
    Generated,
    added_texts,
    decoded_texts,
    to_generated_text,
)
from jumok.tasks.pipeline.links import attention_links
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.segments import Split, predict_parts, splitter, stream_parts
from jumok.tasks.pipeline.text_inputs import Pair, as_lines, check_texts
from jumok.tasks.pipeline.text_warnings import row_warnings, unread_tokens, warned
from jumok.text.ragged import Offsets, Ragged
from jumok.text.tokenizer import piece_or_empty

BATCH_TOKENS = 4_096  # of the sources and the beams of a batch
BATCH_ROWS = 32  # of a batch of continuations


class GenerationModel(EngineModel[GeneratedText]):
    """An encoder-decoder or a language model in the C++ kernel; call `load` to open one.

    >>> from jumok.engine import load
    >>> model = load("note")
    >>> model("겨울은 추워요.").output
    'Winter is cold.'
    """

    generates = True
    run: GeneratorRun

    def __init__(
        self,
        run: GeneratorRun,
        decoding: DecodingConfig,
        weights: DecoderWeights | None = None,
        search_step: SearchStep | None = None,
    ) -> None:
        """`search_step` is that of `DecoderSession.search`.

        Raises UnsupportedError for settings that only PyTorch computes.
        """
        reason = unsupported_search(decoding)
        if reason is None and decoding.kernel == "torch":
            reason = Message("engine.torch_kernel", 'decoding.kernel is "torch"; use jumok.load')
        if reason is not None:
            raise UnsupportedError(reason)
        kernel = KernelChoice.of_engine(decoding.precision)
        super().__init__(run, kernel)
        self.decoding, self._run = decoding, run
        if weights is None:
            weights = DecoderWeights(generator_dims(run.config, run.kind), decoding.precision)
            with check_weights(run):
                weights.add_model(run.config, run.kind, run.arrays, run.release_pages)
        self._weights, self._search_step = weights, search_step

    @property
    def decoding_summary(self) -> str:
        """The decoding settings, limited to what the model supports."""
        return str(self._effective)

    @property
    def _effective(self) -> DecodingConfig:
        if self._run.kind == "decoder":  # there is no source
            return replace(self.decoding, max_ratio=0.0)
        return self.decoding.capped_at(self._run.config.max_length)

    def with_search_step(self, step: SearchStep) -> "GenerationModel":
        """A model whose searches take their steps by this function, such as with other searches."""
        return GenerationModel(self._run, self.decoding, self._weights, step)

    def with_decoding(self, overrides: Sequence[str]) -> "GenerationModel":
        """A model with `key=value` overrides of its decoding settings.

        Raises InputError for an unknown key, UnsupportedError for what only PyTorch computes.
        """
        decoding = self.decoding.overridden(overrides)
        shared = decoding.precision == self.decoding.precision
        weights = self._weights if shared else None
        return GenerationModel(self._run, decoding, weights, self._search_step)

    def predict(
        self, texts: Sequence[str | Pair], *, sentences: bool = False
    ) -> list[GeneratedText]:
        """One output per text, in order, as `jumok.load` splits texts into lines and sentences.

        With `sentences` each of them is read by itself, also of a line that is not too long. Raises
        InputError for what is not a text, or too long, and NonFiniteError for a damaged model.
        """
        lines = as_lines(texts, paired=False)
        check_texts(lines, self.vocabulary.max_text_bytes)
        seeded = self._seeded()
        split = self._splitter(lines, sentences=sentences)
        if split is None:
            return seeded._with_seed(seeded._generate(lines))
        n_best = self.decoding.n_best
        return seeded._with_seed(predict_parts(lines, split, seeded._generate, n_best))

    def stream(self, text: str, on_text: Callable[[str], None]) -> GeneratedText:
        """Generate for one text; pass each part to `on_text` once it is final.

        Several hypotheses have one part, at their end.
        """
        check_texts([text], self.vocabulary.max_text_bytes)
        seeded = self._seeded()

        def stream(part: str) -> GeneratedText:
            streamer = TextStreamer(
                self._run.target_tokenizer, lambda _, piece: on_text(piece), self.decoding.stop
            )
            if self._run.kind == "decoder":
                streamer.set_prompt(0, self.prompt(part))
            (found,) = seeded._generate([part], streamer.push)
            streamer.finish()
            return found

        split = self._splitter([text])
        n_best = self.decoding.n_best
        found = (
            stream(text) if split is None else stream_parts(text, split, stream, on_text, n_best)
        )
        return seeded._with_seed([found])[0]

    def _seeded(self) -> "GenerationModel":
        """The same model, or one with a random seed where it samples without one."""
        decoding = self.decoding.seeded()
        if decoding is self.decoding:
            return self
        return GenerationModel(self._run, decoding, self._weights, self._search_step)

    def _with_seed(self, outputs: Sequence[GeneratedText]) -> list[GeneratedText]:
        """The outputs with the seed that they were sampled with."""
        if not self.decoding.sample:
            return list(outputs)
        return [replace(each, seed=self.decoding.fixed_seed) for each in outputs]

    def _splitter(self, texts: Sequence[str], *, sentences: bool = False) -> Split | None:
        if self._run.kind == "decoder":
            return None
        return splitter(
            texts,
            translates=self._run.translates,
            sentences=sentences,
            n_unread=lambda lines: self._unread([[line] for line in lines]),
        )

    def _unread(self, rows: Sequence[Sequence[str]]) -> list[int]:
        run = self._run
        if run.kind == "decoder":  # its window slides
            return [0] * len(rows)
        return unread_tokens(
            rows,
            run.tokenizer,
            run.config.max_length,
            run.task,
            lambda tokenizer, ids, _, limit: build_source(tokenizer, ids, limit),
        )

    def _generate(
        self, texts: Sequence[str], on_token: OnNewToken | None = None
    ) -> list[GeneratedText]:
        """The outputs for texts that are not split, with their warnings."""
        continues = self._run.kind == "decoder"
        found = (self._continue if continues else self._translate)(texts, on_token)
        tokenizer, n_best = self._run.target_tokenizer, self.decoding.n_best
        outputs = [
            to_generated_text(text, candidates, tokenizer, n_best)
            for text, candidates in zip(texts, found, strict=True)
        ]
        if self.decoding.alignment and not continues:
            outputs = self._linked(outputs)
        rows = [[text] for text in texts]
        warnings = row_warnings(rows, self.vocabulary, self._unread(rows))
        return warned(outputs, warnings)

    def _translate(
        self, texts: Sequence[str], on_token: OnNewToken | None
    ) -> list[list[Generated]]:
        run, config = self._run, self._effective
        encoded = Ragged.from_lists(run.tokenizer.encode_batch(list(texts)))
        sources = build_source(run.tokenizer, encoded, run.config.max_length)
        found: list[list[Generated]] = [[] for _ in texts]
        for batch in _batches(sources.lengths, BATCH_TOKENS // _rows_of_text(config)):
            rows = [sources[i].tolist() for i in batch]
            limits = [config.limit(len(row)) for row in rows]
            session = self.session(Ragged.from_lists(rows), max(limits))
            prompts = np.full((len(rows), 1), run.target_tokenizer.decoder_start_id, np.int64)
            hypotheses = session.search(
                *(prompts, config, self.stopping(limits)),
                sample_keys=[text_key(row) for row in rows] if config.sample else [],
                on_token=on_token,
                step=self._search_step,
            )
            for i, each in zip(batch, hypotheses, strict=True):
                found[i] = decoded_texts(run.target_tokenizer, each, config.stop)
        return found

    def _linked(self, outputs: Sequence[GeneratedText]) -> list[GeneratedText]:
        """The outputs with the links of their tokens, by one teacher-forced pass over each."""
        run = self._run
        encoded = Ragged.from_lists(run.tokenizer.encode_batch([each.text for each in outputs]))
        sources = build_source(run.tokenizer, encoded, run.config.max_length)
        found = list(outputs)
        for batch in _batches(sources.lengths, BATCH_TOKENS):
            rows = [sources[i].tolist() for i in batch]
            targets = [[token.id for token in outputs[i].tokens] for i in batch]
            start = run.target_tokenizer.decoder_start_id
            weights = teacher_forced_attention(self._weights, rows, targets, start)
            for i, row, each in zip(batch, rows, weights, strict=True):
                pieces = [piece_or_empty(run.tokenizer, id_) for id_ in row]
                target_pieces = [token.piece for token in outputs[i].tokens]
                links = attention_links(
                    *(outputs[i].text, pieces, outputs[i].output, target_pieces),
                    *(each, self.decoding.alignment),
                )
                found[i] = replace(outputs[i], links=links)
        return found

    def _continue(self, texts: Sequence[str], on_token: OnNewToken | None) -> list[list[Generated]]:
        run, config = self._run, self._effective
        prompts = [self.prompt(text) for text in texts]
        found: list[list[Generated]] = [[] for _ in texts]
        order = sorted(range(len(texts)), key=lambda i: len(prompts[i]))
        while order:
            batch = order[: max(BATCH_ROWS // _rows_of_text(config), 1)]
            longest = len(prompts[batch[-1]])
            slides = longest + config.max_length - 1 > self._weights.max_length
            if slides:  # rows of one length
                batch = [i for i in batch if len(prompts[i]) == len(prompts[batch[0]])]
                longest = len(prompts[batch[0]])
            order = order[len(batch) :]
            hypotheses = self._continuations([prompts[i] for i in batch], slides, on_token)
            for i, each in zip(batch, hypotheses, strict=True):
                found[i] = added_texts(run.tokenizer, prompts[i], each, config.stop)
        return found

    def _continuations(
        self, prompts: Sequence[list[int]], slides: bool, on_token: OnNewToken | None
    ) -> list[list[Hypothesis]]:
        config, longest = self._effective, max(map(len, prompts))
        padding = np.array([longest - len(prompt) for prompt in prompts], np.int64)
        ids = np.array([[0] * (longest - len(prompt)) + prompt for prompt in prompts], np.int64)
        window = self._weights.max_length
        session = DecoderSession(
            self._weights,
            padding=padding if padding.any() else None,
            capacity=window if slides else longest + config.max_length - 1,
        )
        return session.search(
            *(ids, config, self.stopping([config.max_length] * len(prompts), prompts)),
            sample_keys=[text_key(prompt) for prompt in prompts] if config.sample else [],
            slides=slides,
            on_token=on_token,
            step=self._search_step,
        )

    def prompt(self, text: str) -> list[int]:
        """The ids of a text as a language model reads it before it continues the text."""
        tokenizer = self._run.tokenizer
        ids = tokenizer.encode(text)
        if ids and self._run.across_documents:
            return ids
        return [tokenizer.decoder_start_id, *ids]

    def session(self, sources: Ragged | None, capacity: int) -> DecoderSession:
        """A session for sources, or of a language model, that decodes `capacity` tokens at most."""
        return DecoderSession(self._weights, sources, capacity=capacity)

    def stopping(
        self, limits: Sequence[int], prompts: Sequence[Sequence[int]] = ()
    ) -> StoppingCriteria:
        """The criteria that end texts at [EOS], at a stop string and at their limits."""
        tokenizer, stop = self._run.target_tokenizer, self.decoding.stop
        strings = StopStrings(tokenizer, stop) if stop else None
        return StoppingCriteria(tokenizer.eos_id, limits, strings, prompts)


def _rows_of_text(config: DecodingConfig) -> int:
    """The rows that the decoder has for each text."""
    return config.n_best if config.sample else config.beam


def _batches(lengths: Offsets, tokens: int) -> list[list[int]]:
    """Rows of similar length, the shortest first, of at most so many tokens, or a single row."""
    batches: list[list[int]] = []
    size = 0
    for i in np.argsort(lengths, kind="stable").tolist():
        if not batches or size + lengths[i] > tokens:
            batches.append([])
            size = 0
        batches[-1].append(i)
        size += int(lengths[i])
    return batches
