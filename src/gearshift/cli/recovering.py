"""`gearshift reset`, `resume` and `rename`: recover a stopped pipeline while no runner is running."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from gearshift.cli.output import agreed, read_settings, say

if TYPE_CHECKING:
    from gearshift.pipelines.ledger.checkpoint import Offsets
    from gearshift.pipelines.recovery import Kept
    from gearshift.settings import Settings
    from gearshift.topics import Admin

PipelineArgument = Annotated[str, typer.Argument(help="PIPELINE, or APP.PIPELINE.", show_default=False)]


def reset(
    pipeline: PipelineArgument,
    to: Annotated[str, typer.Option(help="earliest, latest, or a time with a UTC offset.")] = "earliest",
    yes: Annotated[
        bool, typer.Option("--yes", help="Apply it without asking; without it and a terminal, only show it.")
    ] = False,
) -> None:
    """Start a pipeline over: archive its checkpoint and ledger, and read its topics again."""
    from gearshift.pipelines import recovery

    settings = read_settings()
    with _without_runner(settings):
        kept = recovery.find(settings.checkpoints_uri, pipeline, new=True)
        _require_free(settings, kept)
        starts = _starts(settings, kept, to)
        say(f"{kept} will read its sources from {to} and discard its state")
        say(consequence(kept, to))
        if not agreed(yes, "start it over?"):
            return
        aside = recovery.start_over(kept, starts=starts)
        say(
            f"{kept} starts over at the next gearshift run"
            + (f"; the old checkpoint is in {aside}" if aside else "")
        )


def resume(
    pipeline: PipelineArgument,
    skip_lost: Annotated[
        bool,
        typer.Option(
            "--skip-lost", help="Continue without records that Kafka no longer has; keep the state."
        ),
    ] = False,
    accept_change: Annotated[
        bool,
        typer.Option(
            "--accept-change", help="Continue with code that has different state or another target."
        ),
    ] = False,
) -> None:
    """Resume a stopped pipeline from its checkpoint despite lost records or changed code."""
    from gearshift.pipelines import recovery

    if not (skip_lost or accept_change):
        raise typer.BadParameter("choose --skip-lost, --accept-change or both")
    settings = read_settings()
    with _without_runner(settings):
        kept = recovery.find(settings.checkpoints_uri, pipeline)
        _require_free(settings, kept)
        if accept_change:
            recovery.accept_change(kept)
            say(f"{kept} will resume with the current code")
        if skip_lost:
            with _admin(settings) as admin:
                skipped = recovery.skip_lost(kept, admin)
            say(f"{kept} will resume without: {skipped}" if str(skipped) else f"{kept} has lost no records")


def rename(
    old: PipelineArgument,
    new: Annotated[str, typer.Argument(help="The name in the code.", show_default=False)],
) -> None:
    """Move the checkpoint and the ledger of a pipeline to its new name."""
    from gearshift.pipelines import recovery

    settings = read_settings()
    with _without_runner(settings):
        kept = recovery.find(settings.checkpoints_uri, old)
        _require_free(settings, kept)
        say(f"{recovery.rename(kept, new)} will resume where {kept} stopped")


@contextmanager
def _without_runner(settings: Settings) -> Generator[None]:
    from gearshift.runner.single_runner import lock_home

    with lock_home(settings.home, progress=say):
        yield


def _require_free(settings: Settings, kept: Kept) -> None:
    """Require that no runner in another folder uses the app's checkpoints."""
    from gearshift.storage.folders import open_folder
    from gearshift.storage.lease import take

    if kept.exists:
        take(open_folder(kept.uri.rpartition("/")[0]), home=settings.home).release()


@contextmanager
def _admin(settings: Settings) -> Generator[Admin]:
    from gearshift import stack
    from gearshift.topics import Admin

    with stack.up(settings, progress=say) as running, Admin(running.connection) as admin:
        yield admin


def _starts(settings: Settings, kept: Kept, to: str) -> Offsets:
    from gearshift.errors import DefinitionError, SettingsError
    from gearshift.topics.groups.tools import parse_target

    target = parse_target(to)
    if target == "earliest":
        return {}
    if isinstance(target, int):
        raise SettingsError(f"{to!r} is an offset", hint="use earliest, latest or a time")
    if _runs_intervals(kept) or _reads_tables(kept):
        raise SettingsError(f"{kept} reads tables, which it reads in full", hint="leave out --to")
    if not kept.topics:
        raise DefinitionError(f"{kept} has not read anything yet", hint="run it once, or leave out --to")
    with _admin(settings) as admin:
        found = (
            admin.end_offsets(kept.topics)
            if isinstance(target, str)
            else admin.offsets_at(kept.topics, target)
        )
    starts: Offsets = {}
    for (topic, partition), offset in found.items():
        starts.setdefault(topic, {})[partition] = offset
    return starts


def consequence(kept: Kept, to: str) -> str:
    """What happens to the target."""
    from gearshift.pipelines.check.origin import KEYED

    target = kept.target
    if to == "latest":
        return f"{target or 'its target'} gets nothing again: what it has not read yet is skipped"
    if target is None:
        return "its target gets everything again"
    if _runs_intervals(kept):
        return f"{target} gets every interval again, each of which replaces its rows"
    again = "the same rows" if to == "earliest" else f"the rows from {to} on"
    if KEYED in target:
        return f"{target} gets {again} again, which replace the existing ones"
    if target.startswith("table") and _reads_tables(kept):
        return f"{target} is computed again and replaced"
    what = "rows" if target.startswith("table") else "records"
    return (
        f"{target} keeps its {what} and gets {again.replace('rows', what)} again, so it will hold duplicates"
    )


def _runs_intervals(kept: Kept) -> bool:
    from gearshift.pipelines.intervals.log import FOLDER
    from gearshift.storage.folders import open_folder

    return FOLDER in open_folder(kept.uri).names("")


def _reads_tables(kept: Kept) -> bool:
    """Whether it runs over tables only."""
    from gearshift.errors import LedgerError

    try:
        return not kept.topics and any(run.tables for run in kept.ledger.runs)
    except LedgerError:
        return False
