"""The usual LitServe server, which `benchmarks.serving` compares `jumok serve` with.

    python peers.py FOLDER PORT THREADS

It classifies in batches with transformers, with the linear maps quantized by PyTorch to int8.
"""

import sys
from typing import Any

import litserve
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

BATCH_TEXTS = 32
WINDOW_SECONDS = 0.005


class Classifier(litserve.LitAPI):  # type: ignore[misc]  # it is not installed where mypy runs
    """The probabilities of the labels of a text."""

    def setup(self, device: str) -> None:
        """Load the model in the process that computes."""
        folder, _, threads = sys.argv[1:]
        torch.set_num_threads(int(threads))
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        quantize: Any = torch.ao.quantization.quantize_dynamic
        self.model = quantize(model, {torch.nn.Linear})

    def decode_request(self, request: dict[str, Any]) -> str:
        """The text of a request."""
        return str(request["text"])

    def batch(self, inputs: list[str]) -> list[str]:
        """The texts of several requests."""
        return inputs

    @torch.inference_mode()
    def predict(self, texts: list[str]) -> list[list[float]]:
        """The probabilities of each text."""
        inputs = self.tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        found: list[list[float]] = self.model(**inputs).logits.softmax(-1).tolist()
        return found

    def unbatch(self, output: list[list[float]]) -> list[list[float]]:
        """One result for each request."""
        return output

    def encode_response(self, output: list[float]) -> dict[str, Any]:
        """The response."""
        return {"probabilities": output}


def main() -> None:
    """Serve until a signal."""
    api = Classifier(max_batch_size=BATCH_TEXTS, batch_timeout=WINDOW_SECONDS)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    port = int(sys.argv[2])
    server.run(host="127.0.0.1", port=port, generate_client_file=False, log_level="error")


if __name__ == "__main__":
    main()
