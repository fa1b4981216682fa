"""The metadata that deliveries commit with each offset."""

from __future__ import annotations

from dataclasses import dataclass

_TOPIC_ID, _STORED = "topic-id:", "stored:"


@dataclass(frozen=True, slots=True)
class Note:
    """The id of an offset's topic, and the offset up to which the destination had stored records by then.

    >>> str(Note("vJ0lSJk1Tp2Z3dOe6Vgf5A", 60)), str(Note())
    ('topic-id:vJ0lSJk1Tp2Z3dOe6Vgf5A stored:60', '')
    >>> Note.read("topic-id:vJ0lSJk1Tp2Z3dOe6Vgf5A stored:60"), Note.read("from another tool")
    (Note(topic_id='vJ0lSJk1Tp2Z3dOe6Vgf5A', stored=60), Note(topic_id=None, stored=None))
    """

    topic_id: str | None = None
    """None if the brokers have no topic ids."""
    stored: int | None = None
    """None if the destination stores no offsets, or was not written to."""

    @classmethod
    def read(cls, text: str | None) -> Note:
        """Parse a commit's metadata; other tools write none or something else."""
        topic_id: str | None = None
        stored: int | None = None
        for word in (text or "").split():
            if word.startswith(_TOPIC_ID):
                topic_id = word.removeprefix(_TOPIC_ID)
            elif word.startswith(_STORED) and word.removeprefix(_STORED).isdecimal():
                stored = int(word.removeprefix(_STORED))
        return cls(topic_id, stored)

    def __str__(self) -> str:
        words = [] if self.topic_id is None else [f"{_TOPIC_ID}{self.topic_id}"]
        return " ".join(words if self.stored is None else [*words, f"{_STORED}{self.stored}"])


@dataclass(frozen=True, slots=True)
class Committed:
    """A group's committed offset of a partition, with its note."""

    offset: int
    note: Note
