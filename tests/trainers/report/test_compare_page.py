"""`arena compare --page`: the matrix, verdicts, replays, and names that mean `lm:` or `api:`."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from arena_studio.report.compare_page import difference_table, replays_worth_seeing
from arena_studio.report.episodes import read_lines
from arena_trainers.cli.arguments import as_policy_string

GAME = ("-g", "kuhn_poker", "-n", "6", "--seed", "3")


@pytest.fixture
def compared(tmp_path, arena_here):
    page, out = tmp_path / "page.html", tmp_path / "episodes.jsonl"
    arena_here(
        "compare", "random", "cfr", *GAME, "--page", str(page), "--out", str(out)
    )
    return tmp_path


def test_the_page_has_both_against_each_other_and_is_written_again(
    compared, arena_here
) -> None:
    page = compared / "page.html"
    text = page.read_text()
    assert "cfr compared with random" in text
    assert "against random" in text
    assert "cfr is better" in text
    assert "0.147 (exact)" in text
    arena_here("compare", "random", "cfr", *GAME, "--page", str(page))
    page.write_text("mine")
    refused = arena_here("compare", "random", "cfr", *GAME, "--page", str(page))
    assert "not written by arena compare" in refused.stderr


def test_the_replays_are_different_ones_and_say_why(compared) -> None:
    lines = list(read_lines(compared / "episodes.jsonl"))
    replays = replays_worth_seeing(lines, ("random",))
    reasons = [line.source.partition(":")[0] for line in replays]
    assert reasons[:3] == ["largest regret", "longest", "surprising"]
    assert len({line.line for line in replays}) == len(replays) <= 5
    regret = float(replays[0].source.split()[2])
    assert regret > 0
    none = replays_worth_seeing(lines, ("nobody",))
    assert all("regret" not in line.source for line in none)


@pytest.mark.parametrize(
    ("low", "high", "adjusted", "verdict"),
    [
        (0.1, 0.3, None, "B is better"),
        (-0.3, -0.1, None, "A is better"),
        (-0.1, 0.1, None, "undecided"),
        (-0.1, 0.1, (0.01, 0.05), "B is better"),
    ],
)
def test_a_verdict_is_that_of_the_narrower_interval(
    low, high, adjusted, verdict
) -> None:
    record = {"role": "difference", "game": "g", "against": "x", "num_seeds": 9}
    record |= {"value": 0.0, "low": low, "high": high, "adjusted": None}
    if adjusted:
        ends = dict(zip(("adjusted_low", "adjusted_high"), adjusted, strict=True))
        record |= {"adjusted": 0.03, **ends}
    assert difference_table("A", "B", [record]).rows[0][-1] == verdict


def test_a_folder_an_id_and_a_url_are_policies(tmp_path) -> None:
    (tmp_path / "run" / "model").mkdir(parents=True)
    assert as_policy_string(str(tmp_path / "run")) == f"lm:{tmp_path}/run/model"
    assert as_policy_string("owner/model-1.5B") == "lm:owner/model-1.5B"
    assert as_policy_string("cfr") == "cfr"
    models = [{"id": "only"}]

    class Models(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not models:
                self.wfile.write(b"no line of HTTP\r\n\r\n")
                return
            body = json.dumps({"data": models}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    assert as_policy_string(f"{url}/") == f"api:only@{url}"
    models[0]["id"] = "m@http://evil.example/v1#temperature=2"
    with pytest.raises(ValueError, match="a model with a plain name"):
        as_policy_string(url)
    models[:] = [{"id": "only"}, {"id": "second"}]
    with pytest.raises(ValueError, match="serves 2: only, second; write api:MODEL@"):
        as_policy_string(url)
    models.clear()
    with pytest.raises(ValueError, match="does not list any"):
        as_policy_string(url)
    server.shutdown()
    server.server_close()
