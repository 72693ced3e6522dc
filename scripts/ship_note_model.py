"""Put the model of the course into the package: bfloat16 weights, about 100 kB, and a card.

jumok train note --out runs/note
python scripts/ship_note_model.py runs/note [--out src/jumok/shipped]
"""

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import torch

import jumok
from jumok import safetensors_io
from jumok.atomic_io import write_atomically
from jumok.models.weights import named_weights, tied_weights
from jumok.shipped import CARD, VOCABULARY, WEIGHTS
from jumok.tasks.runs.run import Run

MAX_BYTES = 130_000
EXAMPLES = ("겨울은 추워요.", "감기 조심하세요.", "나는 집으로 재빠르게 간다.")


def main() -> None:
    """Write the folder of the model."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--out", type=Path, default=Path("src/jumok/shipped"))
    given = arguments.parse_args()
    print(ship(given.run, given.out / "note"))


def ship(folder: Path, target: Path) -> Path:
    """Write the model of a finished run into `target`."""
    run, pipeline = Run.open(folder), jumok.load(folder, device="cpu")
    target.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.detach().to(torch.bfloat16)
        for name, weight in named_weights(pipeline.model).items()
    }
    tied = json.dumps(tied_weights(pipeline.model), sort_keys=True)
    data = safetensors_io.serialize(weights, {"tied": tied})
    if len(data) > MAX_BYTES:
        raise SystemExit(f"the weights must have at most {MAX_BYTES:,} bytes, got {len(data):,}")
    write_atomically(target / WEIGHTS, data)
    config = json.loads(run.config_path.read_text(encoding="utf-8"))
    config["weights_sha256"] = hashlib.sha256(data).hexdigest()
    write_atomically(
        target / "config.json", (json.dumps(config, ensure_ascii=False, indent=2) + "\n").encode()
    )
    for path in (run.recipe_path, folder / VOCABULARY):
        shutil.copyfile(path, target / path.name)
    shipped = jumok.load(target, device="cpu")
    rows = "\n".join(f"| {text} | {shipped(text).output} |" for text in EXAMPLES)
    n_weights = sum(weight.numel() for weight in weights.values())
    card = f"""# note

A Korean-English model of {n_weights:,} weights for the course: two layers, two heads, d_model 32.

It translates the sentences of one small grammar and nothing else. Many have two right wordings
(Winter is cold. The winter is cold.), of which training has the first in seven sentences of ten;
the probabilities of the model are close to that. Exact match with the first wording on held-out
sentences: {run.results()["exact_match"]:.3f} before the weights were rounded to bfloat16.

강의에 쓰는 작은 한국어-영어 번역 모델입니다. 정해진 문법의 짧은 문장만 번역합니다. 맞는 번역이 둘인
문장이 많아 후보의 확률이 갈립니다.

| text | output |
|---|---|
{rows}
"""
    write_atomically(target / CARD, card.encode())
    return target


if __name__ == "__main__":
    main()
