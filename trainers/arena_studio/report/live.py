"""A report that is served while its runs go on: `arena watch`.

The page is that of `arena report`. Server-sent events bring its status, and say when files of the
runs have changed, so that the page loads itself anew and keeps the reader's place. It is served to
this machine alone.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena_envs.extras import import_extra
from arena_studio.report.following import have_ended, stamps_of
from arena_studio.report.run_files import read_runs
from arena_studio.report.run_report import report_page
from arena_studio.report.run_status import memory_lines, run_status, status_lines

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

STATUS_SECONDS = 2.0  # between two looks at the files
PAGE_SECONDS = 10.0  # between two pages: drawing one takes CPU time from the run
LOOPBACK = ("localhost", "127.0.0.1")
HEADERS = {  # the page names the hashes of its script and style itself
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LiveReport:
    """The page of runs, and the events that tell what is new.

    Args:
        folders: of the runs; they may have logged nothing yet.
        num_groups: groups of episodes to show of each step.
        seconds: between two looks at the files.
        page_seconds: between two pages.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        num_groups: int,
        seconds: float = STATUS_SECONDS,
        page_seconds: float = PAGE_SECONDS,
    ) -> None:
        self.folders, self.num_groups = folders, num_groups
        self._seconds, self._page_seconds = seconds, page_seconds
        self._mark, self._page = "", ""

    def status(self) -> list[tuple[str, list[str]]]:
        """Heading and sentences on each run, then on the machine."""
        runs = [run_status(folder) for folder in self.folders]
        lines = [(status.name, status_lines(status)) for status in runs]
        return [*lines, ("this machine", memory_lines())]

    def page(self) -> str:
        """The report as the files are now."""
        mark = self.mark()
        if not self._page or mark != self._mark:
            runs = read_runs(self.folders, self.num_groups, are_new=True)
            events = "" if have_ended(self.folders) else f"events?page={mark}"
            self._page = report_page(*runs, status=self.status(), events=events)
            self._mark = mark
        return self._page

    def mark(self) -> str:
        """A short text that changes with the files of the runs."""
        stamps = repr(stamps_of(self.folders)).encode()
        return hashlib.sha256(stamps).hexdigest()[:16]

    async def events(self, mark: str) -> AsyncIterator[str]:
        """The status at each look, and `changed` when there is more to show than a page had.

        Args:
            mark: of the page.
        """
        waited = 0.0
        while True:
            status = await asyncio.to_thread(self.status)
            yield f"event: status\ndata: {json.dumps(status)}\n\n"
            await asyncio.sleep(self._seconds)
            waited += self._seconds
            if waited >= self._page_seconds and self.mark() != mark:
                yield "event: changed\ndata: {}\n\n"
                return  # the page is loaded anew, and asks again


def make_live_app(report: LiveReport) -> "Starlette":
    """The application: the page, and its events.

    Raises:
        ModuleNotFoundError: the extra `web` is not installed.
    """
    responses = import_extra("starlette.responses", "web")
    routing = import_extra("starlette.routing", "web")
    applications = import_extra("starlette.applications", "web")

    def is_ours(request: "Request") -> bool:
        # another site's page cannot read the report by a name that leads here
        site = request.headers.get("sec-fetch-site", "none")
        return request.url.hostname in LOOPBACK and site in ("none", "same-origin")

    async def page(request: "Request") -> "Response":
        if not is_ours(request):
            refused: Response = responses.PlainTextResponse("Refused.", 403, HEADERS)
            return refused
        try:
            text = await asyncio.to_thread(report.page)
        except ValueError as error:  # of a file that cannot be read
            fault: Response = responses.PlainTextResponse(str(error), 500, HEADERS)
            return fault
        answer: Response = responses.HTMLResponse(text, 200, HEADERS)
        return answer

    async def events(request: "Request") -> "Response":
        if not is_ours(request):
            refused: Response = responses.PlainTextResponse("Refused.", 403, HEADERS)
            return refused
        stream: Response = responses.StreamingResponse(
            report.events(request.query_params.get("page", "")),
            headers=HEADERS,
            media_type="text/event-stream",
        )
        return stream

    routes = [routing.Route("/", page), routing.Route("/events", events)]
    app: Starlette = applications.Starlette(routes=routes)
    return app
