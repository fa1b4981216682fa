"""`gearshift clean`: removes the local data of the app's folder."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gearshift.cli.output import agreed, read_settings, say

if TYPE_CHECKING:
    from gearshift.settings import Settings

_OURS = {
    "stack": "the topics, schemas and databases of the local stack",
    "checkpoints": "the checkpoints and ledgers of the pipelines",
    "warehouse": "the tables",
    "hive": "the embedded Hive metastore",
    "logs": "logs",
    "maintenance.json": "",
    "runner.json": "",
    "runner.lock": "",
}
"""What Gearshift writes into its home; a home of another name may hold other things too, which stay."""


def clean(
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it without asking; without it and a terminal, only show it.")
    ] = False,
) -> None:
    """Remove the local data: topics, checkpoints, tables and logs. Nothing may be running."""
    settings = read_settings()
    home = settings.home
    if not _contents(home):
        say(f"there is nothing to remove in {home}")
        return
    with ExitStack() as locks:
        for each in (home, *_demos(home)):
            _require_stopped(each, locks)
        found = _contents(home)  # with the lock files
        say(f"this removes from {home}:")
        for path in found:
            what = _OURS.get(path.name) or ("a demo's data" if _is_demo(path) else "")
            say(f"  {path.name:<16} {_readable(_size(path)):>10}" + (f"  {what}" if what else ""))
        for place in _elsewhere(settings):
            say(f"it keeps {place}")
        if not agreed(yes, "remove it?"):
            return
        for path in found:
            _remove(path)
        if home.exists() and not any(home.iterdir()):
            home.rmdir()
    say("removed")


def _contents(home: Path) -> list[Path]:
    if not home.is_dir():
        return []
    found = sorted(home.iterdir())
    if home.name == ".gearshift":
        return found
    return [path for path in found if path.name in _OURS or _is_demo(path)]


def _demos(home: Path) -> list[Path]:
    return [path for path in home.iterdir() if _is_demo(path)]


def _is_demo(path: Path) -> bool:
    return (path / "demo").is_file()


def _require_stopped(home: Path, locks: ExitStack) -> None:
    """Require that neither a stack nor a runner uses a folder, and keep runners out until the data is removed."""
    from gearshift.errors import RunnerError, StackError
    from gearshift.runner.single_runner import lock_home
    from gearshift.stack.processes import state
    from gearshift.stack.stack import LOCK
    from gearshift.storage.lease import FILE
    from gearshift.storage.shared_files import try_lock

    locks.enter_context(lock_home(home, progress=say))
    stack = home / "stack"
    if stack.is_dir():
        lock = try_lock(stack / LOCK)
        known = state.read(stack)
        if lock is None or (known is not None and known.living):
            raise StackError(
                f"the local stack is running in {home}", hint="stop it with gearshift down, then try again"
            )
        locks.enter_context(lock)
    # A runner in another folder may use these checkpoints.
    for lease in (home / "checkpoints").glob(f"*/{FILE}"):
        held = try_lock(lease, for_owner_only=False)
        if held is None:
            raise RunnerError(
                f"another runner uses the checkpoints of {lease.parent.name}", hint="stop it, then try again"
            )
        locks.enter_context(held)


def _elsewhere(settings: Settings) -> list[str]:
    """What belongs to the app, but is not local data."""
    places = {"the checkpoints": settings.checkpoints, "the tables": settings.warehouse}
    found = [f"{what} in {place}" for what, place in places.items() if place is not None]
    if settings.bootstrap_servers is not None:
        found.append(f"the topics on {settings.bootstrap_servers}")
    return [*found, f"the downloaded programs in {settings.cache}"]


def _remove(path: Path) -> None:
    from gearshift.errors import DiskError

    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise DiskError(
            f"cannot remove {error.filename}: {error.strerror}", hint="remove it as the user who owns it"
        ) from None


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(each.lstat().st_size for each in path.rglob("*") if not each.is_dir() or each.is_symlink())


def _readable(size: float) -> str:
    """A size for people.

    >>> _readable(512), _readable(2_500_000)
    ('512 bytes', '2.5 MB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} GB"
