"""The console in a real browser: what a person sees and does on each page of a running app."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from gearshift.console.client import ask
from gearshift.topics import Admin, GroupOffsets, Producer
from tests.browser.conftest import NARROW, WIDE, Looking, Running, looking
from tests.browser.shop import HOSTILE_MARK
from tests.support import eventually

SHOTS = Path(os.environ.get("GEARSHIFT_SCREENSHOTS", ""))
"""A folder for the pictures of all pages, as `make screenshots` sets it."""
GEARS = ("near-real-time", "batch", "real-time")


def go(look: Looking, path: str, heading: str | re.Pattern[str]) -> Page:
    """Open a page of the app by its path."""
    look.page.goto(look.own + path)
    look.page.get_by_role("heading", name=heading, level=1).wait_for()
    return look.page


def pages(running: Running) -> dict[str, tuple[str, str, str]]:
    """The path and heading of every page by its name, and a part of it that is there once it has its data."""
    orders, group = f"{running.name}-orders", f"{running.name}-calls"
    return {
        "overview": ("/", running.name, "main table >> text=running"),
        "pipeline": ("/pipelines/large_orders", "large_orders", "main table >> text=real-time"),
        "topics": ("/topics", "Topics", f"main table >> text={orders}"),
        "topic": (f"/topics/{orders}", orders, "main button[aria-label^='Record ']"),
        "groups": ("/groups", "Consumer groups", f"main table >> text={group}"),
        "group": (f"/groups/{group}", group, "main table >> text=127.0.0.1"),
        "dead-letters": ("/dead-letters", "Dead letters", "main >> text=open on"),
        "schemas": ("/schemas", "Schemas", f"main >> text={orders}-value"),
        "schema": (f"/schemas/{orders}-value", f"{orders}-value", "main >> text=order_id"),
        "connectors": ("/connectors", "Connectors", "main >> text=No connector"),
        "tables": ("/tables", "Tables", "main table >> text=kept"),
        "table": ("/tables/kept", "kept", "main table >> text=order_id"),
        "calendar": ("/calendar", "Calendar", "main button.cell"),
        "board": ("/boards/orders", "Orders", "main .panel-leaderboard >> text=north"),
    }


def loaded(look: Looking, path: str, heading: str, part: str) -> Page:
    """A page with its data."""
    page = go(look, path, heading)
    page.locator(part).first.wait_for()
    return page


def test_the_overview_shows_the_app_from_source_to_destination(look: Looking, running: Running) -> None:
    graph = look.page.get_by_role("region", name="From source to destination").or_(
        look.page.locator("section", has=look.page.get_by_role("heading", name="From source to destination"))
    )
    for name in ("ordering", f"{running.name}-orders", "large_orders", "kept", "daily", "call", "Webhook"):
        expect(graph.first).to_contain_text(name)
    row = look.page.get_by_role("row", name=re.compile("large_orders"))
    expect(row).to_contain_text("real-time")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text(re.compile(r"\d+(\.\d+)?/s"))


def test_a_pipeline_goes_through_all_gears_by_click_and_shows_the_proof(look: Looking) -> None:
    page = go(look, "/pipelines/large_orders", "large_orders")
    for gear in GEARS:
        page.get_by_role("button", name=re.compile(f"^{gear}")).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"to {gear}?")
        dialog.get_by_role("button", name="Shift").click()
        proof = page.get_by_role("heading", name=re.compile(f"→ {gear}: the proof"))
        proof.wait_for(timeout=180_000)
        steps = page.get_by_role("log", name="Steps of the shift")
        for step in ("check", "stop", "start", "verify", "done"):
            expect(steps).to_contain_text(step)
        expect(steps).to_contain_text(re.compile(r"Gap\s*0 records"))
        expect(page.get_by_role("button", name=re.compile(f"^{gear}"))).to_have_attribute(
            "aria-pressed", "true"
        )
    ledger = page.get_by_role("row", name=re.compile("shift from real-time"))
    expect(ledger.first).to_contain_text("near-real-time")


def test_a_gear_that_is_not_available_says_why_and_where(look: Looking) -> None:
    page = go(look, "/pipelines/keep_orders", "keep_orders")
    expect(page.get_by_role("button", name=re.compile("^real-time"))).to_be_disabled()
    reason = page.locator(".refusal").first
    expect(reason).to_contain_text("a table as the target")
    expect(reason).to_contain_text("write to a topic")
    expect(reason).to_contain_text(re.compile(r"app\.py:\d+"))


def test_a_topic_is_read_followed_paused_and_filtered(look: Looking, running: Running) -> None:
    page = go(look, f"/topics/{running.name}-orders", f"{running.name}-orders")
    rows = page.get_by_role("button", name=re.compile("^Record "))
    expect(rows.first).to_be_visible()
    page.get_by_label("Key", exact=True).fill("north")
    page.get_by_role("button", name="Read").click()
    expect(page.get_by_text("south")).to_have_count(0)
    page.get_by_label("Key", exact=True).fill("")
    page.get_by_role("button", name="Tail").click()
    first = _newest(rows)
    eventually(lambda: _newest(rows) != first, within=30)
    page.get_by_role("button", name="Pause").click()
    kept = [it.get_attribute("aria-label") for it in rows.all()[:10]]
    with Admin(running.connection) as admin:
        sent = sum(admin.end_offsets([f"{running.name}-orders"]).values())
        eventually(lambda: sum(admin.end_offsets([f"{running.name}-orders"]).values()) > sent + 100)
    assert [it.get_attribute("aria-label") for it in rows.all()[:10]] == kept, "what is shown stays"
    page.get_by_role("button", name="Continue").click()
    eventually(lambda: _newest(rows) != kept[0], within=30)
    page.get_by_role("button", name="Stop").click()
    rows.first.click()
    expect(page.get_by_role("group", name="Value").first).to_contain_text("order_id")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Export").click()
    lines = Path(str(downloading.value.path())).read_text("utf-8").splitlines()
    assert lines and {json.loads(line)["topic"] for line in lines} == {f"{running.name}-orders"}


def _newest(rows: Locator) -> str | None:
    return rows.first.get_attribute("aria-label")


def test_contents_of_records_are_text_whatever_they_hold(look: Looking, running: Running) -> None:
    page = go(look, f"/topics/{running.name}-orders", f"{running.name}-orders")
    page.get_by_label("Field", exact=True).fill("shop")
    page.get_by_label("Equals", exact=True).fill(HOSTILE_MARK)
    page.get_by_role("button", name="Read").click()
    expect(page.get_by_text(HOSTILE_MARK).first).to_be_visible()


def test_a_test_record_is_sent_from_a_form_of_the_schema(look: Looking, running: Running) -> None:
    page = go(look, f"/topics/{running.name}-orders", f"{running.name}-orders")
    page.get_by_role("button", name="Produce").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("order_id").fill("by-hand")
    dialog.get_by_label("shop").fill("console")
    dialog.get_by_label("amount").fill("99")
    dialog.get_by_label("ordered_at").fill("2026-11-19T12:00:00Z")
    dialog.get_by_role("button", name="Produce").click()
    expect(dialog).to_contain_text(re.compile(r"offset \d+", re.IGNORECASE))
    dialog.get_by_role("button", name="Close").first.click()
    eventually(lambda: any(it.json["shop"] == "console" for it in running.gateway.accepted), within=60)


def test_a_record_that_cannot_be_decoded_is_found_and_replayed(look: Looking, running: Running) -> None:
    topic = f"{running.name}-orders"
    with Producer(running.connection) as producer:
        producer.send_bytes(topic, b"poison", key=b"north")
    page = go(look, "/dead-letters", "Dead letters")
    page.get_by_role("link", name=topic, exact=True).click()
    page.get_by_role("heading", name=topic, level=1).wait_for()
    letters = page.get_by_role("checkbox", name=re.compile("^Select (?!all)"))
    expect(letters.first).to_be_visible(timeout=120_000)
    open_before = letters.count()
    assert open_before >= 1
    page.get_by_role("button", name=re.compile("^Replay .")).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("would be replayed")
    dialog.get_by_role("button", name="Replay", exact=True).click()
    expect(dialog).to_contain_text("Done.")


def test_a_group_is_reset_after_a_preview(look: Looking, running: Running) -> None:
    topic, group = f"{running.name}-orders", f"{running.name}-audit"
    with closing(GroupOffsets(running.connection, group)) as offsets:
        offsets.commit({(topic, 0): 5, (topic, 1): 7})
        page = go(look, f"/groups/{group}", group)
        page.get_by_role("button", name="Reset offsets").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Preview").click()
        expect(dialog.get_by_role("row", name=re.compile(r"^1\s+7\s+0\s"))).to_be_visible()
        assert offsets.committed([(topic, 1)]) == {(topic, 1): 7}, "a preview changes nothing"
        dialog.get_by_role("button", name="Apply").click()
        eventually(
            lambda: offsets.committed([(topic, 0), (topic, 1)]) == {(topic, 0): 0, (topic, 1): 0}, within=30
        )


def test_a_group_with_members_says_why_it_cannot_be_reset(look: Looking, running: Running) -> None:
    page = go(look, f"/groups/{running.name}-calls", f"{running.name}-calls")
    expect(page.get_by_role("button", name="Reset offsets")).to_be_disabled()
    expect(page.get_by_text("while the group has no members")).to_be_visible()


def test_a_table_is_queried_and_nothing_outside_of_the_warehouse(look: Looking) -> None:
    page = go(look, "/tables", "Tables")
    expect(page.get_by_role("link", name="kept", exact=True)).to_be_visible(timeout=120_000)
    box = page.get_by_label("Query")
    box.fill("select shop, count(*) as orders from kept group by shop order by shop")
    box.press("Control+Enter")
    expect(page.get_by_role("region", name="Result")).to_contain_text("north")
    box.fill("select * from read_text('/etc/hostname')")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("alert").first).to_contain_text("the query failed")
    look.forgive("400 (Bad Request)")  # the browser notes every refused request


def test_an_interval_is_run_again(look: Looking, running: Running) -> None:
    page = go(look, "/calendar", "Calendar")
    done = page.get_by_role("button", name=re.compile("done", re.IGNORECASE))
    expect(done.first).to_be_visible(timeout=180_000)
    done.first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Run again").click()
    expect(dialog).to_contain_text("It has started")

    def requested() -> bool:
        [found] = ask(running.settings.home, "GET", "/api/pipelines/orders_by_day")
        return any(run["why"] == "requested" and run["verified"] for run in found["ledger"]["runs"])

    # Not in the dialog: rows arrive all the time, and the calendar runs the same interval again for them.
    eventually(requested, within=180, every=1)


def test_a_schema_shows_its_versions_and_judges_a_new_one(look: Looking, running: Running) -> None:
    subject = f"{running.name}-orders-value"
    page = go(look, f"/schemas/{subject}", subject)
    expect(page.get_by_text("order_id").first).to_be_visible()
    page.get_by_role("textbox").last.fill('{"type": "record", "name": "Order", "fields": []}')
    page.get_by_role("button", name=re.compile("Check")).click()
    expect(page.get_by_text(re.compile("compatible", re.IGNORECASE)).last).to_be_visible()


def test_a_board_moves(look: Looking) -> None:
    page = go(look, "/boards/orders", "Orders")
    for title in ("Large orders", "Orders per second", "Latest amounts", "Large", "By day"):
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
    number = page.locator(".panel-number")
    shown = number.inner_text()
    eventually(lambda: number.inner_text() != shown, within=60)
    expect(page.locator(".panel-leaderboard")).to_contain_text("north")
    expect(page.locator(".panel-feed")).to_contain_text("ordered for")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_fault_for_assistive_technology(
    running: Running, chromium: Browser, scheme: str
) -> None:
    found: dict[str, list[str]] = {}
    with looking(chromium, running.url, running.info.page, scheme=scheme) as look:
        for name, place in pages(running).items():
            page = loaded(look, *place)
            serious = [
                f"{each['id']}: {each['nodes'][0]['html'][:120]}"
                for each in Axe().run(page).response["violations"]
                if each["impact"] in ("serious", "critical")
            ]
            if serious:
                found[name] = serious
        look.require_quiet()
    assert not found


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["1280", "390"])
def test_every_page_fits_its_window(
    running: Running, chromium: Browser, viewport: dict[str, int], tmp_path: Path
) -> None:
    wide: dict[str, int] = {}
    folder = SHOTS if SHOTS.name else tmp_path
    for scheme in ("light", "dark"):
        with looking(chromium, running.url, running.info.page, scheme=scheme, viewport=viewport) as look:
            for name, place in pages(running).items():
                page = loaded(look, *place)
                page.screenshot(path=folder / f"{name}-{viewport['width']}-{scheme}.png", full_page=True)
                over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                if over > 0:
                    wide[f"{name} {scheme}"] = over
            look.require_quiet()
    assert not wide


def test_the_keyboard_alone_shifts_a_pipeline(look: Looking) -> None:
    page = go(look, "/pipelines/large_orders", "large_orders")
    _tab_to(page, "near-real-time")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    _tab_to(page, "Shift")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile("→ near-real-time: the proof")).wait_for(timeout=180_000)
    _tab_to(page, "real-time")
    page.keyboard.press("Enter")
    _tab_to(page, "Cancel")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def _tab_to(page: Page, words: str) -> None:
    """Press Tab until the focus is on what begins with these words."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if str(page.evaluate("document.activeElement.textContent")).strip().startswith(words):
            return
    raise AssertionError(f"the Tab key does not reach {words!r}")


