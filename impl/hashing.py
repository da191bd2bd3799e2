"""Chained SHA-256 keys of full blocks.

A block's digest covers its parent's digest, its token ids, the request's extra keys and, for the first
block, the cache salt. Chaining carries the salt to every later block, so different salts or extra keys
never share a block (ISO-1). The encoding is injective: integers have a fixed width, and everything of
variable length is tagged and preceded by its length.
"""

from collections.abc import Sequence
from hashlib import sha256
from struct import Struct

ExtraKey = str | int | bytes

ROOT = sha256(b"slotproof prefix chain").digest()

_LENGTH = Struct("<Q")


def _encode_key(key: ExtraKey) -> bytes:
    if isinstance(key, str):
        tag, body = b"s", key.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        tag, body = b"b", key
    elif isinstance(key, int):
        tag, body = b"i", str(int(key)).encode()
    else:
        raise ValueError(f"extra key {key!r} is a {type(key).__name__}; use str, int or bytes")
    return tag + _LENGTH.pack(len(body)) + body


class BlockHasher:
    """Hashes the full blocks of one request; `block_size` token ids each."""

    __slots__ = ("_first_suffix", "_suffix", "_tokens")

    def __init__(self, block_size: int, cache_salt: str | None, extra_keys: tuple[ExtraKey, ...]) -> None:
        keys = b"".join(map(_encode_key, extra_keys))
        self._tokens = Struct(f"<Q{block_size}q")
        self._suffix = b"-" + keys
        self._first_suffix = self._suffix if cache_salt is None else b"+" + _encode_key(cache_salt) + keys

    def digest(self, parent: bytes | None, token_ids: Sequence[int]) -> bytes:
        """32-byte key of a full block; `parent` is the previous block's key, None for the first block."""
        tokens = self._tokens.pack(len(token_ids), *token_ids)
        if parent is None:
            return sha256(ROOT + tokens + self._first_suffix).digest()
        return sha256(parent + tokens + self._suffix).digest()
