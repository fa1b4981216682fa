"""Subjects, versions and settings in SQLite; a confirmed write is on disk."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

_TABLES = """
create table if not exists schemas (
    id integer primary key autoincrement, kind text not null, text text not null, refs text not null,
    unique (kind, text, refs));
create table if not exists versions (
    subject text not null, version integer not null, schema_id integer not null references schemas (id),
    deleted integer not null default 0, primary key (subject, version));
create table if not exists settings (subject text primary key, compatibility text not null);
"""
_SELECT = "select subject, version, schema_id, kind, text, refs, deleted from versions join schemas on schema_id = id"


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference from one schema to another."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Version:
    """A registered schema as one version of a subject."""

    subject: str
    version: int
    id: int
    kind: str
    text: str
    references: tuple[Reference, ...]
    deleted: bool


class Store:
    """One SQLite file and one connection, shared by all threads under a lock."""

    def __init__(self, file: Path) -> None:
        self._lock = RLock()
        self._sql = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        # Records carry schema ids: none may be lost in a power failure and reused for another schema.
        self._sql.execute("pragma journal_mode = wal")
        self._sql.execute("pragma synchronous = full")
        self._sql.executescript(_TABLES)

    @contextmanager
    def transaction(self) -> Generator[None]:
        """An atomic and isolated transaction."""
        with self._lock:
            self._sql.execute("begin immediate")
            try:
                yield
            except BaseException:
                self._sql.execute("rollback")
                raise
            self._sql.execute("commit")

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """The names of all subjects."""
        where = "" if deleted else "where not deleted"
        return [
            name
            for (name,) in self._rows(f"select distinct subject from versions {where} order by subject", ())
        ]

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """The versions of a subject, oldest first."""
        where = "" if deleted else "and not deleted"
        return self._versions(f"{_SELECT} where subject = ? {where} order by version", (subject,))

    def with_id(self, schema_id: int) -> list[Version]:
        """The versions that share a schema, deleted ones last."""
        return self._versions(
            f"{_SELECT} where schema_id = ? order by deleted, subject, version", (schema_id,)
        )

    def add(self, subject: str, kind: str, text: str, references: tuple[Reference, ...]) -> int:
        """Add a schema as the newest version of a subject; the same schema has the same id in all subjects."""
        refs = json.dumps([[each.name, each.subject, each.version] for each in references])
        with self._lock:
            self._sql.execute(
                "insert or ignore into schemas (kind, text, refs) values (?, ?, ?)", (kind, text, refs)
            )
            ((schema_id,),) = self._rows(
                "select id from schemas where kind = ? and text = ? and refs = ?", (kind, text, refs)
            )
            ((last,),) = self._rows("select max(version) from versions where subject = ?", (subject,))
            self._sql.execute(
                "insert into versions (subject, version, schema_id) values (?, ?, ?)",
                (subject, (last or 0) + 1, schema_id),
            )
        return schema_id

    def delete(self, subject: str, version: int, *, permanent: bool) -> None:
        """Hide a version, or remove it; its schema is still found by its id."""
        what = "delete from versions" if permanent else "update versions set deleted = 1"
        with self._lock:
            self._sql.execute(f"{what} where subject = ? and version = ?", (subject, version))

    def schema(self, schema_id: int) -> Version | None:
        """The schema with this id, even if no subject uses it any more."""
        rows = self._rows("select '', 0, id, kind, text, refs, 1 from schemas where id = ?", (schema_id,))
        return _version(rows[0]) if rows else None

    def compatibility(self, subject: str) -> str | None:
        """The compatibility level of a subject, or with an empty name the global one."""
        rows = self._rows("select compatibility from settings where subject = ?", (subject,))
        return rows[0][0] if rows else None

    def set_compatibility(self, subject: str, level: str | None) -> None:
        """Set the compatibility level of a subject, or remove it with None."""
        with self._lock:
            if level is None:
                self._sql.execute("delete from settings where subject = ?", (subject,))
            else:
                self._sql.execute("insert or replace into settings values (?, ?)", (subject, level))

    def close(self) -> None:
        """Close the file."""
        self._sql.close()

    def _versions(self, query: str, values: tuple[object, ...]) -> list[Version]:
        return [_version(row) for row in self._rows(query, values)]

    def _rows(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._sql.execute(query, values).fetchall()


def _version(row: tuple[Any, ...]) -> Version:
    subject, version, schema_id, kind, text, refs, deleted = row
    references = tuple(Reference(*each) for each in json.loads(refs))
    return Version(subject, version, schema_id, kind, text, references, bool(deleted))
