"""Files dropped into a folder: each goes to a topic once, whatever happens in between.

The rows of a file and the mark that it was taken are one transaction. A file of very many rows is several, each with
the mark of how far it came; whoever starts again reads the marks first and goes on from there.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gearshift.errors import DiskError, EncodeError, FencedError, GearshiftError, ProduceError, WrongFileError
from gearshift.schemas import Registry
from gearshift.sources.arrivals import REFUSED, TAKEN, Folder, Seen, is_being_written, shown
from gearshift.sources.encoded import Encoded
from gearshift.sources.file_rows import FileReader, FileRow, ends_with
from gearshift.sources.taken import Position, TakenFiles
from gearshift.topics import MarkedTransactions, Pressure
from gearshift.topics.dead_letters import CONNECT, OURS

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import FileSource

log = logging.getLogger(__name__)

_LOOKS_EVERY = 0.25
_LONGEST_WAIT = 10.0
_ROWS_AT_ONCE = 1_000_000
_SECONDS_AT_ONCE = (
    20.0  # a file is seen whole if it is sent within this; longer, and its readers wait too long
)
# Readers wait so long for a source that was killed and does not come back. Three times what a part takes, because the
# disk may stand still in the middle of one.
_WITHIN = timedelta(seconds=60)
_LOOKS_UP_EVERY = 1_000  # rows


class Files:
    """Takes the files of one folder, oldest first, until it is closed."""

    def __init__(self, source: FileSource, connection: Connection) -> None:
        self.source = source
        self.taken = 0
        self.repeated = 0
        self.refused = 0
        self.sent = 0
        self.dead = 0
        self.error: str | None = None
        self._reader = reader_of(source.format)
        self._folder = Folder(source.folder, self._reader.suffixes, source.quiet)
        self._connection = connection
        self._encoded: Encoded | None = None
        self._transactions: MarkedTransactions | None = None
        self._marks = TakenFiles()
        self._pressure = Pressure(connection)
        self._stays: set[tuple[str, Seen]] = set()
        """Files that are done with and could not be moved."""
        self._told: set[str] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"files {source.name}", daemon=True)

    def open(self) -> None:
        """Begin to look; the folder is made if there is none."""
        folder = self.source.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.scandir(folder).close()
        except OSError as error:
            raise DiskError(
                f"the folder {folder} of files {self.source.name} cannot be used: {error.strerror}",
                hint="name a folder that this user may read",
                file=self.source.defined_at.file,
                line=self.source.defined_at.line,
            ) from None
        self._thread.start()

    def close(self) -> None:
        """Take no more; what was begun and not committed is taken back, and begun again next time."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=60)
        self._pressure.close()

    @property
    def running(self) -> bool:
        """Whether it looks still."""
        return self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """How it is, as plain data."""
        return {
            "name": self.source.name,
            "kind": "files",
            "at": str(self.source.folder),
            "topic": self.source.topic.name,
            "sent": self.sent,
            "failed": self.dead,
            "files": self.taken,
            "refused": self.refused,
            "repeated": self.repeated,
            "running": self.running,
            "error": self.error,
        }

    def _run(self) -> None:
        wait = _LOOKS_EVERY
        while not self._closing.wait(wait):
            try:
                self._round()
                self.error, wait = None, _LOOKS_EVERY
            except FencedError as error:
                # Of two that take turns each still knows what the other did; but it is not what anybody wants.
                self._transactions = None
                self._tell(f"{error.what}; is the app run twice?")
                wait = _LONGEST_WAIT
            except (GearshiftError, OSError) as error:
                # Whether the last transaction counts is what the marks say once it is opened anew.
                self._transactions = None
                self._tell(str(error))
                wait = min(max(1.0, wait * 2), _LONGEST_WAIT)
            except Exception as error:
                self._transactions = None
                self._tell(f"{type(error).__name__}: {error}")
                log.exception("files %s raised (%s)", self.source.name, self.source.defined_at)
                return
        if self._transactions is not None:
            self._transactions.close()

    def _tell(self, words: str) -> None:
        if words != self.error and not self._closing.is_set():
            log.error("files %s: %s", self.source.name, words)
        self.error = words

    def _round(self) -> None:
        for path in self._folder.written_after():
            log.warning(
                "files %s: %s was written to after it was taken; it is taken again as a new file, with its first rows",
                self.source.name,
                shown(path.name),
            )
        found = self._folder.whole()
        for name in self._folder.passed_over - self._told:
            log.warning(
                "files %s passes over %s: it takes %s",
                self.source.name,
                shown(name),
                " and ".join(self._reader.suffixes),
            )
        self._told = set(self._folder.passed_over)
        self._stays &= {(path.name, seen) for path, seen in found}
        for path, seen in found:
            if self._closing.is_set():
                return
            if (path.name, seen) not in self._stays:
                self._take(path, seen)

    def _take(self, path: Path, seen: Seen) -> None:
        try:
            with self._folder.open(path) as file:
                if not _unchanged(file, seen) or (written := is_being_written(file.fileno())):
                    return
                may_be_cut = written is None or not ends_with(file, self._reader.last)
                if may_be_cut and not self._folder.is_long_quiet(path):
                    return
                digest = self._surveyed(file, seen)
                if digest is None or not self._sent_all(
                    file, path, seen, digest.encode() + b"/" + os.fsencode(path.name)
                ):
                    return
        except FileNotFoundError:
            return  # its owner took it away again
        except PermissionError as error:
            self._refuse(
                path, seen, WrongFileError(f"it cannot be read: {error.strerror}", hint="let us read it")
            )
            return
        except WrongFileError as wrong:
            self._refuse(path, seen, wrong)
            return
        if self._folder.put_away(path, seen, TAKEN) is None:
            self._stays.add((path.name, seen))

    def _surveyed(self, file: BinaryIO, seen: Seen) -> str | None:
        """The digest of a file that can be taken; None if it changed meanwhile, whatever it looked like."""
        try:
            digest = self._reader.survey(file, self.source.topic.value)
        except WrongFileError:
            if _unchanged(file, seen):
                raise
            return None
        return digest if _unchanged(file, seen) else None

    def _sent_all(self, file: BinaryIO, path: Path, seen: Seen, mark: bytes) -> bool:
        """Send what is not sent yet of a file; False if it changed under way, or we are to stop."""
        transactions = self._opened()
        if self._marks.is_taken(mark):
            self.repeated += 1
            log.info("files %s: %s was taken before", self.source.name, shown(path.name))
            return True
        position = self._marks.begun.get(mark)
        if position is None:
            self._require_untouched(path.name)
            position = Position()
        rows = islice(self._reader.rows(file, self.source.topic.value), position.rows, None)
        while not position.done:
            if not self._may_send():
                return False
            before = position
            try:
                transactions.begin()
                position = self._send_some(transactions, rows, shown(path.name), before)
                if self._closing.is_set() or not _unchanged(file, seen):
                    transactions.abort()
                    return False
                transactions.note(mark, position.write())
                transactions.commit()
            except FencedError:
                raise
            except (
                ProduceError
            ) as error:  # a record is larger than the topic takes: nothing of this part is seen
                self._transactions = None
                raise WrongFileError(error.what, hint=error.hint) from None
            self.sent += position.sent - before.sent
            self.dead += position.dead - before.dead
        self.taken += 1
        log.info(
            "files %s took %s: %d records, %d set aside",
            self.source.name,
            shown(path.name),
            position.sent,
            position.dead,
        )
        return True

    def _send_some(
        self, transactions: MarkedTransactions, rows: Any, name: str, position: Position
    ) -> Position:
        """Send rows until there are no more, or so many that another transaction should begin."""
        assert self._encoded is not None
        topic, encoded = self.source.topic, self._encoded
        count, sent, dead = 0, 0, 0
        most = min(_ROWS_AT_ONCE, topic.max_lag or _ROWS_AT_ONCE)
        until = time.monotonic() + _SECONDS_AT_ONCE
        done = True
        row: FileRow
        for row in rows:
            count += 1
            why, kind = (str(row.misfit), "DecodeError") if row.misfit is not None else (None, "EncodeError")
            if row.misfit is None:
                try:
                    key, data = encoded.record(row.value)
                    transactions.send_bytes(topic.name, data, key=key)
                    sent += 1
                except EncodeError as error:
                    why = error.what
            if why is not None:
                headers = self._headers(name, row.line, why, kind)
                transactions.send_bytes(topic.dead_letters, row.original(), headers=headers)
                dead += 1
            if count >= most or (
                count % _LOOKS_UP_EVERY == 0 and (self._closing.is_set() or time.monotonic() > until)
            ):
                done = False
                break
        return Position(
            rows=position.rows + count, sent=position.sent + sent, dead=position.dead + dead, done=done
        )

    def _require_untouched(self, name: str) -> None:
        for mark, position in self._marks.begun.items():
            if mark.endswith(b"/" + os.fsencode(name)):
                raise WrongFileError(
                    f"it was changed after its first {position.rows:,} rows were taken",
                    hint="drop the other rows as a file of another name",
                )

    def _may_send(self) -> bool:
        """Wait while a reader of the topic is too far behind; False when we are to stop."""
        while not self._closing.is_set() and self._pressure.presses(self.source.topic):
            self._closing.wait(0.1)
        return not self._closing.is_set()

    def _opened(self) -> MarkedTransactions:
        if self._encoded is None:
            with Registry(self._connection) as registry:
                self._encoded = Encoded(self.source.topic, registry)
        if self._transactions is None:
            self._transactions = MarkedTransactions(
                self._connection, self.source.marks, self._marks, within=_WITHIN
            )
        return self._transactions

    def _refuse(self, path: Path, seen: Seen, wrong: WrongFileError) -> None:
        self.refused += 1
        wrong.topic, wrong.file = self.source.topic.name, shown(path)
        log.error("files %s refuses %s: %s", self.source.name, shown(path.name), wrong)
        away = self._folder.put_away(path, seen, REFUSED)
        if away is None:
            self._stays.add((path.name, seen))
            return
        try:
            self._folder.write_reason(away, f"{wrong}\n")
        except OSError as error:
            log.warning("the reason for %s is not written: %s", shown(away), error.strerror)

    def _headers(self, name: str, line: int, why: str, kind: str) -> list[tuple[str, bytes | None]]:
        """Kafka Connect's headers of a dead letter, and the file and line in ours."""
        said = {
            f"{CONNECT}topic": self.source.topic.name,
            f"{CONNECT}connector.name": self.source.marks.removesuffix(".files"),
            f"{CONNECT}task.id": "0",
            f"{CONNECT}stage": "VALUE_CONVERTER",
            f"{CONNECT}class.name": f"gearshift.sources.Files {self.source.format}",
            f"{CONNECT}exception.class.name": f"gearshift.errors.{kind}",
            f"{CONNECT}exception.message": why[:2000],
            f"{OURS}reason": why[:2000],
            f"{OURS}file": name,
            f"{OURS}line": str(line),
        }
        return [(key, text.encode("utf-8", "backslashreplace")) for key, text in said.items()]


def reader_of(file_format: str) -> FileReader:
    """How files of a format are read; Arrow is imported for Parquet alone."""
    from gearshift.sources import text_files

    if file_format == "parquet":
        from gearshift.sources import parquet_files

        return parquet_files.PARQUET
    return text_files.CSV if file_format == "csv" else text_files.JSON_LINES


def _unchanged(file: BinaryIO, seen: Seen) -> bool:
    return Seen.of(os.fstat(file.fileno())) == seen
