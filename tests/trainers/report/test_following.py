"""`arena report --follow`: the page of a run that goes on."""

import json

import pytest

from arena_studio.report.following import follow

LIVE = 'data-seconds="7"'


def add(folder, step):
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "kl": 0.5}) + "\n")


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "first"
    folder.mkdir()
    add(folder, 10)
    return folder


def test_the_page_is_written_when_files_change_and_once_more_at_the_end(run):
    page, written = run / "report.html", []

    def wait(seconds):
        assert seconds == 7
        written.append(page.stat().st_mtime_ns)
        assert LIVE in page.read_text()
        if len(written) == 2:
            assert written[0] == written[1]  # nothing had changed
            assert "step 20, KL" not in page.read_text()
            add(run, 20)
        elif len(written) == 3:
            assert written[2] > written[1]
            assert "step 20, KL" in page.read_text()
            (run / "results.json").write_text('{"command": "arena train"}')

    (found,), has_ended = follow(page, [run], 1, seconds=7, wait=wait)
    assert len(written) == 3
    assert has_ended
    assert found.results == {"command": "arena train"}
    assert "data-seconds" not in page.read_text()


def test_after_an_interrupt_the_page_is_no_longer_live(run):
    page = run / "report.html"

    def wait(_):
        assert LIVE in page.read_text()
        raise KeyboardInterrupt

    _, has_ended = follow(page, [run], 1, seconds=7, wait=wait)
    assert not has_ended
    assert "data-seconds" not in page.read_text()
