"""The console's HTTP server, in a thread."""

from __future__ import annotations

import ipaddress
import ssl
import threading

from gearshift.console.access import LOOPBACK, Access
from gearshift.console.application import application
from gearshift.console.console import Console
from gearshift.errors import PortInUseError, SettingsError
from gearshift.settings import Settings
from gearshift.sources.http.server import Listener, serve_with, tls_context


class ConsoleServer:
    """Serves a console until it is closed."""

    def __init__(self, console: Console) -> None:
        settings = console.settings
        host, port = settings.console_host, settings.console_port or 0
        tls = _tls(settings)
        self.access = Access(
            read_only=console.read_only,
            hosts=LOOPBACK if _is_loopback(host) else None,
            https=tls is not None,
        )
        self._live = console.live
        self._listener = _listener(host, port)
        self.port = int(self._listener.getsockname()[1])
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{name}:{self.port}"
        self._server = serve_with(application(console, self.access), self._listener, tls)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._listener],), name="console server", daemon=True
        )

    @property
    def page(self) -> str:
        """The address to open in a browser."""
        return f"{self.url}/?token={self.access.page_token}"

    def open(self) -> None:
        """Start serving."""
        self._live.open()
        self._listener.listen()
        self._thread.start()

    def close(self) -> None:
        """End the streams to pages, answer what is in flight, then stop."""
        self._live.close()
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._listener.close()


def require_free_port(settings: Settings) -> None:
    """Require that a console can be served, before anything is started for it."""
    if settings.console_port:
        _listener(settings.console_host, settings.console_port).close()


def _listener(host: str, port: int) -> Listener:
    try:
        return Listener(host, port)
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {host}, port {port}: {error.strerror}",
            hint="set another console_port or console_host",
        ) from None


def _tls(settings: Settings) -> ssl.SSLContext | None:
    certificate, host = settings.console_certificate, settings.console_host
    if certificate is None:
        if not _is_loopback(host):
            raise SettingsError(
                f"console_host {host} is open to other machines, and there is no certificate",
                hint="set console_certificate and console_key to PEM files, or console_host to 127.0.0.1",
            )
        return None
    try:
        return tls_context(certificate, settings.console_key)
    except OSError as error:
        raise SettingsError(
            f"cannot use console_certificate {certificate} or its key: {error.strerror or error}",
            hint="name a PEM file with the certificate and one with its unencrypted key",
        ) from None


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host.

    >>> _is_loopback("127.0.0.1"), _is_loopback("localhost"), _is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
