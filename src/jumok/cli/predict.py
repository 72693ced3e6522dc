"""jumok predict: one prediction per text, in order."""

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol, cast

import typer

from jumok.cli.options import (
    ChatTemplateOption,
    DecodingOverrides,
    DeviceOption,
    EnsembleRuns,
    PrecisionOption,
    apply_decoding,
    find_engine,
    json_option,
    load_ensemble,
    print_decoding,
    read_template,
    run_argument,
    with_fast_encoder,
)
from jumok.cli.output_notices import OutputNotices
from jumok.errors import UsageError
from jumok.language import localize, translate
from jumok.shipped import complete_run
from jumok.terminal import command_line, print_message, to_json_line

if TYPE_CHECKING:
    from jumok.decoding.config import DecodingConfig
    from jumok.engine import EngineModel
    from jumok.tasks.pipeline.outputs import Output
    from jumok.tasks.pipeline.pipeline import Pipeline
    from jumok.text.tokenizer import Tokenizer

app = typer.Typer(rich_markup_mode=None, add_completion=False)

CHUNK_LINES = 256  # lines per batch, of a pipe or terminal as many of them as have arrived
MAX_CHUNK_CHARS = 2**16  # characters per batch: bounds the memory that long lines take


@app.command(context_settings={"ignore_unknown_options": True})  # -_- is text, not an option
def predict(
    context: typer.Context,
    run: Annotated[Path, run_argument()],
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT ...]", help="Texts. [default: the lines of stdin]"),
    ] = None,
    as_json: Annotated[bool, json_option("Print one JSON object per text.")] = False,
    ensemble: EnsembleRuns = None,
    decoding: DecodingOverrides = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    n_best: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="N outputs per text: widens the beam, or draws N samples."
        ),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each output while it is generated.")
    ] = False,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="With --json: log-probability of each token.")
    ] = False,
    alignment: Annotated[
        bool,
        typer.Option("--alignment", help="With --json: source position aligned to each token."),
    ] = False,
    timing: Annotated[
        bool, typer.Option("--timing", help="Print to stderr: seconds, and which kernel ran.")
    ] = False,
    draft: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", autocompletion=complete_run, help="Draft model for speculative decoding."
        ),
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Answer JSON messages on stdin: [{role, content}, ...].")
    ] = False,
    template: ChatTemplateOption = None,
) -> None:
    """Predict for texts: labels, scores, entities, translations or continuations."""
    timer = _Timer()
    _check_mistyped_options(
        texts or [], [name for each in context.command.params for name in each.opts]
    )
    _check_chat_options(
        chat,
        texts or [],
        template,
        {"--n-best": n_best, "--tokens": tokens, "--alignment": alignment},
    )
    _report_file_names(run, texts or [])
    options = _Options(as_json, n_best, stream, tokens, alignment)
    model: Pipeline | EngineModel | None = None
    if not (ensemble or draft or chat or alignment):
        model = _find_model(run, precision, device, decoding or [], options)
    if model is None:
        model = _open_pipeline(run, ensemble, decoding or [], precision, device, options)
    if draft is not None:
        model = _as_pipeline(model).with_draft(load_ensemble(draft, None, device=device))
    timer.opened()
    notices = OutputNotices(_tokenizer(model))
    if chat:
        _answer_chat(_as_pipeline(model), template, as_json, stream)
        timer.answered()
    for part in [] if chat else [texts] if texts else _chunks():
        if stream:
            for text in part:
                notices.report(_stream(model, text))
                timer.answered()
            continue
        for output in _predict_each(model, part):
            line = _to_json(model, output, options) if as_json else output.display
            sys.stdout.write(line + "\n")
            if not as_json:  # which has the warnings
                notices.report(output)
            timer.answered()
        sys.stdout.flush()
    notices.finish()
    if timing:
        print(timer.report(model, as_json), file=sys.stderr)
    if draft is not None:
        from jumok.tasks.pipeline.generation_pipeline import as_generation

        print_message(
            "cli.draft_model",
            "draft: {draft_model}",
            draft_model=as_generation(_as_pipeline(model)).draft_model,
        )


@dataclass(frozen=True)
class _Options:
    """What is printed of each text."""

    as_json: bool
    n_best: int | None
    stream: bool
    tokens: bool
    alignment: bool

    @property
    def need_generation(self) -> str:
        """The first option that needs a model that generates text; "" for none."""
        given = {
            "--n-best": self.n_best is not None,
            "--tokens": self.tokens,
            "--alignment": self.alignment,
            "--stream": self.stream,
        }
        return next((option for option, is_given in given.items() if is_given), "")


def _find_model(
    run: Path, precision: str | None, device: str, overrides: list[str], options: _Options
) -> "EngineModel | None":
    """The model without torch; None where torch opens it, or names what is wrong."""
    engine = find_engine(run, precision, device, overrides)
    if engine is None or not engine.generates:
        return None if options.need_generation else engine
    from jumok.engine.generation import GenerationModel

    assert isinstance(engine, GenerationModel)
    if options.n_best is not None:
        engine = engine.with_decoding(_n_best_overrides(engine.decoding, options.n_best))
    _check_output(engine.decoding, options)
    print_decoding(engine)
    return engine


