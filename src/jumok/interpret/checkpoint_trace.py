"""One trace of one text through a training: a sequence of the batch for each checkpoint of a run.

Shapes: F checkpoints, B sequences.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jumok.atomic_io import read_regular
from jumok.errors import InputError, TraceError
from jumok.interpret.schema import Frame, TraceInfo
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import Array, essential_bytes
from jumok.interpret.tracing import trace
from jumok.safe_json import parse_json
from jumok.tasks.runs.load import load

METRICS = "metrics.jsonl"
MAX_METRICS = 2**30  # bytes
MAX_FRAMES = 64
MAX_BYTES = 64 * 2**20  # of the numbers in float16
CHECKPOINTS_LEFT_OUT = "Some checkpoints are left out, because the trace would be too large."

_DERIVED = (".thumbnails", ".entropy")  # computed from the weights when a trace is made
_SHARED = ("rotary", ".positions", ".segments")  # without an axis of sequences


def checkpoint_folders(run: Path) -> dict[str, Path]:
    """The checkpoints in the folder of a run by name, oldest first."""
    found = [folder for folder in (run / "checkpoints").glob("step-*") if folder.is_dir()]
    numbered = [folder for folder in found if folder.name.removeprefix("step-").isdecimal()]
    return {folder.name: folder for folder in sorted(numbered, key=_step)}


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def trace_checkpoints(
    run: str | Path,
    text: str,
    target: str | None = None,
    decode: Mapping[str, object] | None = None,
    mute: Sequence[tuple[str, int, int]] = (),
    device: str = "auto",
) -> Trace:
    """The trace of a text with the weights of each checkpoint of a run, finished or not.

    Sequence i of the trace is the text with the weights of checkpoint i, whose step and score on
    the development split are `info.frames[i]`. A generative model reads `target` at every
    checkpoint; without one, what the last checkpoint generates. At most 64 checkpoints, and as many
    as fit in 64 MiB, from the first to the last at even distances; a note says when some are left
    out. Without parameters, next tokens and the logit lens. Other arguments are those of
    `jumok.trace`.

    >>> trace_checkpoints("note", "겨울은 추워요.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    jumok.errors.TraceError: note must have at least 2 checkpoints, got 0; train with ...

        jumok.train("nsmc", training__checkpoint_every=50, training__keep_checkpoints=100)
        trace_checkpoints("runs/nsmc", "재미있어요").html("training.html")

    Raises InputError for a run with fewer than two checkpoints, and for a text that is too long for
    two to fit.
    """
    folders = list(checkpoint_folders(Path(run)).values())
    if len(folders) < 2:
        raise TraceError(
            "trace.too_few_checkpoints",
            "{run} must have at least 2 checkpoints, got {n}; train with "
            "training.keep_checkpoints=100, and training.checkpoint_every=50 or so",
            run=run,
            n=len(folders),
        )
    last = trace(load(folders[-1], device), text, target, decode, mute)
    if target is None and last.info.decoding is not None:
        target = last.info.decoding.output
        last = trace(load(folders[-1], device), text, target, mute=mute)
    size = essential_bytes({name: last.tensor(name) for name in last.names}) // 2
    fitting = min(MAX_FRAMES, MAX_BYTES // size, len(folders))
    if fitting < 2:
        raise TraceError(
            "trace.checkpoints_too_large",
            "the text must be short enough for 2 checkpoints in {limit} MiB, got {size} MiB for "
            "one; try a shorter text",
            limit=MAX_BYTES >> 20,
            size=size >> 20,
        )
    chosen = [folders[i] for i in np.linspace(0, len(folders) - 1, fitting).round().astype(int)]
    traces = [trace(load(folder, device), text, target, mute=mute) for folder in chosen[:-1]]
    traces.append(last)
    info = joined_info([each.info for each in traces], _frames(Path(run), chosen))
    if len(chosen) < len(folders):
        info = replace(info, notes=(*info.notes, CHECKPOINTS_LEFT_OUT))
    return Trace.from_tensors(joined_tensors(traces), info)


def _frames(run: Path, folders: Sequence[Path]) -> tuple[Frame, ...]:
    """The step of each checkpoint, and the score of the evaluation at this step, if any."""
    scores: dict[object, dict[str, Any]] = {}
    for line in read_regular(run / METRICS, MAX_METRICS).splitlines():
        with suppress(InputError):  # the last line of a training that was killed
            record = parse_json(line)
            if record.get("kind") == "dev":
                scores[record.get("step")] = record
    frames = []
    for step in map(_step, folders):
        found = scores.get(step, {})
        score = found.get("score")
        frames.append(
            Frame(
                step=step,
                metric=str(found.get("metric", "")),
                score=None if score is None else float(score),
            )
        )
    return tuple(frames)


def joined_info(infos: Sequence[TraceInfo], frames: tuple[Frame, ...]) -> TraceInfo:
    """The header of a batch of traces of one text."""
    last = infos[-1]
    decodings = [info.decoding for info in infos if info.decoding is not None]
    classification = last.classification
    if classification is not None:
        predicted = [info.classification for info in infos if info.classification is not None]
        sequences = tuple(each.sequences[0] for each in predicted)
        classification = replace(classification, sequences=sequences)
    scores = [score for info in infos for score in info.regression or ()]
    return replace(
        last,
        sides={side: tuple(i.sides[side][0] for i in infos) for side in last.sides},
        classification=classification,
        regression=tuple(scores) or None,
        next=None,
        lens=None,
        decoding=decodings[0] if decodings else None,
        more_decodings=tuple(decodings[1:]),
        frames=frames,
    )


def joined_tensors(traces: Sequence[Trace]) -> dict[str, Array]:
    """The tensors of a batch of traces; what all sequences share only where it did not change."""
    names = set.intersection(*({*each.names} for each in traces))
    tensors: dict[str, Array] = {}
    for name in sorted(names):
        if name.startswith("parameters.") or name.endswith(_DERIVED):
            continue
        parts = [each.tensor(name) for each in traces]
        if not name.endswith(_SHARED):
            tensors[name] = np.concatenate(parts)
        elif all(np.array_equal(part, parts[0]) for part in parts):
            tensors[name] = parts[0]
    return tensors
