"""Commands that read a folder or a file name the command for one of another kind."""

import json

import pytest

from arena_studio.outputs import episode_file, output_at

EPISODE = json.dumps({"game": "kuhn_poker-v0", "turns": []})
SUBMISSION = '{"board": {"suite": "small"}}'


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with what each command writes, by its marks."""
    files = {
        "train/metrics.jsonl": '{"step": 0}',
        "train/episodes.jsonl": EPISODE,
        "train/config.yaml": "seed: 0",
        "train/model/config.json": "{}",
        "train/rollouts/step-9.jsonl": EPISODE,
        "loop/start-scores.json": "{}",
        "loop/round-00/train/metrics.jsonl": "",
        "loop/round-00/play.jsonl": EPISODE,
        "sweep/sweep.json": "[]",
        "sweep/beta=1/seed-0/metrics.jsonl": "",
        "improve/texts.jsonl": "",
        "improve/round-01/play.jsonl": EPISODE,
        "tournament/results.jsonl": '{"tournament": {}}',
        "rows/train-00000-of-00001.parquet": "PAR1",
        "eval.jsonl": EPISODE,
        "eval.results.jsonl": "{}",
        "board.jsonl": SUBMISSION,
        "page.html": "<!doctype html>",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("watch improve", "arena report improve"),
        ("watch tournament", "arena report tournament"),
        ("watch loop", "arena watch loop/round-00/train"),
        ("watch sweep", "arena watch sweep/beta=1/seed-0"),
        ("watch eval.jsonl", "arena report eval.jsonl"),
        ("report sweep", "arena report sweep/beta=1/seed-0"),
        ("report eval.results.jsonl", "arena report eval.jsonl"),
        ("report board.jsonl", "arena bench board verify board.jsonl"),
        ("report rows", "arena train --trainer NAME --data rows"),
        ("replay train", "give train/episodes.jsonl"),
        ("replay loop", "give loop/round-00/play.jsonl"),
        ("replay tournament", "give tournament/results.jsonl"),
        ("replay board.jsonl", "arena bench board verify board.jsonl"),
        ("replay page.html", "open it in a browser"),
        ("data select improve --by wins --dry-run", "give improve/round-01/play.jsonl"),
        ("data export eval.jsonl --merged", "arena report eval.jsonl"),
        ("eval lm:tournament kuhn_poker", "arena report tournament"),
        ("eval lm:eval.jsonl kuhn_poker", "got the file 'eval.jsonl'"),
        ("serve policy improve", "text:improve/text.txt(POLICY)"),
        ("bench board verify eval.jsonl", "arena report eval.jsonl"),
        ("train --resume train/model", "arena train --resume train"),
        ("train --resume improve", "goes on if you give it again"),
    ],
)
def test_an_output_of_another_command_is_answered_with_its_reader(
    here, arena_here, line, advice
) -> None:
    done = arena_here(*line.split())
    assert done.returncode
    assert advice in " ".join(done.stderr.split())


def test_nothing_is_said_of_what_no_command_wrote(here) -> None:
    (here / "empty").mkdir()
    (here / "deep.jsonl").write_bytes(b"[" * 100_000)
    assert [output_at(here / n) for n in ("empty", "deep.jsonl", "no")] == [None] * 3
    assert episode_file(here / "empty") is None