def _open_pipeline(
    run: Path,
    ensemble: list[Path] | None,
    overrides: list[str],
    precision: str | None,
    device: str,
    options: _Options,
) -> "Pipeline":
    """The model of a run, or an ensemble, with the settings of the command."""
    pipeline = with_fast_encoder(load_ensemble(run, ensemble, overrides, device), precision)
    if options.need_generation:
        _check_generates(pipeline, options.need_generation)
        search = pipeline.with_decoding(overrides).recipe.decoding
        if options.n_best is not None:
            overrides = [*overrides, *_n_best_overrides(search, options.n_best)]
            search = search.overridden(overrides)
        _check_output(search, options)
    pipeline = apply_decoding(pipeline, overrides, ensemble, precision)
    if options.alignment:
        from jumok.tasks.pipeline.generation_pipeline import as_generation

        pipeline = as_generation(pipeline).with_alignment()
    return pipeline


def _as_pipeline(model: "Pipeline | EngineModel") -> "Pipeline":
    from jumok.tasks.pipeline.pipeline import Pipeline

    assert isinstance(model, Pipeline)  # the engine has none of the options that need one
    return model


class _Timer:
    """The seconds of one command, from its start; imports before it are not counted."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._open = self._first = self._last = 0.0
        self._n_texts = 0

    def opened(self) -> None:
        """Everything is loaded; what follows are answers."""
        self._open = time.perf_counter() - self._start

    def answered(self) -> None:
        """One more text has its answer."""
        self._last = time.perf_counter() - self._start
        self._first = self._first or self._last
        self._n_texts += 1

    def report(self, pipeline: "Pipeline | EngineModel", as_json: bool) -> str:
        """Seconds, texts and the kernel, on one line."""
        from jumok.config_io import to_dict

        kernel = pipeline.kernel
        if as_json:
            seconds = {
                "open_seconds": round(self._open, 4),
                "first_answer_seconds": round(self._first, 4),
                "total_seconds": round(self._last, 4),
            }
            tree = {**seconds, "texts": self._n_texts, "kernel": to_dict(kernel)}
            return to_json_line({"timing": tree})
        return translate(
            "timing: open {:.3f} s, first answer after {:.3f} s, last of {} after {:.3f} s; "
            "kernel {} in {}: {}",
            self._open,
            self._first,
            self._n_texts,
            self._last,
            kernel.kernel,
            kernel.precision,
            localize(kernel.reason),
        )


def _to_json(model: "Pipeline | EngineModel", output: "Output", options: _Options) -> str:
    """A prediction as one line of JSON, with tokens and alignment if requested."""
    from jumok.tasks.pipeline.outputs import GeneratedText, to_json

    extra = None
    if options.alignment and isinstance(output, GeneratedText):
        from jumok.tasks.pipeline.generation import align_output

        aligned = align_output(_as_pipeline(model), output)
        extra = {"source": aligned.source, "alignment": aligned.alignment}
    return to_json(output, extra, tokens=options.tokens)


def _predict_each(pipeline: "Pipeline | EngineModel", texts: list[str]) -> "Iterator[Output]":
    """Predictions for texts; those before an invalid text are returned before it raises."""
    from jumok.errors import InputError

    try:
        yield from pipeline.predict(texts)
    except InputError:
        for text in texts:
            yield from pipeline.predict([text])


def _n_best_overrides(search: "DecodingConfig", n: int) -> list[str]:
    """Decoding overrides for n outputs; the beam is widened if it is narrower."""
    widened = not search.sample and search.beam < n
    return [*([f"beam={n}"] if widened else []), f"n_best={n}"]


def _check_mistyped_options(texts: list[str], known: list[str]) -> None:
    """Raises InputError for a mistyped option, which would otherwise be taken for a text."""
    from jumok.config_io import suggest

    for text in texts:
        if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", text):
            raise UsageError(
                "cli.unknown_option",
                "unknown option {text} ({suggest}); give texts that look like options on stdin",
                text=text,
                suggest=suggest(text.partition("=")[0], known),
            )


def _report_file_names(run: Path, texts: list[str]) -> None:
    """Report on stderr a text that is the name of a file, whose lines may have been meant."""
    for text in texts:
        if os.path.isfile(text):
            words = command_line("jumok", "predict", run)
            print_message(
                "cli.text_is_a_file_name",
                "jumok: {text!r} is predicted as a text, but there is a file of this name; "
                "for its lines use: {words} < {text_2}",
                text=text,
                words=words,
                text_2=command_line(text),
            )


def _check_generates(pipeline: "Pipeline", option: str) -> None:
    """Raises InputError for a model that does not generate text."""
    if not pipeline.task.generates:
        raise UsageError(
            "cli.options_need_generation",
            "{option} needs a model that generates text, got task {task}",
            option=option,
            task=pipeline.recipe.task,
        )


def _check_chat_options(
    chat: bool, texts: list[str], template: Path | None, others: dict[str, object]
) -> None:
    """Raises InputError for --template without --chat, and for what --chat does not use."""
    if template is not None and not chat:
        raise UsageError(
            "cli.template_needs_chat",
            "--template is the template of a chat, got no --chat; add --chat, or leave it out",
        )
    if chat and texts:
        raise UsageError(
            "cli.chat_reads_stdin",
            "--chat answers the messages on stdin, got the text {text!r} too; leave it out",
            text=texts[0][:40],
        )
    for option, value in others.items():
        if chat and value:
            raise UsageError(
                "cli.option_without_chat",
                "{option} and --chat exclude each other; use one of them",
                option=option,
            )


def _check_output(decoding: "DecodingConfig", options: _Options) -> None:
    """Raises InputError for --tokens and --alignment without --json, and for what has no stream."""
    if (options.tokens or options.alignment) and not options.as_json:
        raise UsageError(
            "cli.tokens_and_alignment_need_json",
            "--tokens and --alignment need JSON output; add --json",
        )
    if not options.stream:
        return
    if options.as_json:
        raise UsageError(
            "cli.stream_and_json", "--stream and --json exclude each other; use one of them"
        )
    if decoding.n_best > 1:
        raise UsageError(
            "cli.stream_needs_n_best",
            "--stream needs n_best = 1, got {n_best}",
            n_best=decoding.n_best,
        )
    if decoding.beam > 1:
        raise UsageError(
            "cli.stream_needs_beam",
            "--stream needs beam = 1, got {beam}: a wider beam chooses its output at the end; "
            "add --decoding beam=1",
            beam=decoding.beam,
        )


def _answer_chat(pipeline: "Pipeline", template: Path | None, as_json: bool, stream: bool) -> None:
    """Answer the messages on stdin."""
    from jumok.cli.stdin import open_stdin
    from jumok.safe_json import MAX_BYTES, parse_json_value
    from jumok.tasks.pipeline.chat import Chat
    from jumok.text.chat import parse_messages

    chat = Chat.of(pipeline, read_template(template))
    data = open_stdin().read(MAX_BYTES + 1)
    if not data.strip():
        raise UsageError(
            "cli.no_messages",
            '--chat needs messages on stdin, [{{"role": "user", "content": "..."}}, ...], got '
            "nothing; see jumok chat for a conversation",
        )
    messages = parse_messages(parse_json_value(data))

    def show(part: str) -> None:
        sys.stdout.write(part)
        sys.stdout.flush()

    answer = chat.answer(messages, show if stream else lambda part: None)
    if as_json:
        sys.stdout.write(to_json_line({"role": "assistant", "content": answer}) + "\n")
    else:
        sys.stdout.write("\n" if stream else answer + "\n")


class _Streams(Protocol):
    """A model that generates text."""

    def stream(self, text: str, on_text: Callable[[str], None]) -> "Output":
        """Generate for one text; each part goes to `on_text` as soon as it is final."""


def _tokenizer(model: "Pipeline | EngineModel") -> "Tokenizer | None":
    from jumok.engine.model import EngineModel

    return model.vocabulary if isinstance(model, EngineModel) else model.vocabulary_or_none


def _stream(model: "Pipeline | EngineModel", text: str) -> "Output":
    """Generate for one text and print each part as it is decoded."""

    def show(part: str) -> None:
        sys.stdout.write(part)
        sys.stdout.flush()

    output = cast("_Streams", model).stream(text, show)  # it generates text
    show("\n")
    return output


def _chunks() -> Iterator[list[str]]:
    """The lines of stdin in batches.

    Those of a pipe or a terminal are not waited for: a batch ends with the last line that has
    arrived, and the first batches are small, so that the first answers come early.
    """
    from jumok.cli.stdin import PipeLines, open_stdin, read_lines
    from jumok.errors import JumokError

    stdin = open_stdin()
    pipe, chunk_size = None, CHUNK_LINES
    if not stat.S_ISREG(os.fstat(stdin.fileno()).st_mode):
        pipe = PipeLines(stdin.fileno()) if os.name == "posix" else None
        chunk_size = 1
    chunk: list[str] = []
    n_chars = 0
    try:
        for line in read_lines(pipe):
            chunk.append(line)
            n_chars += len(line)
            full = len(chunk) == chunk_size or n_chars > MAX_CHUNK_CHARS
            if full or (pipe is not None and not pipe.has_line()):
                yield chunk
                chunk, n_chars = [], 0
                if pipe is not None:
                    chunk_size = min(2 * chunk_size, CHUNK_LINES)
    except JumokError:  # the lines before an invalid line are still predicted
        yield chunk
        raise
    yield chunk
