"""Every error Gearshift raises, in one tree.

GearshiftError
├── SettingsError              a setting is unknown, missing or malformed
│   └── LoginError             the brokers reject the user, the password or the certificate
├── NotAuthorizedError         the brokers' rules do not permit an operation
├── DefinitionError            an app has an invalid declaration
│   └── AppLoadError           the app's file cannot be imported
├── MachineError               this machine lacks something
│   ├── JavaError              Java is missing or too old
│   ├── TooLittleMemoryError   too little memory is free
│   ├── DiskError              too little disk space, or a folder that is not writable
│   └── PortInUseError         another process listens on a configured port
├── ArtifactError              a jar could not be downloaded
│   └── TamperedArtifactError  a file does not have the SHA-256 of the lock
├── StackError                 a local service did not start or stay up
├── BrokerUnreachableError     no Kafka broker answers          (retriable)
├── RegistryUnreachableError   no schema registry answers       (retriable)
├── TopicError                 a topic does not match its declaration
│   └── TopicMissingError      a topic does not exist
├── SchemaError                a value type or schema cannot be used
│   ├── IncompatibleSchemaError  a new version would break readers
│   ├── EncodeError            a value does not fit its schema
│   └── DecodeError            bytes do not fit their schema
├── ProduceError               some records did not reach their topic
│   └── FencedError            the producer was fenced
├── ConnectError               a connector was rejected or has failed
│   ├── ConnectUnreachableError  Kafka Connect does not answer   (retriable)
│   ├── DatabaseUnreachableError  the source database does not answer
│   ├── WrongPasswordError     authentication to the source database failed
│   ├── SlotInUseError         another process reads the replication slot
│   └── SourceTableMissingError  the source database lacks a captured table
├── SourceError                a source cannot continue
│   └── WrongFileError         a file does not fit its source
├── TransformError             a user's function raised
├── DeliveryError              a delivery cannot continue
│   ├── RetriableError         the destination may accept the record later  (retriable)
│   │   └── OutcomeUnknownError  a request was sent but not answered
│   ├── PermanentError         the destination will never accept the record
│   │   └── ProcessDiedError   handling the record kills its process
│   ├── NotAMemberError        the consumer is no longer in its group
│   └── OffsetGoneError        retention deleted the next record
├── CheckError                 a pipeline cannot run as requested
│   ├── GearRefusedError       its operators do not run in that gear
│   ├── TooFewSlotsError       Spark has too few task slots for real-time
│   ├── CheckpointFormatError  the checkpoint was not created for all gears
│   └── ContinuityError        it cannot resume from its checkpoint without a decision
├── LedgerError                a ledger is damaged or does not match its checkpoint
├── QueryError                 a running query failed
├── ShiftError                 a shift failed; the old gear is running
├── ClusterError               Spark's master does not answer or gives no executor
├── ScaleError                 a scaling failed; the pipeline runs as before
├── StorageError               a remote store refuses, or lacks what a URI names
│   └── StorageUnreachableError  the store does not answer      (retriable)
├── TableError                 a warehouse table cannot be read or written
│   ├── TableMissingError      a table does not exist
│   └── InvalidRowsError       the table cannot hold some of the rows
└── RunnerError                no runner is running, or one already is
    └── LeaseLostError         another runner has taken this one's checkpoints
"""

from __future__ import annotations

from datetime import timedelta

from gearshift.redaction import redact


