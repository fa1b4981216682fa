"""The names of a partition and of offsets by partition."""

from __future__ import annotations

TopicPartition = tuple[str, int]
"""A topic's name and the number of one of its partitions."""
Offsets = dict[TopicPartition, int]
PartitionOffset = tuple[int, int]
"""A partition and an offset, where the topic is known."""
