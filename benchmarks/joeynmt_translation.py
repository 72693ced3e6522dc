"""JoeyNMT beside a finished translation run: the same data, pieces, size and wall time.

    python benchmarks/joeynmt_translation.py RUN --joeynmt SITE [--minutes M] [--work FOLDER]
        [--tests docs_test ...]

SITE is a folder made by `pip install --target SITE joeynmt importlib_metadata sentencepiece==0.2.0`
(JoeyNMT asks for an old protobuf, so it lives apart; torch and what it brings may be deleted from
SITE, so that both systems run on one torch). It is trained with the settings that it publishes for
a small Transformer (configs/transformer_iwslt14_deen_sp.yaml and its pre-norm successors: Xavier,
Adam at 0.0003, plateau schedule, label smoothing 0.1), but for a dropout of 0.1 as ours has, which
suits so short a training better than their 0.3; at RUN's layers and widths, in float32 (it offers
no bfloat16 on a CPU), for as long as RUN's whole command took. Its best checkpoint by development
perplexity translates every test set with RUN's beam; the time of its translating is not counted.
Both are scored by the same function. What was trained or translated in FOLDER already is not done
again.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from turns import heading

from jumok.data.corpora import load_splits
from jumok.data.splits import SEQUENCES, is_test
from jumok.evaluation import countings, score_sequences
from jumok.tasks.recipe import Recipe
from jumok.tasks.run import Run
from jumok.text.sentencepiece import SentencePieceVocabulary

RESULTS = Path(__file__).parent / "results"
METRICS = ("bleu", "chrf", "bleu_ko_mecab", "bleu_tokenized_lower")
DEV_ROWS = 120  # at most: it writes them out again and again, which is slow and would be its loss
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
    run = Run.existing(given.run)
    recipe, results = run.recipe(), run.results()
    folder: Path = given.work / recipe.name
    folder.mkdir(parents=True, exist_ok=True)
    tests = write_data(recipe, folder)
    minutes = given.minutes or results["wall_seconds"] / 60
    if not (folder / "trained").exists():
        write_pieces(run, folder)
        (folder / "config.yaml").write_text(config(recipe, folder, given.beam), "utf-8")
        train(folder, given.joeynmt, minutes)
        (folder / "trained").write_text(f"{minutes:.1f} minutes\n")
    chosen = given.tests or list(tests)
    ours = {part["split"]: part for part in [results, *results["others"]]}
    also = countings(recipe.data.language)
    theirs = {
        name: score_sequences(
            translate(folder, given.joeynmt, name), tests[name], also, recipe.data.language
        ).as_json()
        for name in chosen
    }
    kept = (folder / "model" / "best.ckpt").resolve().stem
    whole = results["wall_seconds"] / 60
    fact = (
        f"jumok: {whole:.1f} minutes, tests and all; JoeyNMT: {minutes:.1f} minutes of training, "
        f"its best checkpoint that of step {kept}"
    )
    text = "\n".join([fact, "", *side_by_side(theirs, ours), "", *signatures(theirs[chosen[0]])])
    print(text)
    command = f"python benchmarks/joeynmt_translation.py RUN --minutes {minutes:.1f}"
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
    pieces = run.vocabularies().source
    assert isinstance(pieces, SentencePieceVocabulary)
    pieces.save(folder / "pieces.model")
    special = set(SPECIAL.values())
    spelled = [pieces.piece(i) for i in range(len(pieces))]
    (folder / "pieces.txt").write_text(
        "\n".join([*SPECIAL.values(), *(p for p in spelled if p not in special)]) + "\n", "utf-8"
    )


def config(recipe: Recipe, folder: Path, beam: int) -> str:
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
                "validation_freq": 500,
                "logging_freq": 100,
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
                "max_output_length": 150,
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


def train(folder: Path, site: Path, minutes: float) -> None:
    """Train until the time is over; what was best on dev lies in its folder."""
    with (folder / "train.log").open("w") as log:
        worker = start(folder, site, "train", "--skip-test", stdout=log, stderr=subprocess.STDOUT)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end and worker.poll() is None:
            time.sleep(1)
        if worker.poll() is None:
            worker.send_signal(signal.SIGINT)
        worker.wait()
    if not (folder / "model" / "best.ckpt").exists():
        raise SystemExit(f"JoeyNMT kept no checkpoint; see {folder / 'train.log'}")


def translate(folder: Path, site: Path, name: str) -> list[str]:
    """What it writes for a test set, line by line; kept when it is whole."""
    kept = folder / f"{name}.output"
    source = folder / f"{name}.source"
    rows = source.read_text("utf-8").count("\n")
    if not kept.exists():
        printed = folder / f"{name}.printed"  # its own `-o` fails in 2.3.0: a field is misnamed
        log = folder / f"{name}.log"
        with source.open() as lines, printed.open("w") as output, log.open("w") as told:
            start(folder, site, "translate", stdin=lines, stdout=output, stderr=told).wait()
        if printed.read_text("utf-8").count("\n") != rows:
            raise SystemExit(f"JoeyNMT did not translate {name}; see {log}")
        printed.rename(kept)
    return kept.read_text("utf-8").removesuffix("\n").split("\n")


def start(folder: Path, site: Path, mode: str, *words: str, **files: IO[str] | int) -> Process:
    """JoeyNMT in a process of its own."""
    command = [sys.executable, "-c", STARTED, mode, str(folder / "config.yaml"), *words]
    env = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "2"}
    return subprocess.Popen(command, env=env, **files)  # type: ignore[call-overload, no-any-return]


if __name__ == "__main__":
    main()
