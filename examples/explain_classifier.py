"""Why did it answer so? A classifier reads a text, and once more without each of its words.

python examples/explain_classifier.py runs/nsmc "이 영화 정말 재미있어요"
"""

import sys
from pathlib import Path

import jumok


def main(run: str, text: str, out: str = ".") -> None:
    """Print the answer and what each word adds to it; draw both, and write the page."""
    trace = jumok.trace(jumok.load(run), text)
    classification = trace.info.classification
    if classification is None:
        raise SystemExit(f"{run} does not classify; name a run that does")
    answer = classification.sequences[0]
    best = max(range(len(classification.labels)), key=answer.probabilities.__getitem__)
    print(f"{classification.labels[best]} {answer.probabilities[best]:.3f}")
    for word in answer.words:
        print(f"{answer.probabilities[best] - word.without[best]:+.3f} {word.text}")

    folder = Path(out)
    trace.figure("explanation", width=3.3).savefig(folder / "explanation.pdf")
    trace.figure("heads", layer=-1, unit="word").savefig(folder / "heads.png")
    trace.html(folder / "page.html", "v=explanation")  # opens in any browser, without requests


if __name__ == "__main__":
    main(*sys.argv[1:])
