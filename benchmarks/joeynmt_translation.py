"""JoeyNMT beside a finished translation run: the same data, pieces, size and wall time.

    python benchmarks/joeynmt_translation.py RUN --joeynmt SITE [--minutes M] [--work FOLDER]
        [--tests docs_test ...]

SITE is a folder made by `pip install --target SITE joeynmt importlib_metadata sentencepiece==0.2.0`
(JoeyNMT asks for an old protobuf, so it lives apart; torch and what it brings may be deleted from
SITE, so that both systems run on one torch). It is trained with the settings that it publishes for
a small Transformer (configs/transformer_iwslt14_deen_sp.yaml and its pre-norm successors: Xavier,
Adam at 0.0003, plateau schedule, label smoothing 0.1), but for a dropout of 0.1 as ours has and
batches of 2,048 tokens, which suit so short a training better than their 0.3 and 8,192; nothing of
it was tuned on these texts. It has RUN's layers and widths, in float32 (it offers no bfloat16 on a
CPU), and trains for as long as RUN's whole command took and then on to its next validation; its
validations and translations are not counted. Its best checkpoint by development perplexity
translates every test set with RUN's beam. Both are scored by the same function. What was trained or
translated in FOLDER already is not done again.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from turns import heading

from jumok.data.load import load_splits
from jumok.data.splits import SEQUENCES, is_test
from jumok.evaluation import bleu_tokenizations, sequence_metrics
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.runs.run import Run
from jumok.text.sentencepiece import SentencePieceTokenizer

RESULTS = Path(__file__).parent / "results"
METRICS = ("bleu", "chrf", "bleu_ko_mecab", "bleu_tokenized_lower")
DEV_ROWS = 1_000  # at most; it goes through them again and again
UNWRITTEN = 2  # tokens at most while it trains: its validations write all out, to no purpose here
CHUNK = 256  # sources of like length translated at once, as long as RUN's own settings let them be
FEWER = 64  # of those with more than LONG tokens, which take it many minutes
LONG = 50
STARTED = """
import runpy
from torch.optim import lr_scheduler

class Plateau(lr_scheduler.ReduceLROnPlateau):  # JoeyNMT 2.3 says `verbose`, which torch took away
    def __init__(self, *given, verbose=False, **named):
        super().__init__(*given, **named)

lr_scheduler.ReduceLROnPlateau = Plateau
runpy.run_module("joeynmt", run_name="__main__", alter_sys=True)
"""
Process = subprocess.Popen[bytes]
Scores = Mapping[str, Mapping[str, Any]]  # of each test set
SPECIAL = {"unk": "[UNK]", "pad": "[PAD]", "bos": "[BOS]", "eos": "[EOS]"}


def main() -> None:
    """Prepare, train for the same time, translate, score, write it down."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("run", type=Path, help="a finished run with one joint vocabulary")
    words.add_argument("--joeynmt", type=Path, required=True, help="the folder it is installed in")
    words.add_argument("--minutes", type=float, help="default: RUN's wall time")
    words.add_argument("--work", type=Path, default=Path("runs/joeynmt"))
    words.add_argument("--beam", type=int, default=5)
    words.add_argument("--tests", nargs="*", help="these alone; default: all")
    given = words.parse_args()
    run = Run.open(given.run)
    recipe, results = run.recipe(), run.results()
    folder: Path = given.work / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    tests = write_data(recipe, folder)
    minutes = given.minutes or results["wall_seconds"] / 60
    pieces = run.tokenizers().source.fingerprint
    marker = folder / "trained"
    if not marker.exists():
        write_pieces(run, folder)
        shutil.rmtree(folder / "model", ignore_errors=True)
        (folder / "train.yaml").write_text(config(recipe, folder, 1, UNWRITTEN), "utf-8")
        seconds, validating = train(folder, given.joeynmt, minutes)
        told = {"minutes": seconds / 60, "validating": validating / 60, "pieces": pieces}
        marker.write_text(json.dumps(told), "utf-8")
    trained = json.loads(marker.read_text("utf-8"))
    if trained["pieces"] != pieces:
        raise SystemExit(f"{folder} was trained beside another run; name another --work")
    chosen = given.tests or list(tests)
    ours = {part["split"]: part for part in [results, *results["others"]]}
    also = bleu_tokenizations(recipe.data.language)
    theirs = {
        name: sequence_metrics(
            translate(run, folder, given.joeynmt, name, given.beam),
            tests[name],
            also,
            recipe.data.language,
        ).to_dict()
        for name in chosen
    }
    kept = (folder / "model" / "best.ckpt").resolve().stem
    whole = results["wall_seconds"] / 60
    fact = (
        f"jumok: {whole:.1f} minutes, tests and all; JoeyNMT: {trained['minutes']:.1f} minutes of "
        f"training and {trained['validating']:.1f} of validations, its best checkpoint that of "
        f"step {kept}"
    )
    text = "\n".join([fact, "", *side_by_side(theirs, ours), "", *signatures(theirs[chosen[0]])])
    print(text)
    command = f"python benchmarks/joeynmt_translation.py RUN --joeynmt SITE --beam {given.beam}"
    if given.tests:
        command += f" --tests {' '.join(given.tests)}"
    (RESULTS / f"joeynmt_{recipe.name}.txt").write_text(f"{heading(command)}\n{text}\n", "utf-8")


