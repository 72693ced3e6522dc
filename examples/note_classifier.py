"""A film classifier in 30 lines: model, batches, training, table and graph.

python examples/note_classifier.py TRAIN.tsv DEV.tsv OUT.png [EPOCHS]  (last columns: text, 0 or 1)
"""

import sys
from pathlib import Path
from typing import Any, cast

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from jumok import Decoder, Encoder, SentencePieceTokenizer, TransformerConfig
from jumok.text.sentencepiece import VocabularyConfig


class MovieClassification(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(config), Decoder(config, cross=True)
        self.projection = nn.Linear(config.d_model, 2, bias=False)

    def forward(self, review: Tensor, start: Tensor) -> Tensor:
        memory = self.encoder(review, review != 0)  # (B, S, D); 0 is padding
        hidden = self.decoder(start, memory=memory, memory_mask=review != 0)  # (B, 1, D)
        return self.projection(hidden.amax(1))  # (B, 2)


def collate(rows: list[list[str]]) -> tuple[Tensor, ...]:
    ids = [torch.tensor(tokenizer.encode(row[-2])[:256]) for row in rows]
    start = torch.full((len(rows), 1), tokenizer.bos_id)  # the decoder reads [BOS] alone
    return nn.utils.rnn.pad_sequence(ids, True), start, torch.tensor([int(row[-1]) for row in rows])


files = [Path(name).read_text("utf-8").splitlines()[1:] for name in sys.argv[1:3]]
train, dev = ([line.split("\t") for line in lines] for lines in files)
tokenizer = SentencePieceTokenizer.train((row[-2] for row in train), VocabularyConfig(kind="char"))
config = TransformerConfig(vocabulary_size=len(tokenizer), n_layers=1, d_model=128, d_ff=512)
model = MovieClassification(config)
optimizer, batches = torch.optim.Adam(model.parameters(), lr=1e-3), cast(Any, DataLoader)
table = [[0.0, 0.0] for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 10)]
for epoch, row in enumerate(table, 1):  # the mean loss on train, then the accuracy on dev
    for review, start, label in batches(train, 128, shuffle=True, collate_fn=collate):
        loss = nn.functional.cross_entropy(model.train()(review, start), label)
        optimizer.zero_grad(), loss.backward(), optimizer.step()
        row[0] += loss.item() * len(label) / len(train)
    for review, start, label in batches(dev, 128, collate_fn=collate):
        row[1] += (model.eval()(review, start).argmax(1) == label).sum().item() / len(dev)
    print("epoch {}  loss {:.4f}  accuracy {:.4f}".format(epoch, *row))
plt.legend(plt.plot(table), ("loss", "accuracy"))
plt.savefig(sys.argv[3])
