"""The partition of a key, by the hash of Kafka's Java client."""

from __future__ import annotations

_M = 0x5BD1E995
_32_BITS = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32-bit integer.

    >>> murmur2(b"21") - 2**32
    -973932308
    """
    h = (0x9747B28C ^ len(data)) & _32_BITS
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _32_BITS
        k = (k ^ k >> 24) * _M & _32_BITS
        h = (h * _M & _32_BITS) ^ k
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _32_BITS
    h = (h ^ h >> 13) * _M & _32_BITS
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key's records.

    >>> partition_of(b"meter-1", 3) in range(3)
    True
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions
