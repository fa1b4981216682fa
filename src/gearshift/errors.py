"""Every error Gearshift raises, in one tree.

GearshiftError
├── SettingsError              a setting is unknown, missing or malformed
├── DefinitionError            an app declares something that cannot be
│   └── AppLoadError           the app's file cannot be imported
├── MachineError               this machine lacks something
│   ├── JavaError              no Java, or one that is too old
│   ├── TooLittleMemoryError   too little memory is free
│   ├── DiskError              too little disk, or a folder that cannot be written
│   └── PortInUseError         somebody else listens on a port we were told to use
├── ArtifactError              a jar could not be fetched
│   └── TamperedArtifactError  a file is not the one the lock names
├── StackError                 a local service did not start or stay up
├── BrokerUnreachableError     no Kafka broker answers          (retriable)
├── RegistryUnreachableError   no schema registry answers       (retriable)
├── TopicError                 a topic is not what the app declares
│   └── TopicMissingError      a topic does not exist
├── SchemaError                a value type or schema cannot be used
│   ├── IncompatibleSchemaError  a new version would break readers
│   ├── EncodeError            a value does not fit its schema
│   └── DecodeError            bytes do not fit their schema
├── ProduceError               some records did not reach their topic
│   └── FencedError            another producer took this one's place
├── ConnectError               a connector is refused or has failed
│   ├── ConnectUnreachableError  no Kafka Connect answers        (retriable)
│   ├── DatabaseUnreachableError  the source database does not answer
│   ├── WrongPasswordError     the source database does not let the connector in
│   ├── SlotInUseError         somebody else reads the replication slot
│   └── SourceTableMissingError  the source database has no such table
├── SourceError                a source cannot go on
│   └── WrongFileError         a file is not what its source takes
├── TransformError             a user's function raised
├── DeliveryError              a delivery cannot go on
│   ├── RetriableError         a destination may take it later      (retriable)
│   │   └── OutcomeUnknownError  a request was sent and not answered
│   ├── PermanentError         a destination will never take it
│   │   └── ProcessDiedError   nobody survives handling it
│   ├── NotAMemberError        the group went on without this consumer
│   └── OffsetGoneError        retention took the next record
├── CheckError                 a pipeline cannot run as asked
│   ├── GearRefusedError       its operators do not run in that gear
│   ├── TooFewSlotsError       Spark has too few task slots for real-time
│   ├── CheckpointFormatError  the checkpoint was not born for all gears
│   └── ContinuityError        it cannot go on from its checkpoint: a person decides
├── LedgerError                a ledger is damaged, or not of its checkpoint
├── QueryError                 a running query failed
├── ShiftError                 a shift did not happen
├── TableError                 a warehouse table cannot be read or written
└── RunnerError                no runner, or already one
"""

from __future__ import annotations

from datetime import timedelta

from gearshift.redaction import redact


class GearshiftError(Exception):
    """What happened, where, and what to do next.

    >>> error = TopicMissingError("topic does not exist", hint="gearshift run creates it", topic="readings")
    >>> str(error)
    'topic does not exist (topic readings); gearshift run creates it'
    >>> error.topic
    'readings'
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
        what = redact(what)  # many errors quote what a server or a user's function said
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
        """The place, in words: `pipeline load_alerts, topic readings, meters.py:12`."""
        named = ("app", "pipeline", "delivery", "topic", "partition", "offset")
        parts = [f"{name} {getattr(self, name)}" for name in named if getattr(self, name) is not None]
        if self.file is not None:
            parts.append(self.file if self.line is None else f"{self.file}:{self.line}")
        return ", ".join(parts)

    def __str__(self) -> str:
        where = f" ({self.where})" if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.what}{where}{hint}"


class SettingsError(GearshiftError):
    """A setting is unknown, missing or malformed."""


class DefinitionError(GearshiftError):
    """An app declares something that cannot be."""


class AppLoadError(DefinitionError):
    """The app's file cannot be imported."""


class MachineError(GearshiftError):
    """This machine lacks something."""


class JavaError(MachineError):
    """No Java, or one that is too old."""


class TooLittleMemoryError(MachineError):
    """Too little memory is free."""


class DiskError(MachineError):
    """Too little disk, or a folder that cannot be written."""


class PortInUseError(MachineError):
    """Somebody else listens on a port we were told to use."""


class ArtifactError(GearshiftError):
    """A jar could not be fetched."""


class TamperedArtifactError(ArtifactError):
    """A file is not the one the lock names."""


class StackError(GearshiftError):
    """A local service did not start or did not stay up."""


class BrokerUnreachableError(GearshiftError):
    """No Kafka broker answers."""

    retriable = True


class RegistryUnreachableError(GearshiftError):
    """No schema registry answers."""

    retriable = True


class TopicError(GearshiftError):
    """A topic is not what the app declares."""


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
    """Another producer took this one's place, or the brokers gave up on it: it may write no more."""


class ConnectError(GearshiftError):
    """A connector is refused or has failed."""


class ConnectUnreachableError(ConnectError):
    """No Kafka Connect answers."""

    retriable = True


class DatabaseUnreachableError(ConnectError):
    """The source database does not answer the connector."""


class WrongPasswordError(ConnectError):
    """The source database does not let the connector in."""


class SlotInUseError(ConnectError):
    """Somebody else reads the connector's replication slot."""


class SourceTableMissingError(ConnectError):
    """The source database has no table that the connector is to capture."""


class SourceError(GearshiftError):
    """A source cannot go on."""


class WrongFileError(SourceError):
    """A file is not what its source takes: nothing of it is sent."""


class TransformError(GearshiftError):
    """A user's function raised."""


class DeliveryError(GearshiftError):
    """A delivery cannot go on."""


class RetriableError(DeliveryError):
    """A destination did not take a record now and may take it later."""

    retriable = True
    retry_after: timedelta | None = None
    """How long the destination asked us to wait."""


class OutcomeUnknownError(RetriableError):
    """A request was sent and no answer came: it may have been acted on, and a second one would be once more.

    A delivery sends it three times at most.
    """


class PermanentError(DeliveryError):
    """A destination will never take this record."""


class ProcessDiedError(PermanentError):
    """The process died each time its handler had this record."""


class NotAMemberError(DeliveryError):
    """The group went on without this consumer: what it has done since then does not count."""


class OffsetGoneError(DeliveryError):
    """The record to read next is gone: retention took it."""


class CheckError(GearshiftError):
    """A pipeline cannot run as asked."""


class GearRefusedError(CheckError):
    """A pipeline's operators do not run in the gear asked for."""


class TooFewSlotsError(CheckError):
    """Spark has too few task slots for the real-time pipelines."""


class CheckpointFormatError(CheckError):
    """A checkpoint was not born with the format that every gear can use."""


class ContinuityError(CheckError):
    """A pipeline cannot go on from its checkpoint, and trying again would not help: a person decides."""


class LedgerError(GearshiftError):
    """A ledger is damaged, or its checkpoint is not the one it is about."""


class QueryError(GearshiftError):
    """A running query failed."""


class ShiftError(GearshiftError):
    """A shift did not happen; the old gear goes on."""


class TableError(GearshiftError):
    """A warehouse table cannot be read or written."""


class RunnerError(GearshiftError):
    """No runner answers, or one runs already."""
