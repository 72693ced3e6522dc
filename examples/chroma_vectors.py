"""The vectors of a jumok model in Chroma.

pip install chromadb
python examples/chroma_vectors.py
"""

from typing import Any

import chromadb
from chromadb import Documents, EmbeddingFunction, Embeddings
from chromadb.utils.embedding_functions import register_embedding_function

import jumok.engine


@register_embedding_function
class JumokFunction(EmbeddingFunction[Documents]):
    """The vectors of a run, or of a model that ships with jumok, in int8."""

    def __init__(self, model: str = "ko-small-vectors") -> None:
        self.name_of_model = model
        self.model = jumok.engine.load(model, "int8")

    def __call__(self, input: Documents) -> Embeddings:  # noqa: A002  Chroma's name
        return list(self.model.encode(input))

    @staticmethod
    def name() -> str:
        return "jumok"

    def get_config(self) -> dict[str, Any]:
        return {"model": self.name_of_model}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> "JumokFunction":
        return JumokFunction(**config)


if __name__ == "__main__":
    collection = chromadb.EphemeralClient().create_collection(
        "answers", embedding_function=JumokFunction(), configuration={"hnsw": {"space": "cosine"}}
    )
    texts = ["배송은 이틀 걸립니다", "환불은 7일 안에 됩니다", "매장은 10시에 엽니다"]
    collection.add(ids=["1", "2", "3"], documents=texts)
    found = collection.query(query_texts=["택배가 언제 오나요?"], n_results=1)
    print(found["documents"][0][0])
