"""Ingests files from a folder exactly once, also across crashes.

The rows of a file and the mark of its position are written in one transaction. A very large file is split into
several transactions; after a restart the source reads the marks and resumes at the position of each file.
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

from gearshift.backoff import Backoff
from gearshift.errors import DiskError, EncodeError, FencedError, GearshiftError, ProduceError, WrongFileError
from gearshift.schemas import Registry
from gearshift.sources.files.arrivals import REFUSED, TAKEN, FileState, Folder, is_being_written, printable
from gearshift.sources.files.rows import FileReader, FileRow, ends_with
from gearshift.sources.files.taken import Position, TakenFiles
from gearshift.sources.record_encoder import RecordEncoder
from gearshift.topics import MarkedTransactions, Pressure
from gearshift.topics.dead_letters.writer import CONNECT, OURS

if TYPE_CHECKING:
    from gearshift.connection import Connection
    from gearshift.definitions import FileSource

log = logging.getLogger(__name__)

_POLL_INTERVAL = 0.25
_FIRST_BACKOFF = timedelta(seconds=1)
_LONGEST_BACKOFF = timedelta(seconds=10)
_TRANSACTION_ROWS = 1_000_000
# A file that is sent within this becomes visible at once; a longer transaction would block its readers for too long.
_TRANSACTION_SECONDS = 20.0
# How long a source that was killed blocks its readers. Three times the length of a transaction, because the disk may
# stall in the middle of one.
_TRANSACTION_TIMEOUT = timedelta(seconds=60)
_CLOCK_INTERVAL = 1_000  # rows between two checks of the clock


class Files:
    """Ingests the files of one folder, oldest first, until it is closed."""

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
        self._encoded: RecordEncoder | None = None
        self._transactions: MarkedTransactions | None = None
        self._marks = TakenFiles()
        self._pressure = Pressure(connection)
        self._stays: set[tuple[str, FileState]] = set()
        """Finished files that could not be moved."""
        self._logged: set[str] = set()
        self._backoff = Backoff(first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"files {source.name}", daemon=True)

    def open(self) -> None:
        """Start polling the folder, which is created if missing."""
        folder = self.source.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.scandir(folder).close()
        except OSError as error:
            raise DiskError(
                f"cannot use the folder {folder} of files {self.source.name}: {error.strerror}",
                hint="name a folder that this user can read",
                file=self.source.defined_at.file,
                line=self.source.defined_at.line,
            ) from None
        self._thread.start()

    def close(self) -> None:
        """Stop; an open transaction is aborted and repeated at the next start."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=60)
        self._pressure.close()

    @property
    def running(self) -> bool:
        """Whether it is polling the folder."""
        return self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """Its status, as plain data."""
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
        wait = _POLL_INTERVAL
        while not self._closing.wait(wait):
            try:
                self._poll()
                self.error, wait = None, _POLL_INTERVAL
                self._backoff.reset()
            except FencedError as error:
                # Two sources that fence each other still ingest each file once, but block each other.
                self._transactions = None
                self._fail(f"{error.what}; check that the app does not run twice")
                wait = _LONGEST_BACKOFF.total_seconds()
            except (GearshiftError, OSError) as error:
                # The marks, read when transactions are opened again, show whether the last one was committed.
                self._transactions = None
                self._fail(str(error))
                wait = self._backoff.next().total_seconds()
            except Exception as error:
                self._transactions = None
                self._fail(f"{type(error).__name__}: {error}")
                log.exception("files %s raised (%s)", self.source.name, self.source.defined_at)
                return
        if self._transactions is not None:
            self._transactions.close()

    def _fail(self, error: str) -> None:
        if error != self.error and not self._closing.is_set():
            log.error("files %s: %s", self.source.name, error)
        self.error = error

    def _poll(self) -> None:
        for path in self._folder.changed_after_move():
            log.warning(
                "files %s: %s changed after it was ingested; it is ingested again as a new file, from its first row",
                self.source.name,
                printable(path.name),
            )
        found = self._folder.whole()
        for name in self._folder.ignored - self._logged:
            log.warning(
                "files %s ignores %s: only %s files are ingested",
                self.source.name,
                printable(name),
                " and ".join(self._reader.suffixes),
            )
        self._logged = set(self._folder.ignored)
        self._stays &= {(path.name, seen) for path, seen in found}
        for path, seen in found:
            if self._closing.is_set():
                return
            if (path.name, seen) not in self._stays:
                self._ingest(path, seen)

    def _ingest(self, path: Path, seen: FileState) -> None:
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
            return  # it was removed
        except PermissionError as error:
            self._refuse(
                path,
                seen,
                WrongFileError(f"it cannot be read: {error.strerror}", hint="make it readable for this user"),
            )
            return
        except WrongFileError as wrong:
            self._refuse(path, seen, wrong)
            return
        if self._folder.move(path, seen, TAKEN) is None:
            self._stays.add((path.name, seen))

    def _surveyed(self, file: BinaryIO, seen: FileState) -> str | None:
        """The digest of a valid file; None if it changed meanwhile."""
        try:
            digest = self._reader.survey(file, self.source.topic.value)
        except WrongFileError:
            if _unchanged(file, seen):
                raise
            return None
        return digest if _unchanged(file, seen) else None

    def _sent_all(self, file: BinaryIO, path: Path, seen: FileState, mark: bytes) -> bool:
        """Send the rest of a file; False if it changed meanwhile, or the source is closing."""
        transactions = self._opened()
        if self._marks.is_taken(mark):
            self.repeated += 1
            log.info("files %s: %s was already ingested", self.source.name, printable(path.name))
            return True
        position = self._marks.begun.get(mark)
        if position is None:
            self._require_untouched(path.name)
            position = Position()
        rows = islice(self._reader.rows(file, self.source.topic.value), position.rows, None)
        while not position.done:
            if not self._await_pressure():
                return False
            before = position
            try:
                transactions.begin()
                position = self._send_some(transactions, rows, printable(path.name), before)
                if self._closing.is_set() or not _unchanged(file, seen):
                    transactions.abort()
                    return False
                transactions.note(mark, position.write())
                transactions.commit()
            except FencedError:
                raise
            except ProduceError as error:
                # A record is larger than the topic's limit: the transaction is aborted.
                self._transactions = None
                raise WrongFileError(error.what, hint=error.hint) from None
            self.sent += position.sent - before.sent
            self.dead += position.dead - before.dead
        self.taken += 1
        log.info(
            "files %s ingested %s: %d records, %d dead letters",
            self.source.name,
            printable(path.name),
            position.sent,
            position.dead,
        )
        return True

    def _send_some(
        self, transactions: MarkedTransactions, rows: Any, name: str, position: Position
    ) -> Position:
        """Send rows up to the end of the file or of the transaction."""
        assert self._encoded is not None
        topic, encoded = self.source.topic, self._encoded
        count, sent, dead = 0, 0, 0
        limit = min(_TRANSACTION_ROWS, topic.max_lag or _TRANSACTION_ROWS)
        deadline = time.monotonic() + _TRANSACTION_SECONDS
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
            if count >= limit or (
                count % _CLOCK_INTERVAL == 0 and (self._closing.is_set() or time.monotonic() > deadline)
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
                    f"it was changed after its first {position.rows:,} rows were ingested",
                    hint="write the other rows to a file with another name",
                )

    def _await_pressure(self) -> bool:
        """Wait while the topic's slowest reader is too far behind; False if the source is closing."""
        while not self._closing.is_set() and self._pressure.presses(self.source.topic):
            self._closing.wait(0.1)
        return not self._closing.is_set()

    def _opened(self) -> MarkedTransactions:
        if self._encoded is None:
            with Registry(self._connection) as registry:
                self._encoded = RecordEncoder(self.source.topic, registry)
        if self._transactions is None:
            self._transactions = MarkedTransactions(
                self._connection, self.source.marks, self._marks, within=_TRANSACTION_TIMEOUT
            )
        return self._transactions

    def _refuse(self, path: Path, seen: FileState, wrong: WrongFileError) -> None:
        self.refused += 1
        wrong.topic, wrong.file = self.source.topic.name, printable(path)
        log.error("files %s refuses %s: %s", self.source.name, printable(path.name), wrong)
        moved = self._folder.move(path, seen, REFUSED)
        if moved is None:
            self._stays.add((path.name, seen))
            return
        try:
            self._folder.write_reason(moved, f"{wrong}\n")
        except OSError as error:
            log.warning("cannot write the reason for %s: %s", printable(moved), error.strerror)

    def _headers(self, name: str, line: int, why: str, kind: str) -> list[tuple[str, bytes | None]]:
        """Kafka Connect's headers of a dead letter, and ours with the file and line."""
        headers = {
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
        return [(key, text.encode("utf-8", "backslashreplace")) for key, text in headers.items()]


def reader_of(file_format: str) -> FileReader:
    """The reader of a format; Arrow is imported only for Parquet."""
    from gearshift.sources.files import text as text_files

    if file_format == "parquet":
        from gearshift.sources.files import parquet as parquet_files

        return parquet_files.PARQUET
    return text_files.CSV if file_format == "csv" else text_files.JSON_LINES


def _unchanged(file: BinaryIO, seen: FileState) -> bool:
    return FileState.of(os.fstat(file.fileno())) == seen
