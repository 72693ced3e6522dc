"""Opening a checkpoint of BERT-base's size (440 MB): from its folder to the first logits.

    python benchmarks/opening.py [--rounds 5] [--folder FOLDER]

Without a folder one is made: BertForMaskedLM, random weights, saved by transformers. Each round
starts a process for each system, by turns; the clock runs from after all imports, that of the model too,
to the logits of one text of 16 ids.
The file is in the page cache for both.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from turns import heading

RESULTS = Path(__file__).parent / "results" / "opening.txt"
OURS = """
import json, resource, sys, time
import torch, jumok
from jumok.tasks.loading import load
ids = torch.arange(100, 116)[None]
begin = time.perf_counter()
logits = load(sys.argv[1], device="cpu").logits(ids)
"""
THEIRS = """
import json, resource, sys, time
import torch, transformers
from transformers import AutoModelForMaskedLM
import transformers.models.bert.modeling_bert  # what Auto would import inside
ids = torch.arange(100, 116)[None]
begin = time.perf_counter()
with torch.inference_mode():
    logits = AutoModelForMaskedLM.from_pretrained(sys.argv[1]).eval()(ids).logits
"""
TELL = """
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([seconds, time.process_time(), peak, float(logits.double().sum())]))
"""
SYSTEMS = {"jumok.load": OURS, "transformers AutoModelForMaskedLM": THEIRS}
SIZES = {"vocab_size": 30_522, "hidden_size": 768, "num_hidden_layers": 12}


def main() -> None:
    """Make the folder if there is none, take turns, print and keep."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--folder", type=Path)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as home:
        folder = given.folder or made(Path(home))
        found: dict[str, list[list[float]]] = {name: [] for name in SYSTEMS}
        for number in range(given.rounds + 1):  # the first warms the page cache
            for name, script in SYSTEMS.items():
                answer = subprocess.run(
                    [sys.executable, "-c", script + TELL, str(folder)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                if number:
                    found[name].append(json.loads(answer.splitlines()[-1]))
    lines = [heading("python benchmarks/opening.py"), ""]
    lines.append(f"{'system':<36} {'seconds: min':>12} {'median':>7} {'max':>7}  {'peak RSS':>9}")
    for name, rounds in found.items():
        times = [each[0] for each in rounds]
        lines.append(
            f"{name:<36} {min(times):12.2f} {statistics.median(times):7.2f} {max(times):7.2f}  "
            f"{max(each[2] for each in rounds) / 2**20:5.0f} MiB"
        )
    ours, theirs = ([each[0] for each in found[name]] for name in SYSTEMS)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    lines.append(f"ratio of the times, median of the rounds: {statistics.median(ratios):.2f}")
    sums = [found[name][0][3] for name in SYSTEMS]
    lines.append(f"sum of the logits: {sums[0]:.3f} and {sums[1]:.3f}")
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def made(folder: Path) -> Path:
    """A checkpoint of BERT-base's size."""
    from transformers import BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig(**SIZES)).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    main()
