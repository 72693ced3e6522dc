"""Opening a checkpoint of BERT-base's size (440 MB): from its folder to the first logits.

    python benchmarks/opening.py [--rounds 5] [--folder FOLDER]

Without a folder one is made: BertForMaskedLM, random weights, saved by transformers. Each round
starts a process for each system, by turns; the clock runs from a ready Python with the library
imported to the logits of one text of 16 ids. transformers imports the code of a model when one is
first opened; a second line has that import before the clock. The file is in the page cache.
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
from jumok.tasks.runs.load import load
ids = torch.arange(100, 116)[None]
begin = time.perf_counter()
logits = load(sys.argv[1], device="cpu").logits(ids)
"""
THEIRS = """
import json, resource, sys, time
import torch, transformers
from transformers import AutoModelForMaskedLM
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
IMPORTED = THEIRS.replace("ids =", "import transformers.models.bert.modeling_bert\nids =", 1)
SYSTEMS = {
    "jumok.load": OURS,
    "transformers": THEIRS,
    "transformers, its BERT imported before": IMPORTED,
}


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
    lines.append(f"{'system':<40} {'seconds: min':>12} {'median':>7} {'max':>7}  {'peak RSS':>9}")
    for name, rounds in found.items():
        times = [each[0] for each in rounds]
        lines.append(
            f"{name:<40} {min(times):12.2f} {statistics.median(times):7.2f} {max(times):7.2f}  "
            f"{max(each[2] for each in rounds) / 2**20:5.0f} MiB"
        )
    ours, *others = ([each[0] for each in found[name]] for name in SYSTEMS)
    for name, theirs in zip(list(SYSTEMS)[1:], others, strict=True):
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        lines.append(f"{statistics.median(ratios):.2f} of the time of {name} (median of rounds)")
    sums = [f"{rounds[0][3]:.2f}" for rounds in found.values()]
    lines.append(f"sums of the logits: {', '.join(sums)}")
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def made(folder: Path) -> Path:
    """A checkpoint of BERT-base's size."""
    from transformers import BertConfig, BertForMaskedLM

    BertForMaskedLM(BertConfig()).save_pretrained(folder)  # BERT-base is the default
    return folder


if __name__ == "__main__":
    main()
