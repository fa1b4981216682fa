"""`gearshift reset`, `resume` and `rename`: how a pipeline that was stopped goes on. No runner may run meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from gearshift.cli.output import read_settings, say

if TYPE_CHECKING:
    from gearshift.pipelines.checkpoint import Offsets
    from gearshift.pipelines.recovery import Kept
    from gearshift.settings import Settings
    from gearshift.topics import Admin

PipelineArgument = Annotated[str, typer.Argument(help="PIPELINE, or APP.PIPELINE.", show_default=False)]


def reset(
    pipeline: PipelineArgument,
    to: Annotated[str, typer.Option(help="earliest, latest, or a time with its zone.")] = "earliest",
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only say what would happen.")] = False,
) -> None:
    """Start a pipeline over: its checkpoint and ledger are put aside, and it reads its topics again."""
    from gearshift.pipelines import recovery

    settings = read_settings()
    with _alone(settings):
        kept = recovery.find(settings.checkpoints_uri, pipeline, new=True)
        _require_free(settings, kept)
        starts = _starts(settings, kept, to)
        say(f"{kept} reads its topics from {to} and forgets its state")
        say(_consequence(kept.target))
        if not yes:
            say("nothing is changed yet; --yes does it")
            return
        aside = recovery.start_over(kept, starts=starts)
        say(
            f"{kept} starts over at the next gearshift run"
            + (f"; what it had is in {aside}" if aside else "")
        )


def resume(
    pipeline: PipelineArgument,
    skip_lost: Annotated[
        bool,
        typer.Option(
            "--skip-lost", help="Go on without records that are gone from Kafka; the state is kept."
        ),
    ] = False,
    accept_change: Annotated[
        bool,
        typer.Option("--accept-change", help="Go on with code that keeps other state or has another target."),
    ] = False,
) -> None:
    """Let a stopped pipeline go on from its checkpoint, without what is lost or with code that changed."""
    from gearshift.pipelines import recovery

    if not (skip_lost or accept_change):
        raise typer.BadParameter("say what to accept: --skip-lost, --accept-change or both")
    settings = read_settings()
    with _alone(settings):
        kept = recovery.find(settings.checkpoints_uri, pipeline)
        _require_free(settings, kept)
        if accept_change:
            recovery.accept_change(kept)
            say(f"{kept} goes on with its code as it is now")
        if skip_lost:
            with _admin(settings) as admin:
                skipped = recovery.skip_lost(kept, admin)
            say(f"{kept} goes on without: {skipped}" if str(skipped) else f"{kept} has lost nothing")


def rename(
    old: PipelineArgument,
    new: Annotated[str, typer.Argument(help="The name that the code has now.", show_default=False)],
) -> None:
    """Give a renamed pipeline the checkpoint and the ledger of its old name."""
    from gearshift.pipelines import recovery

    settings = read_settings()
    with _alone(settings):
        kept = recovery.find(settings.checkpoints_uri, old)
        _require_free(settings, kept)
        say(f"{recovery.rename(kept, new)} goes on where {kept} ended")


@contextmanager
def _alone(settings: Settings) -> Generator[None]:
    from gearshift.runner.alone import take_the_folder

    with take_the_folder(settings.home, said=say):
        yield


def _require_free(settings: Settings, kept: Kept) -> None:
    """Refuse while a runner in another folder has the checkpoint."""
    from gearshift.pipelines.checkpoint import open_folder
    from gearshift.pipelines.lease import take

    if kept.exists:
        take(open_folder(kept.uri), kept.pipeline, home=settings.home).release()


@contextmanager
def _admin(settings: Settings) -> Generator[Admin]:
    from gearshift import stack
    from gearshift.topics import Admin

    with stack.up(settings, progress=say) as running, Admin(running.connection) as admin:
        yield admin


def _starts(settings: Settings, kept: Kept, to: str) -> Offsets:
    from gearshift.errors import DefinitionError, SettingsError
    from gearshift.topics.group_tools import parse_target

    target = parse_target(to)
    if target == "earliest":
        return {}
    if isinstance(target, int):
        raise SettingsError(f"{to!r} is an offset", hint="say earliest, latest or a time")
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


def _consequence(target: str | None) -> str:
    """What it means for the target that records are processed again."""
    from gearshift.pipelines.origin import KEYED

    if target is None:
        return "its target gets again what it has already"
    if KEYED in target:
        return f"{target} gets the same rows again, which replace those it has"
    what = "rows" if target.startswith("table") else "records"
    return f"{target} keeps what it has and gets the same {what} again: it will hold duplicates"
