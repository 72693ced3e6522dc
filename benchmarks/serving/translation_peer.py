"""The usual FastAPI server around CTranslate2, which `benchmarks.serving.translation` measures.

    python translation_peer.py FOLDER PORT INTER INTRA BEAM TOKENS

An endpoint that is a plain function runs in a pool of threads, and a translator translates INTER
texts at a time, each with INTRA threads.
"""

import sys
import unicodedata

import ctranslate2
import sentencepiece
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel


class Request(BaseModel):
    """A text to translate."""

    text: str


def main() -> None:
    """Serve until a signal."""
    folder = sys.argv[1]
    port, inter, intra, beam, tokens = map(int, sys.argv[2:])
    translator = ctranslate2.Translator(
        folder, device="cpu", compute_type="int8", inter_threads=inter, intra_threads=intra
    )
    pieces = sentencepiece.SentencePieceProcessor(f"{folder}/vocabulary.model")
    app = FastAPI()

    def health() -> dict[str, str]:
        return {"status": "ok"}

    def translate(request: Request) -> dict[str, str]:
        source = pieces.encode(unicodedata.normalize("NFC", request.text), out_type=str)
        (answer,) = translator.translate_batch(
            [source], beam_size=beam, min_decoding_length=tokens, max_decoding_length=tokens
        )
        return {"translation": pieces.decode(answer.hypotheses[0])}

    app.get("/health")(health)
    app.post("/translate")(translate)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
