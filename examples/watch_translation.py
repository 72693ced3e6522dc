"""How is a translation written? Step by step, and once more with one head switched off.

python examples/watch_translation.py runs/koen "겨울은 춥다." cross.1.0
"""

import sys
from pathlib import Path

import jumok


def main(run: str, text: str, head: str, out: str = ".") -> None:
    """Print every step and what was looked at; then what is written without a head."""
    model = jumok.load(run)
    trace = jumok.trace(model, text, decode={"beam": 4})
    decoding, source = trace.info.decoding, trace.info.tokens("source")
    assert decoding is not None  # a model that was given no target writes its own
    last = trace.info.block("cross").layers - 1
    looked = trace.weights("cross", last).mean(axis=0)  # (T, S), the mean of all heads
    for row, step in zip(looked, decoding.steps, strict=False):  # the answer's end has no row
        if step.chosen is not None:
            at = source.pieces[int(row.argmax())]
            rivals = " ".join(f"{c.piece} {c.probability:.2f}" for c in step.before[:3])
            print(f"{step.chosen.piece:8} looks at {at:8} from {rivals}")
    print(decoding.output)

    block, layer, number = head.split(".")
    muted = jumok.trace(model, text, decode={"beam": 4}, mute=[(block, int(layer), int(number))])
    assert muted.info.decoding is not None
    print(f"without {head}: {muted.info.decoding.output}")

    folder = Path(out)
    trace.figure("alignment", unit="word", width=3.3).savefig(folder / "alignment.pdf")
    trace.html(folder / "page.html", "v=generation")


if __name__ == "__main__":
    main(*sys.argv[1:])
