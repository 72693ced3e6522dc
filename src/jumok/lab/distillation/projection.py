"""Principal components of vectors, as targets of distillation.

Shapes: n vectors, B of a batch, S their width, D of the components.
"""

from dataclasses import dataclass

import numpy as np

from jumok.tasks.pipeline.text_vectors import Vectors


@dataclass(frozen=True)
class Projection:
    """The principal components of vectors: their mean (S,), and D orthogonal directions (S, D).

    Each direction is divided by the fourth root of its variance, half way to whitening (Su et al.
    2021, "Whitening sentence representations for better semantics and faster retrieval").
    """

    mean: Vectors
    components: Vectors

    @classmethod
    def fit(cls, vectors: Vectors, n: int, width: int) -> "Projection":
        """The `n` directions of largest variance, and columns of 0 up to `width`.

        >>> found = Projection.fit(np.array([[3, 1, 0], [1, 3, 0]], np.float32), n=2, width=2)
        >>> found(np.array([[4, 0, 0], [0, 4, 9]], np.float32)).round(2).tolist()
        [[1.0, 0.0], [-1.0, 0.0]]
        """
        rows = vectors.astype(np.float64)
        mean = rows.mean(0)
        variances, directions = np.linalg.eigh((rows - mean).T @ (rows - mean) / len(rows))
        kept = np.flatnonzero(variances > 1e-6 * variances[-1])[::-1][:n]  # ascending
        found = directions[:, kept]
        found = found * np.sign(found[np.abs(found).argmax(0), np.arange(len(kept))])
        components = np.zeros((len(mean), width))
        components[:, : len(kept)] = found * variances[kept] ** -0.25
        return cls(mean.astype(np.float32), components.astype(np.float32))

    def __call__(self, vectors: Vectors) -> Vectors:
        """Unit vectors (B, D) of the vectors (B, S)."""
        projected = np.asarray((vectors - self.mean) @ self.components, np.float32)
        lengths = np.linalg.norm(projected, axis=-1, keepdims=True)
        return np.asarray(projected / lengths.clip(1e-12), np.float32)
