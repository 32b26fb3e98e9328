"""`arena report --figure`: which chart a name means, and the file."""

import json

import pytest

from arena_studio.report.curves import Chart
from arena_studio.report.run_report import chart_named

CHARTS = [
    Chart(title, [])
    for title in (
        "Exact NashConv",
        "Loss",
        "kuhn_poker-v0: return per seat",
        "kuhn_poker-v0: return by opponent",
    )
]


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("nashconv", "Exact NashConv"),
        ("LOSS", "Loss"),
        ("return per seat", CHARTS[2].title),
    ],
)
def test_a_name_means_the_chart_with_its_letters(name, title) -> None:
    assert chart_named(CHARTS, name).title == title


@pytest.mark.parametrize(
    ("name", "words"), [("return", "several are"), ("x", "none is"), ("kl", "none is")]
)
def test_a_name_of_none_or_several_is_refused(name, words) -> None:
    with pytest.raises(ValueError, match=words):
        chart_named(CHARTS, name)


def test_the_same_run_gives_the_same_file(tmp_path, arena_here) -> None:
    run = tmp_path / "run"
    run.mkdir()
    lines = [
        json.dumps({"step": step, "arena/nash_conv": 1 / step}) for step in (1, 2, 3)
    ]
    (run / "metrics.jsonl").write_text("\n".join(lines))
    written = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "nashconv.pdf"
        done = arena_here("report", str(run), "--figure", str(file))
        assert "Exact NashConv, by optimizer step, of run" in done.stdout
        written.append(file.read_bytes())
    assert written[0].startswith(b"%PDF")
    assert written[0] == written[1]
    assert not (run / "report.html").exists()