def side_by_side(theirs: Scores, ours: Scores) -> list[str]:
    """Two lines a test set: JoeyNMT, then jumok."""
    metrics = [name for name in METRICS if name in next(iter(theirs.values()))]
    lines = [f"{'test set':<16}  {'system':<8}" + "".join(f"  {name}" for name in metrics)]
    for split in theirs:
        for system, scores in (("JoeyNMT", theirs[split]), ("jumok", ours[split])):
            cells = "".join(f"  {scores[name]:{len(name)}.2f}" for name in metrics)
            lines.append(f"{split:<16}  {system:<8}{cells}")
    return lines


def signatures(scores: Mapping[str, Any]) -> list[str]:
    """How each metric counts."""
    return [f"{key}: {value}" for key, value in scores.items() if key.endswith("signature")]


def write_data(recipe: Recipe, folder: Path) -> dict[str, list[str]]:
    """Plain parallel lines of every split; the targets of each test set.

    Of a development split that holds several kinds of texts one after the other, every n-th row.
    """
    splits = load_splits(recipe.data, SEQUENCES)
    tests = {}
    for name, table in splits.tables.items():
        every = -(-len(table) // DEV_ROWS) if name == "dev" else 1
        for column in SEQUENCES:
            cells = [" ".join(cell.split()) for cell in list(table.column(column))[::every]]
            (folder / f"{name}.{column}").write_text("\n".join(cells) + "\n", "utf-8")
        if is_test(name):
            tests[name] = list(table.column("target"))
    return tests


def write_pieces(run: Run, folder: Path) -> None:
    """RUN's joint vocabulary as it wants one: the SentencePiece model, and its pieces in a list."""
    pieces = run.tokenizers().source
    assert isinstance(pieces, SentencePieceTokenizer)
    pieces.save(folder / "pieces.model")
    special = set(SPECIAL.values())
    spelled = [pieces.piece(i) for i in range(len(pieces))]
    (folder / "pieces.txt").write_text(
        "\n".join([*SPECIAL.values(), *(p for p in spelled if p not in special)]) + "\n", "utf-8"
    )


def config(recipe: Recipe, folder: Path, beam: int, longest: int) -> str:
    """Its own YAML, which JSON is a part of."""
    model = recipe.model

    def tower(layers: int) -> dict[str, object]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": model.n_heads,
            "embeddings": {"embedding_dim": model.d_model, "scale": True, "dropout": 0.0},
            "hidden_size": model.d_model,
            "ff_size": model.d_ff,
            "dropout": 0.1,
            "layer_norm": "pre",
        }

    def side(name: str) -> dict[str, object]:
        return {
            "lang": name,
            "level": "bpe",
            "max_length": 250,
            "voc_file": str(folder / "pieces.txt"),
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": str(folder / "pieces.model")},
        }

    return json.dumps(
        {
            "name": recipe.name,
            "joeynmt_version": "2.3.0",
            "model_dir": str(folder / "model"),
            "use_cuda": False,
            "fp16": False,
            "random_seed": recipe.seed,
            "data": {
                "train": str(folder / "train"),
                "dev": str(folder / "dev"),
                "dataset_type": "plain",
                "src": side("source"),
                "trg": side("target"),
                "special_symbols": {
                    **{f"{name}_token": piece for name, piece in SPECIAL.items()},
                    **{f"{name}_id": i for i, name in enumerate(SPECIAL)},
                },
            },
            "training": {
                "optimizer": "adam",
                "normalization": "tokens",
                "adam_betas": [0.9, 0.999],
                "scheduling": "plateau",
                "patience": 5,
                "decrease_factor": 0.7,
                "learning_rate": 0.0003,
                "learning_rate_min": 0.0,
                "loss": "crossentropy",
                "label_smoothing": 0.1,
                "weight_decay": 0.0,
                "batch_size": 2048,
                "batch_type": "token",
                "early_stopping_metric": "ppl",
                "epochs": 1000,
                "validation_freq": 250,
                "logging_freq": 50,
                "keep_best_ckpts": 1,
                "overwrite": False,
                "shuffle": True,
                "print_valid_sents": [],
            },
            "testing": {
                "beam_size": beam,
                "beam_alpha": 1.0,
                "batch_size": 64,
                "batch_type": "sentence",
                "max_output_length": longest,
                "eval_metrics": [],
            },
            "model": {
                "initializer": "xavier_uniform",
                "embed_initializer": "xavier_uniform",
                "embed_init_gain": 1.0,
                "init_gain": 1.0,
                "bias_initializer": "zeros",
                "tied_embeddings": True,
                "tied_softmax": True,
                "encoder": tower(model.n_layers),
                "decoder": tower(model.n_decoder_layers or model.n_layers),
            },
        },
        indent=1,
    )


