"""Measures a page in headless Chromium: seconds until it is drawn, and hover latency."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psutil

from tests.support.headless_browser import FOUND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 1280, 900
MEMORY_INTERVAL_S = 0.1
QUIET_S = 1.0
"""A page is drawn when it has not changed for this time."""
MAX_RESPONSE_MS = 600
"""Time after which a page is regarded as not responding to the pointer."""
OPTIONS = "--no-sandbox", "--disable-dev-shm-usage", "--force-device-scale-factor=1"
RECORDER = Path(__file__).with_suffix(".js")
WRAPPED = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><body>{}</body></html>'
POINTS = """([script, most]) => {
  const isSeen = ([x, y]) => x > 0 && y > 0 && x < innerWidth && y < innerHeight;
  const centre = (one) => {
    const {left, top, width, height} = one.getBoundingClientRect();
    return [left + width / 2, top + height / 2];
  };
  const all = eval?.(script);
  if (all[0] instanceof Element) all[0].scrollIntoView({block: "center"});
  const given = all.map((one) => (one instanceof Element ? centre(one) : one));
  const found = given.filter(isSeen), count = Math.min(most, found.length);
  return Array.from({length: count}, (_, at) => found[Math.floor(at * found.length / count)]);
}"""


class BrowserMemory(Thread):
    """Measures the memory of the browser that this process has started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._is_over = Event()
        self.empty = self.peak = self._read()

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, self._read())
            self._is_over.wait(MEMORY_INTERVAL_S)

    def _read(self) -> int:
        """Return the memory of all processes in bytes; memory that they share is counted once."""
        total = 0
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                total += each.memory_full_info().pss if "chrom" in each.name() else 0
        return total


def report(**found: object) -> None:
    """Print a result at once, because a time limit may end the process before the next one."""
    print(json.dumps(found), flush=True)


def measure_page(
    file: str,
    drawn: str,
    points: str,
    clicks: Sequence[str],
    events: Sequence[str],
    libraries: Mapping[str, str],
    moves: int,
    picture: str = "",
) -> dict[str, object]:
    """Open a page and move the pointer over it; print each result as soon as it is known.

    Parameters
    ----------
    file : str
        File with the HTML that a notebook would contain.
    drawn : str
        CSS selector of an element that exists when the view is drawn.
    points : str
        JavaScript expression for the elements or [x, y] to point at.
    clicks : sequence of str
        CSS selectors of elements to click before.
    events : sequence of str
        Names of the events from which the latency is measured. If they contain "click", the points
        are clicked.
    libraries : mapping
        Files that are served for addresses of the network.
    moves : int
        Number of points.
    picture : str
        File for a screenshot; none by default.
    """
    with import_module("playwright.sync_api").sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=FOUND, args=[*OPTIONS])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.set_default_timeout(0)
        messages: list[str] = []
        page.on("console", lambda told: messages.append(told.text) if told.type == "error" else 0)
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.add_init_script(path=RECORDER)
        page.goto("about:blank")
        page.wait_for_timeout(1000 * QUIET_S)
        memory = BrowserMemory()
        memory.start()
        for address, source in libraries.items():
            page.route(address, _respond(source))
        page.goto(Path(file).as_uri(), wait_until="commit")
        seconds, frame = _wait_until_drawn(page, drawn, messages)
        report(browser_s=seconds, browser_bytes=memory.peak - memory.empty)
        if picture:
            page.screenshot(path=picture)
        for selector in clicks:
            frame.locator(selector).first.click(force=True)
        page.wait_for_timeout(1000 * QUIET_S)
        report(hover_s=_move(page, frame, points, events, moves))
        report(browser_bytes=memory.peak - memory.empty)
        if picture:
            page.screenshot(path=picture.replace(".png", "-hover.png"))
        browser.close()
    return {}


def _respond(source: str) -> Any:
    headers = {"access-control-allow-origin": "*", "content-type": "text/javascript"}
    return lambda route: route.fulfill(body=source, headers=headers)


def _wait_until_drawn(page: Any, drawn: str, messages: Sequence[str]) -> tuple[float, Any]:
    """Return the seconds from the navigation to the last painted change, and the view's frame."""
    while True:
        origin = page.evaluate("performance.timeOrigin")
        now, changed, view = 0.0, 0.0, None
        for frame in page.frames:
            now, last, has_view = frame.evaluate(
                "async (selector) => [await measured.frames(), measured.changed, "
                "Boolean(document.querySelector(selector))]",
                drawn,
            )
            changed, view = max(changed, last), frame if has_view else view
        if view and now - changed > 1000 * QUIET_S:
            return (changed - origin) / 1000, view
        page.wait_for_timeout(100)


def _move(page: Any, frame: Any, points: str, events: Sequence[str], moves: int) -> list[float]:
    """Return the seconds from an event to the painted change, for all points that respond."""
    left, top = 0.0, 0.0
    if frame.parent_frame:
        area = frame.frame_element().bounding_box()
        left, top = area["x"], area["y"]
    frame.evaluate("(names) => measured.await(names)", [*events])
    found: list[float] = []
    for number, (x, y) in enumerate(frame.evaluate(POINTS, [points, moves])):
        if not number:  # the first event in a page takes longer
            page.mouse.move(left + x + 1, top + y + 1)
            page.wait_for_timeout(1000 * QUIET_S)
        frame.evaluate("measured.responses = [], measured.arm()")
        act = page.mouse.click if "click" in events else page.mouse.move
        act(left + x, top + y)
        page.wait_for_timeout(MAX_RESPONSE_MS)
        responses = frame.evaluate("measured.responses")
        found += [elapsed / 1000 for elapsed in responses]
    return found
