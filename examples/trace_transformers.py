"""A model of transformers, seen by the same eyes: its trace, its sharpest head, its page.

python examples/trace_transformers.py klue/bert-base "[MASK]은 대한민국의 수도이다."
"""

import sys
from pathlib import Path

import numpy as np
from transformers import AutoModel, AutoTokenizer

import jumok


def main(name: str, text: str, out: str = ".") -> None:
    """Keep what every head did, and look closely at the one that is least in two minds."""
    model = AutoModel.from_pretrained(name)
    trace = jumok.trace(model, text, tokenizer=AutoTokenizer.from_pretrained(name))
    [block] = trace.info.blocks
    entropy = trace.entropy(block.name)  # (L, H), in bits
    layer, head = map(int, np.unravel_index(entropy.argmin(), entropy.shape))
    print(f"{trace}: layer {layer}, head {head} has {entropy[layer, head]:.2f} bits a row")

    pieces = trace.info.tokens(block.queries).pieces
    for piece, row in zip(pieces, trace.weights(block.name, layer)[head], strict=True):
        print(f"{piece:8} looks at {pieces[int(row.argmax())]:8} with {row.max():.3f}")

    folder = Path(out)
    trace.save(folder / "trace.safetensors")  # for `jumok view` and `jumok.Trace.open`
    trace.figure("model").savefig(folder / "model.pdf")
    trace.html(folder / "page.html", f"v=matrix&L={layer}&H={head}")


if __name__ == "__main__":
    main(*sys.argv[1:])
