"""Token embeddings from co-occurrence: what a masked language model learns first, in minutes.

Positive pointwise mutual information of tokens that occur near each other, factorized (Levy and
Goldberg 2014, sections 3 and 4; harmonic weights as in Pennington et al. 2014). Shapes: V
vocabulary, E embedding width, N distinct pairs of tokens.
"""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.text.ragged import Ragged

WINDOW = 4  # tokens to the right; the matrix is symmetric
SMOOTHING = 0.75  # power of the frequency of contexts (Levy et al. 2015, section 3.2)
MIN_COUNT = 1.0  # weighted co-occurrences; rarer pairs are left out
ITERATIONS = 2  # of the randomized decomposition


def cooccurrence_embedding(
    rows: Ragged, vocabulary_size: int, width: int, generator: torch.Generator
) -> Tensor:
    """Vectors (V, E) float32: tokens with the same neighbours have the same direction.

    A token without a neighbour has the vector 0. The mean square of the others is 1.

    >>> rows = Ragged.from_lists([[0, 2], [1, 2], [3, 4]] * 9)  # 0 and 1 are both before 2
    >>> x = cooccurrence_embedding(rows, 6, 4, torch.Generator().manual_seed(0))
    >>> cosine = torch.cosine_similarity(x[0], x[[1, 3]])
    >>> [round(c, 2) for c in cosine.abs().tolist()], x[5].tolist()
    ([1.0, 0.0], [0.0, 0.0, 0.0, 0.0])
    """
    keys, counts = _pairs(rows, vocabulary_size)
    first, second = np.divmod(keys, vocabulary_size)
    total = np.bincount(first, counts, vocabulary_size)  # (V,)
    contexts = total**SMOOTHING
    information = np.log(counts * contexts.sum() / (total[first] * contexts[second]))
    kept = (information > 0) & (counts >= MIN_COUNT)
    values = torch.from_numpy(information[kept].astype(np.float32))  # (N,)
    starts = np.searchsorted(first[kept], np.arange(vocabulary_size + 1))
    columns = torch.from_numpy(second[kept])
    shape = (vocabulary_size, vocabulary_size)
    with warnings.catch_warnings():  # "CSR tensors are in beta state", "checks are disabled"
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(torch.from_numpy(starts), columns, values, shape)
    u, s = _decompose(matrix, width, generator)
    x = u * s.sqrt()  # (V, E): symmetric weighting of the singular values
    used = x.any(-1)  # (V,)
    return x / x[used].square().mean().sqrt() if used.any() else x


def _pairs(rows: Ragged, vocabulary_size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sorted keys first * V + second of neighbouring tokens, (N,), and their weighted counts."""
    ids = rows.ids.astype(np.int64)
    row = np.repeat(np.arange(len(rows)), rows.lengths)
    keys: NDArray[np.int64] = np.empty(0, np.int64)
    counts: NDArray[np.float64] = np.empty(0)
    for distance in range(1, WINDOW + 1):
        same = row[:-distance] == row[distance:]
        left, right = ids[:-distance][same], ids[distance:][same]
        both = np.concatenate([left * vocabulary_size + right, right * vocabulary_size + left])
        found, times = np.unique(both, return_counts=True)
        keys, counts = _merged(keys, counts, found, times / distance)
    return keys, counts


def _merged(
    keys: NDArray[np.int64],
    counts: NDArray[np.float64],
    more: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The union of two sets of keys with the sums of their counts."""
    union, inverse = np.unique(np.concatenate([keys, more]), return_inverse=True)
    summed = np.bincount(inverse, np.concatenate([counts, weights]), len(union))
    return union.astype(np.int64), summed.astype(np.float64)


def _decompose(matrix: Tensor, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The left singular vectors (V, E) and values (E) of a symmetric-shaped sparse matrix.

    Randomized subspace iteration (Halko et al. 2011, algorithm 4.4).
    """
    n = matrix.shape[0]
    rank = min(width + 8, n)  # oversampling
    q = torch.linalg.qr(matrix @ torch.randn(n, rank, generator=generator)).Q
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        transposed = matrix.t().to_sparse_csr()
    for _ in range(ITERATIONS):
        q = torch.linalg.qr(transposed @ q).Q
        q = torch.linalg.qr(matrix @ q).Q
    small = (transposed @ q).T  # (rank, V)
    u, s, _ = torch.linalg.svd(small, full_matrices=False)
    return (q @ u)[:, :width], s[:width]