class GearshiftError(Exception):
    """What happened, where, and what to do next.

    In a log it is one line; the command line prints the hint on the next line.

    >>> error = TopicMissingError("the topic does not exist", hint="create it first", topic="readings")
    >>> str(error)
    'the topic does not exist (topic readings); create it first'
    >>> error.summary, error.topic
    ('the topic does not exist (topic readings)', 'readings')
    """

    retriable = False

    def __init__(
        self,
        what: str,
        *,
        hint: str | None = None,
        app: str | None = None,
        pipeline: str | None = None,
        delivery: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        what = redact(what)  # it may quote a server or a user's exception
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.app = app
        self.pipeline = pipeline
        self.delivery = delivery
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.file = file
        self.line = line

    @property
    def where(self) -> str:
        """The location in words, such as `pipeline load_alerts, topic readings, meters.py:12`."""
        named = ("app", "pipeline", "delivery", "topic", "partition", "offset")
        parts = [f"{name} {getattr(self, name)}" for name in named if getattr(self, name) is not None]
        if self.file is not None:
            parts.append(self.file if self.line is None else f"{self.file}:{self.line}")
        return ", ".join(parts)

    @property
    def summary(self) -> str:
        """What happened and where, without the hint."""
        return f"{self.what} ({self.where})" if self.where else self.what

    def __str__(self) -> str:
        return f"{self.summary}; {self.hint}" if self.hint else self.summary


class SettingsError(GearshiftError):
    """A setting is unknown, missing or malformed."""


class LoginError(SettingsError):
    """The brokers reject the user or the password, or their certificate is not trusted: a retry does not help."""


class NotAuthorizedError(GearshiftError):
    """The brokers' rules (ACLs) do not permit an operation; the hint has the line that adds the missing one."""


class DefinitionError(GearshiftError):
    """An app has an invalid declaration."""


class AppLoadError(DefinitionError):
    """The app's file cannot be imported."""


class MachineError(GearshiftError):
    """This machine lacks something."""


class JavaError(MachineError):
    """Java is missing or too old."""


class TooLittleMemoryError(MachineError):
    """Too little memory is free."""


class DiskError(MachineError):
    """There is too little disk space, or a folder is not writable."""


class PortInUseError(MachineError):
    """Another process listens on a configured port."""


class ArtifactError(GearshiftError):
    """A jar could not be downloaded."""


class TamperedArtifactError(ArtifactError):
    """A file does not have the SHA-256 of the lock."""


class StackError(GearshiftError):
    """A local service did not start or did not stay up."""


class BrokerUnreachableError(GearshiftError):
    """No Kafka broker answers."""

    retriable = True


class RegistryUnreachableError(GearshiftError):
    """No schema registry answers."""

    retriable = True


class TopicError(GearshiftError):
    """A topic does not match its declaration."""


class TopicMissingError(TopicError):
    """A topic does not exist."""


class SchemaError(GearshiftError):
    """A value type or a schema cannot be used."""


class IncompatibleSchemaError(SchemaError):
    """A new version of a schema would break its readers."""


class EncodeError(SchemaError):
    """A value does not fit its schema."""


class DecodeError(SchemaError):
    """Bytes do not fit their schema."""


class ProduceError(GearshiftError):
    """Some records did not reach their topic."""


class FencedError(ProduceError):
    """The producer was fenced: another one took over its transactional id, or its transaction timed out."""


class ConnectError(GearshiftError):
    """A connector was rejected or has failed."""


class ConnectUnreachableError(ConnectError):
    """Kafka Connect does not answer."""

    retriable = True


class DatabaseUnreachableError(ConnectError):
    """The source database does not answer the connector."""


class WrongPasswordError(ConnectError):
    """Authentication of the connector to the source database failed."""


class SlotInUseError(ConnectError):
    """Another process reads the connector's replication slot."""


class SourceTableMissingError(ConnectError):
    """The source database lacks a captured table."""


class SourceError(GearshiftError):
    """A source cannot continue."""


class WrongFileError(SourceError):
    """A file does not fit its source; none of its rows are sent."""


class TransformError(GearshiftError):
    """A user's function raised."""


class DeliveryError(GearshiftError):
    """A delivery cannot continue."""


class RetriableError(DeliveryError):
    """A destination did not accept a record now but may accept it later."""

    retriable = True
    retry_after: timedelta | None = None
    """How long the destination asked to wait."""


class OutcomeUnknownError(RetriableError):
    """A request was sent but not answered: it may have taken effect, and a retry may repeat the effect.

    A delivery sends it at most three times.
    """


class PermanentError(DeliveryError):
    """A destination will never accept this record."""


class ProcessDiedError(PermanentError):
    """The process died each time it handled this record."""


class NotAMemberError(DeliveryError):
    """The consumer is no longer in its group; its work since then does not count."""


class OffsetGoneError(DeliveryError):
    """The next record is gone: retention deleted it."""


class CheckError(GearshiftError):
    """A pipeline cannot run as requested."""


class GearRefusedError(CheckError):
    """A pipeline's operators do not run in the requested gear."""


class TooFewSlotsError(CheckError):
    """Spark has too few task slots for the real-time pipelines."""


class CheckpointFormatError(CheckError):
    """A checkpoint was not created with the format that all gears can use."""


class ContinuityError(CheckError):
    """A pipeline cannot resume from its checkpoint, and a retry would not help: an operator has to decide."""


class LedgerError(GearshiftError):
    """A ledger is damaged or does not match its checkpoint."""


class QueryError(GearshiftError):
    """A running query failed."""


class ShiftError(GearshiftError):
    """A shift failed; the old gear is running."""


class ClusterError(GearshiftError):
    """Spark's master does not answer or gives no executor."""


class ScaleError(GearshiftError):
    """A scaling failed; the pipeline runs as before."""


class StorageError(GearshiftError):
    """A remote store refuses, or lacks what a URI names."""


class StorageUnreachableError(StorageError):
    """The store does not answer."""

    retriable = True


class TableError(GearshiftError):
    """A warehouse table cannot be read or written."""


class TableMissingError(TableError):
    """A warehouse table does not exist."""


class InvalidRowsError(TableError):
    """The table cannot hold some of the rows: a value is unreadable or the key is missing."""


class RunnerError(GearshiftError):
    """No runner is running, or one already is."""


class LeaseLostError(RunnerError):
    """Another runner has taken this one's checkpoints: this one writes nothing more."""