def test_a_page_says_that_the_app_is_gone_and_recovers_by_itself(look: Looking, running: Running) -> None:
    page = go(look, "/", running.name)
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    page.context.set_offline(True)
    expect(page.get_by_text(re.compile("does not answer since"))).to_be_visible(timeout=60_000)
    page.context.set_offline(False)
    expect(page.get_by_text(re.compile("does not answer since"))).to_be_hidden(timeout=60_000)
    look.forgive("ERR_INTERNET_DISCONNECTED")


def test_a_destination_that_fails_is_named_on_the_first_page_until_it_is_back(
    look: Looking, running: Running
) -> None:
    alert = look.page.get_by_role("link", name=re.compile("^call retries: "))
    running.gateway.down()
    try:
        expect(alert).to_be_visible(timeout=120_000)
        alert.click()
        look.page.get_by_role("heading", name=f"{running.name}-calls", level=1).wait_for()
    finally:
        running.gateway.up()
    page = go(look, "/", running.name)
    expect(page.get_by_role("link", name=re.compile("^call retries: "))).to_be_hidden(timeout=120_000)


def test_a_page_in_the_background_holds_no_connection_and_is_up_to_date_when_it_is_back(
    look: Looking, running: Running
) -> None:
    page, streams = look.page, list[str]()
    page.on("request", lambda it: streams.append("opened") if it.url.endswith("/api/events") else None)
    page.on("requestfailed", lambda it: streams.append("closed") if it.url.endswith("/api/events") else None)
    go(look, "/", running.name)
    eventually(lambda: _latest(page, streams) == "opened", within=30)
    _hide(page, True)
    eventually(lambda: _latest(page, streams) == "closed", within=30)
    _hide(page, False)
    eventually(lambda: _latest(page, streams) == "opened", within=30)
    rate = page.get_by_role("row", name=re.compile("large_orders")).get_by_role("cell").nth(4)
    shown = rate.inner_text()
    eventually(lambda: rate.inner_text() != shown, within=60)


def _latest(page: Page, seen: list[str]) -> str | None:
    """What was seen last, once the browser has told all."""
    page.evaluate("0")
    return seen[-1] if seen else None


def _hide(page: Page, hidden: bool) -> None:
    """Send the page to the background, or bring it back, as far as its scripts can tell."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )
