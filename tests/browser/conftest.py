"""A running app, and a Chromium that looks at its console and takes no error and no request to another host."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from gearshift import stack as local
from gearshift.connection import Connection
from gearshift.console.runner_info import RunnerInfo
from gearshift.settings import Settings, load
from gearshift.testing.gateways import HttpGateway
from tests.faults.processes import RunnerProcess, write_settings
from tests.support import cluster, eventually
from tools.browser import find

SHOP = Path(__file__).with_name("shop.py")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@dataclass(frozen=True)
class Running:
    """An app that `gearshift run` runs, and what its delivery calls."""

    name: str
    settings: Settings
    connection: Connection
    gateway: HttpGateway
    info: RunnerInfo

    @property
    def url(self) -> str:
        """The console's address."""
        return f"http://127.0.0.1:{self.info.port}"


@contextmanager
def shop(folder: Path, connection: Connection, name: str, *, read_only: bool = False) -> Generator[Running]:
    """Run the shop in this folder."""
    settings = load(
        {"home": folder / "home", **cluster(connection), "checkpoint_interval": "5 seconds"},
        folder=folder,
        environ={},
    )
    write_settings(settings, folder)
    shutil.copy(SHOP, folder / "app.py")
    with HttpGateway() as gateway, pytest.MonkeyPatch.context() as environ:
        environ.setenv("SHOP_NAME", name)
        environ.setenv("SHOP_GATEWAY", gateway.url)
        words = ("--read-only",) if read_only else ()
        with RunnerProcess.of_file(settings, folder, "app.py", *words) as process:
            process.gears()
            info = RunnerInfo.read(settings.home)
            assert info is not None
            eventually(lambda: len(gateway.accepted) > 3)  # records have come through all of it
            yield Running(name, settings, connection, gateway, info)
            process.stop()


@pytest.fixture(scope="module")
def running(stack: local.Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The shop, once for all tests of the pages; it must not run on beside the tests of other files."""
    with shop(tmp_path_factory.mktemp("shop"), stack.connection, "shop") as found:
        yield found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser."""
    path = find()
    assert path is not None, "run `make test`, which installs Chromium"
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, and needs rights that containers lack.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Looking:
    """A page and all that it said and asked for."""

    page: Page
    own: str
    said: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])

    def listen(self) -> None:
        """Note errors, and requests to others."""
        self.page.on(
            "console", lambda it: self.said.append(it.text) if it.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", self._note)

    def _note(self, request: object) -> None:
        url = str(getattr(request, "url", ""))
        if urlsplit(url).netloc != urlsplit(self.own).netloc and not url.startswith(("data:", "blob:")):
            self.foreign.append(url)

    def forgive(self, words: str) -> None:
        """Take errors with these words as expected."""
        assert any(words in each for each in self.said)
        self.said = [each for each in self.said if words not in each]

    def require_quiet(self) -> None:
        """No error, no request to another host, and no script of a record has run."""
        assert not self.said
        assert not self.foreign
        assert "taken" not in self.page.title()


@contextmanager
def looking(
    chromium: Browser,
    url: str,
    page_url: str,
    *,
    scheme: str = "light",
    viewport: dict[str, int] | None = None,
) -> Generator[Looking]:
    """Open the console by its printed address."""
    context: BrowserContext = chromium.new_context(
        viewport=viewport or WIDE,  # pyright: ignore[reportArgumentType]
        color_scheme=scheme,  # pyright: ignore[reportArgumentType]
        reduced_motion="reduce",
    )
    context.set_default_timeout(60_000)
    page = context.new_page()
    found = Looking(page, url)
    found.listen()
    page.goto(page_url)
    try:
        yield found
    finally:
        context.close()


@pytest.fixture
def look(running: Running, chromium: Browser) -> Iterator[Looking]:
    """A page of the running shop, which must stay quiet."""
    with looking(chromium, running.url, running.info.page) as found:
        yield found
        found.require_quiet()
