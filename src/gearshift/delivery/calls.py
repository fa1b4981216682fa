"""A handler as a plain function, whether it is one or async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gearshift.definitions import Delivery


class Calls:
    """Calls a delivery's handler; an async one in a loop that all lanes share, while each waits for its own call."""

    def __init__(self, delivery: Delivery) -> None:
        self.handle: Callable[..., Any] = delivery.handler
        self._loop: asyncio.AbstractEventLoop | None = None
        if delivery.is_async:
            self._handler = delivery.handler
            self.handle = self._wait_for
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name=f"{delivery.name} loop", daemon=True
            )
            self._thread.start()

    def _wait_for(self, argument: Any) -> Any:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._handler(argument), self._loop).result()

    def close(self, seconds: float = 5.0) -> None:
        """End the loop; what still runs in it, and was waited for long enough, is cancelled."""
        if self._loop is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_the_rest(), self._loop)
        self._thread.join(seconds)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_the_rest() -> None:
    loop = asyncio.get_running_loop()
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await loop.shutdown_asyncgens()
    loop.stop()
