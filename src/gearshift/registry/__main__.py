"""`python -m gearshift.registry FOLDER PORT`: run the registry as a process."""

from __future__ import annotations

import sys
from pathlib import Path

from gearshift.registry.server import serve

if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
