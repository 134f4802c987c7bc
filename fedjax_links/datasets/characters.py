"""Encodes texts as tokens: one for each character of a vocabulary, and one for all others."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedjax_links.core import checks, errors

VOCABULARY = (
    '\n !"&\'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}'
)
"""The 80 characters of LEAF's Shakespeare, with tokens 0 to 79; any other character is 80."""
NUM_TOKENS = len(VOCABULARY) + 1

_TOKENS = np.full(256, len(VOCABULARY), np.uint8)
_TOKENS[list(VOCABULARY.encode('ascii'))] = np.arange(len(VOCABULARY))


def encode(texts: Sequence[str], *, argument: str = 'texts') -> NDArray[np.uint8]:
    """Encodes texts of one length.

    Args:
      texts: E texts of L characters each.
      argument: what to name in an error.

    Returns:
      uint8[E, L], below `NUM_TOKENS`.

    Raises:
      ValueError: for no texts, entries that are not texts, or texts that differ in length.
    """
    checks.not_empty(argument, texts)
    for text in texts:
        if not isinstance(text, str):
            raise errors.invalid(argument, 'be texts', errors.text_of(text))
        if len(text) != len(texts[0]):
            requirement = f'have {len(texts[0])} characters each'
            raise errors.invalid(argument, requirement, errors.text_of(text))
    points = np.frombuffer(''.join(texts).encode('utf-32-le', 'surrogatepass'), '<u4')
    return _TOKENS[np.minimum(points, 255)].reshape(len(texts), -1)


def encode_next(after: Sequence[str], *, argument: str = 'after') -> NDArray[np.int32]:
    """Encodes the single characters that follow texts as labels, int32[E].

    Raises:
      ValueError: for no entries, or entries that are not single characters.
    """
    tokens = encode(after, argument=argument)
    if tokens.shape[1] != 1:
        got = errors.text_of(after[0])
        raise errors.invalid(argument, 'be single characters', got)
    return tokens[:, 0].astype(np.int32)