def train(folder: Path, site: Path, minutes: float) -> tuple[float, float]:
    """Train until the first validation after so much time; what was best on dev lies in its folder.

    The seconds of training, and of validations besides.
    """
    path = folder / "train.log"
    with path.open("w") as log:
        command = ("train", str(folder / "train.yaml"), "--skip-test")
        worker = start(site, *command, stdout=log, stderr=subprocess.STDOUT)
        try:
            begin = time.monotonic()
            late: int | None = None  # how many validations there were when the time was over
            while worker.poll() is None:
                time.sleep(1)
                validations = validations_in(path)
                seconds = time.monotonic() - begin - sum(validations)
                if late is None and seconds >= 60 * minutes:
                    late = len(validations)
                if late is not None and len(validations) > late:
                    time.sleep(10)  # its checkpoint is written
                    return seconds, sum(validations)
        finally:
            worker.send_signal(signal.SIGINT)
            worker.wait()
    raise SystemExit(f"JoeyNMT ended before its time; see {path}")


def validations_in(log: Path) -> list[float]:
    """The seconds of each validation."""
    told = re.findall(r"Generation took ([\d.]+)\[sec\]", log.read_text("utf-8"))
    return [float(seconds) for seconds in told]


def translate(run: Run, folder: Path, site: Path, name: str, beam: int) -> list[str]:
    """What it writes for a test set, line by line: short sources first, each part kept."""
    recipe, pieces = run.recipe(), run.tokenizers().source
    sources = (folder / f"{name}.source").read_text("utf-8").removesuffix("\n").split("\n")
    lengths = [len(row) + 1 for row in pieces.encode_batch(sources)]
    order = sorted(range(len(sources)), key=lambda i: lengths[i])
    found = [""] * len(sources)
    first = 0
    while first < len(order):
        part = folder / f"{name}.beam-{beam}.{first}"
        rows = order[first : first + CHUNK]
        kept = Path(f"{part}.output")
        if kept.exists():
            rows = rows[: kept.read_text("utf-8").count("\n")]
        elif lengths[rows[-1]] > LONG:
            rows = rows[:FEWER]
        longest = recipe.decoding.limit(lengths[rows[-1]])
        Path(f"{part}.yaml").write_text(config(recipe, folder, beam, longest), "utf-8")
        written = translate_part(site, part, [sources[i] for i in rows])
        for i, line in zip(rows, written, strict=True):
            found[i] = line
        first += len(rows)
    return found


def translate_part(site: Path, part: Path, sources: Sequence[str]) -> list[str]:
    """What it writes for some lines; a file of PART's name keeps it when it is whole.

    A test set is translated by one process at a time; several may translate several.
    """
    kept, printed = Path(f"{part}.output"), Path(f"{part}.printed")
    if not kept.exists():
        source, log = Path(f"{part}.source"), Path(f"{part}.log")
        source.write_text("".join(f"{line}\n" for line in sources), "utf-8")
        # to stdout, as its own `-o` fails in 2.3.0: a field is misnamed
        with source.open() as lines, printed.open("w") as output, log.open("w") as told:
            files = {"stdin": lines, "stdout": output, "stderr": told}
            start(site, "translate", f"{part}.yaml", **files).wait()
        if printed.read_text("utf-8").count("\n") != len(sources):
            raise SystemExit(f"JoeyNMT did not translate {source}; see {log}")
        printed.rename(kept)
    return kept.read_text("utf-8").removesuffix("\n").split("\n")


def start(site: Path, *words: str, **files: IO[str] | int) -> Process:
    """JoeyNMT in a process of its own, with these words of its command."""
    env = {"OMP_NUM_THREADS": "2", **os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-c", STARTED, *words]
    return subprocess.Popen(command, env=env, **files)  # type: ignore[call-overload, no-any-return]


if __name__ == "__main__":
    main()
