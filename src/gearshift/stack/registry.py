"""Apicurio, a schema registry that speaks Confluent's API, with its schemas in a file."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from pathlib import Path

from gearshift.stack.java import environment
from gearshift.stack.ports import HOST
from gearshift.stack.processes import Service
from gearshift.stack.tokens import make_token, read_token

_API = "/apis/ccompat/v7"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A registry: where it keeps its schemas, and on which port it answers."""

    folder: Path
    logs: Path
    java: Path
    program: Path
    port: int
    startup: tuple[str, ...] = ()
    """What Java is told so that it starts quickly."""

    @property
    def url(self) -> str:
        """Where Confluent's API answers."""
        return f"http://{HOST}:{self.port}{_API}"

    def services(self) -> list[Service]:
        """The registry, ready to start."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Quarkus closes the database itself, after the last request. A schema whose id was handed out is on disk:
        # records carry that id, and H2 would otherwise write half a second later.
        database = (
            f"jdbc:h2:file:{(self.folder / 'registry').absolute()};DB_CLOSE_ON_EXIT=FALSE;WRITE_DELAY=0"
        )
        public_key = make_token(self.folder)
        token = read_token(self.folder)
        service = Service(
            name="registry",
            command=(
                str(self.java),
                "-Xmx300m",
                # It answers a handful of requests: starting in little time and memory matters, peak speed does not.
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                *self.startup,
                f"-Dquarkus.http.host={HOST}",
                f"-Dquarkus.http.port={self.port}",
                f"-Dquarkus.datasource.jdbc.url={database}",
                "-Dquarkus.datasource.jdbc.initial-size=2",
                "-Dquarkus.datasource.jdbc.min-size=2",
                # Whoever asks for a schema shows a token that this key has signed; no other server is asked.
                "-Dregistry.auth.enabled=true",
                f"-Dquarkus.oidc.public-key={public_key}",
                "-Dquarkus.oidc.auth-server-url=",
                "-Dquarkus.oidc.token.issuer=any",
                # Its transactions would name themselves by a port of their own.
                "-DCoreEnvironmentBean.processImplementationClassName=com.arjuna.ats.internal.arjuna.utils.UuidProcessId",
                "-jar",
                str(jar_of(self.program)),
            ),
            environment=environment(),
            log=self.logs / "registry.log",
            port=self.port,
            ready=lambda: answers(self.port, token),
        )
        return [service]


def jar_of(program: Path) -> Path:
    """What Java runs, of the folder that the registry was unpacked into."""
    (runner,) = program.glob("*-runner.jar")
    return runner


def answers(port: int, token: str) -> bool:
    """Whether the registry at this port lists its subjects to whoever shows this token."""
    connection = http.client.HTTPConnection(HOST, port, timeout=2)
    try:
        connection.request("GET", f"{_API}/subjects", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
