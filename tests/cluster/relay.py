"""Passes connections on to another port, in a process of its own: `python -m tests.cluster.relay PORT TO`.

Of its own, since clients of a store hold Python's lock while they wait for an answer.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress


async def serve(port: int, to: int) -> None:
    """Relay until the process ends."""

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            beyond_reader, beyond_writer = await asyncio.open_connection("127.0.0.1", to)
            await asyncio.gather(copy(reader, beyond_writer), copy(beyond_reader, writer))

    server = await asyncio.start_server(meet, "127.0.0.1", port)
    await server.serve_forever()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what arrives until either side ends."""
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
