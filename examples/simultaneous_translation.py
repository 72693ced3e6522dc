"""Simultaneous translation: what is written before the sentence has been read (AlignAtt).

Papi et al. 2023 (arXiv 2305.11408): after each word that is read, tokens are written as long as the
position they attend to most is not among the last FRAMES of the source; then the next word is read.
The attention is the kernel's own, of the same steps that write.

python examples/simultaneous_translation.py runs/numbers "삼백이십일 더하기 오" 1
"""

import sys
from collections.abc import Iterator

import torch

import jumok
from jumok.native import NativeDecoder, NativeModel


def translate(
    model: jumok.Pipeline, native: NativeModel, words: list[str], frames: int
) -> Iterator[tuple[int, int]]:
    """Each token that is written, with the number of words read before it."""
    tokenizer, target = model.vocabulary, model.target_vocabulary
    heads = [(native.weights.n_layers - 1, head) for head in range(native.weights.n_heads)]
    written = [target.decoder_start_id]
    for n in range(1, len(words) + 1):
        read, whole = tokenizer.encode(" ".join(words[:n])), n == len(words)
        source = torch.tensor([[*read, tokenizer.eos_id]])
        decoder = NativeDecoder(native, source, capacity=native.max_length)
        decoder.record_attention("cross", heads)
        logits = decoder.step(torch.tensor([written]))
        while True:
            token = int(logits.argmax())
            looked = decoder.mean_attention()[0, : len(read)]  # (S,) without [EOS]
            is_new = int(looked.argmax()) >= len(read) - frames
            if token == target.eos_id or (is_new and not whole):
                break  # read on; after the last word, the end
            written.append(token)
            yield token, n
            if decoder.length == native.max_length:
                return
            logits = decoder.step(torch.tensor([[token]]))


def main(run: str, text: str, frames: str) -> None:
    """Print what is written after each word, and the average lagging (Ma et al. 2019)."""
    model, words = jumok.load(run), text.split()
    found = list(translate(model, NativeModel(model.model, "float32"), words, int(frames)))
    for n, word in enumerate(words, 1):
        print(f"{word}\t{model.target_vocabulary.decode([t for t, read in found if read == n])}")
    reads = [read for _, read in found]
    until = reads.index(len(words)) + 1 if len(words) in reads else len(reads)
    lags = [read - t * len(words) / len(reads) for t, read in enumerate(reads[:until])]
    print(model.target_vocabulary.decode([token for token, _ in found]))
    print(f"average lagging {sum(lags) / max(1, len(lags)):.2f} words")


if __name__ == "__main__":
    main(*sys.argv[1:])
