"""The most frequent keys of any number of records, in bounded memory."""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import Any

from gearshift.topics.dead_letters.letters import preview
from gearshift.topics.skew.verdict import HotKey

_LG_KEYS = 12  # 3,072 keys are kept; a count is off by at most 0.1 % of the sample
_LONGEST_KEY = 64


class HotKeys:
    """Counts keys with the frequent-items sketch of Apache DataSketches.

    >>> keys = HotKeys()
    >>> for key in (b"a", b"b", b"a"):
    ...     keys.add(0, key)
    >>> keys.hottest(1, of=3), keys.distinct
    ((HotKey(key='a', partition=0, records=2, share=0.6666666666666666),), 2)
    """

    def __init__(self) -> None:
        # Any: the library is untyped.
        self._library: Any = import_module("datasketches")
        self._sketch: Any = self._library.frequent_strings_sketch(_LG_KEYS)

    def add(self, partition: int, key: bytes) -> None:
        """Count a key of a partition."""
        self._sketch.update(f"{partition}:{_bounded(key)}")

    def hottest(self, most: int, *, of: int) -> tuple[HotKey, ...]:
        """The most frequent keys, with their share of `of` records."""
        if self._sketch.is_empty():
            return ()
        no_false_positives = self._library.frequent_items_error_type.NO_FALSE_POSITIVES
        found: list[tuple[str, int, int, int]] = self._sketch.get_frequent_items(no_false_positives)
        return tuple(
            _hot_key(item, int(estimate), of)
            for item, estimate, *_ in sorted(found, key=lambda entry: -entry[1])[:most]
        )

    @property
    def distinct(self) -> int | None:
        """The number of distinct keys; None if there were too many to count."""
        dropped = self._sketch.get_upper_bound("never counted") > 0
        return None if dropped else int(self._sketch.num_active_items)


def _bounded(key: bytes) -> str:
    """A key as reversible text; a long one is shortened to its beginning and a digest, to bound the memory."""
    if len(key) > _LONGEST_KEY:
        key = key[:_LONGEST_KEY] + b"..." + hashlib.blake2b(key, digest_size=6).hexdigest().encode()
    return key.decode("latin-1")


def _hot_key(item: str, records: int, of: int) -> HotKey:
    partition, _, key = item.partition(":")
    return HotKey(preview(key.encode("latin-1")), int(partition), records, min(1.0, records / of))
