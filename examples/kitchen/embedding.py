"""Turn text into a vector near those of texts with the same words, or parts of words.

In go texts; out comes a list of `DIMENSIONS` numbers, of length 1, to be compared by cosine. It is
made here, without a model and without a network, the same in every process: each word and each
piece of one is hashed to a dimension and a sign (the hashing trick of Weinberger et al., 2009).

Limits: it knows how words are spelt, and not what they mean. "Lentils" finds "lentil soup" and
"warm" does not. An application with a real model puts its call in the place of `embed`.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

DIMENSIONS: Final = 512
PIECE: Final = 4  # characters; of a word with its ends marked

WORD: Final = re.compile(r"\w+")
# said of any recipe
_STOP_WORDS = """
    a about all an and any are as at be but by can cook dish eat food for from good have i if in
    into is it its like make made me my nice of on one or our recipe some something that the their
    them then this to use want we what which with you your
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())


def embed(*texts: str | None) -> list[float] | None:
    """Return the vector of texts, each of which weighs the same, whatever its length.

    Returns:
        `None` where there is no word in any of them: such a text is near to nothing.
    """
    total = [0.0] * DIMENSIONS
    for text in texts:
        vector = _unit(_vector(text or ""))
        total = [sum(pair) for pair in zip(total, vector, strict=True)]
    return _unit(total) if any(total) else None


def _vector(text: str) -> list[float]:
    vector = [0.0] * DIMENSIONS
    for word, count in Counter(_words(text)).items():
        for dimension, weight in _features(word):
            vector[dimension] += weight * math.sqrt(count)
    return vector


def _words(text: str) -> Iterator[str]:
    """Yield the words that tell something, in lower case and without accents."""
    spelt = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(char for char in spelt if not unicodedata.combining(char))
    return (word for word in WORD.findall(plain) if word not in STOP_WORDS)


@lru_cache(maxsize=4096)
def _features(word: str) -> list[tuple[int, float]]:
    """Return the dimensions of a word and of its pieces: it weighs 1, and they together."""
    marked = f"<{word}>"
    pieces = {marked[start : start + PIECE] for start in range(max(1, len(marked) - PIECE + 1))}
    weight = 1 / math.sqrt(len(pieces))
    return [_hashed(marked, 1.0), *(_hashed(piece, weight) for piece in sorted(pieces))]


def _hashed(feature: str, weight: float) -> tuple[int, float]:
    number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest())
    return number // 2 % DIMENSIONS, weight if number % 2 else -weight


def _unit(vector: list[float]) -> list[float]:
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else vector
