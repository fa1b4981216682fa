"""How far a consumer's life has come: what its threads must know of each other."""

from __future__ import annotations

import threading


class Life:
    """Set by whoever knows, read by everybody."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        """It was asked to end, or has to."""
        self.failure: BaseException | None = None
        self.letting_go = False
        """Partitions are going, and wait for what is in hand."""
        self.hurrying = False
        """Nothing more may begin, for a round has to end."""
        self.closing = False
        """No poll comes any more."""
        self.ended = False

    @property
    def is_over(self) -> bool:
        """Whether the polling thread does nothing any more for anyone."""
        return self.ended or self.failure is not None
