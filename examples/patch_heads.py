"""Which heads carry "winter"? The usual first experiment of interpretability, in Korean.

python examples/patch_heads.py

The model translates 겨울은 추워요. Each head in turn gets the output that it has for 여름은 더워요,
and logit(Winter) - logit(Summer) of the first token is measured again: a head that lowers it
carries the difference of the two texts. Any run or imported checkpoint works in place of `note`.
"""

import jumok
from jumok import experiment as ex


def main() -> None:
    """Print what each head changes, the largest first, and its estimate by gradients."""
    model = jumok.load("note", device="cpu")
    winter, summer = (model.target_vocabulary.encode(word)[0] for word in ("Winter", "Summer"))
    clean = ex.read(model, [("겨울은 추워요.", "Winter is cold.")])
    other = ex.read(model, [("여름은 더워요.", "Winter is cold.")])
    metric, heads = ex.logit_difference([winter], [summer], tokens=0), ex.heads(model)

    base = ex.measure(model, clean, metric)
    changes = (ex.patch(model, clean, other, metric, heads) - base)[:, 0]
    estimates = ex.attribution_patch(model, clean, other, metric, heads)[:, 0]

    print(f"difference of the logits: {base[0]:.2f}, {ex.measure(model, other, metric)[0]:.2f}")
    for i in changes.argsort():
        head = heads[i]
        print(f"{head.point} {head.head}: {changes[i]:+.2f} (estimate {estimates[i]:+.2f})")


if __name__ == "__main__":
    main()
