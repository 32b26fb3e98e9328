"""Suites, submissions and their verification."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena_trainers.tournament.board import Suite, play_suite, verify
from arena_wrappers import make_policy

GIVEN = {
    "suite": "one",
    "version": 1,
    "games": [{"game": "kuhn_poker", "disguise": 7, "opponents": ["random"]}],
    "prompts": {
        "plain": {"reply_format": "answer"},
        "other": {"reply_format": "boxed"},
    },
    "num_seeds": 2,
    "max_tokens": 64,
}
Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tmp_path_factory.mktemp("board") / "random.jsonl"
    play_suite(Suite(GIVEN), make_policy("noisy:0.5(first)"), path)
    return path.read_text().splitlines()


def written(path: Path, lines: Lines, signs: bool = True) -> Path:
    """A file of these lines; a careful forger computes the SHA-256 again."""
    *texts, last = map(json.dumps, lines)
    before = "".join(f"{text}\n" for text in texts)
    if signs:
        digest = hashlib.sha256(before.encode()).hexdigest()
        last = json.dumps({**lines[-1], "sha256": digest})
    path.write_text(f"{before}{last}\n")
    return path


def own(line: dict[str, Any]) -> dict[str, Any]:
    seat = line["cell"][3]
    return next(t for t in line["episode"]["turns"] if t["seat"] == seat)


def first(lines: Lines) -> dict[str, Any]:
    """An episode in which the policy has a turn."""
    mine = (x for x in lines if "cell" in x)
    return next(
        x for x in mine if any(t["seat"] == x["cell"][3] for t in x["episode"]["turns"])
    )


def table(lines: Lines) -> dict[str, Any]:
    return next(line for line in lines if "table" in line)


FORGED: dict[str, tuple[Callable[[Lines], Any], str]] = {
    "return": (
        lambda x: first(x)["episode"].update(returns=[2.0, -2.0]),
        "returns was",
    ),
    "dropped": (lambda x: x.remove(first(x)), "1 episodes are missing"),
    "extra": (
        lambda x: x.insert(1, {**first(x), "cell": [*first(x)["cell"][:4], 99]}),
        "is no cell",
    ),
    "seed": (lambda x: first(x)["episode"].update(seed=5), "seed was 5"),
    "seat": (
        lambda x: first(x)["cell"].__setitem__(3, 1 - first(x)["cell"][3]),
        "2 times",
    ),
    "reply": (
        lambda x: own(first(x)).update(
            reply="<answer>pass</answer>"
            if own(first(x))["action"]
            else "<answer>bet</answer>"
        ),
        "is now",
    ),
    "legality": (lambda x: own(first(x)).update(invalid="illegal"), "invalid was"),
    "probabilities": (
        lambda x: table(x)["probs"].__setitem__(0, table(x)["probs"][0][::-1]),
        "",
    ),
    "hash": (lambda x: x[0]["board"].update(hash="0" * 64), "the hash is not"),
    "duplicate": (lambda x: x.insert(1, first(x)), "is there 2 times"),
    "results": (lambda x: x[-1]["results"].update(legal=0.5), "its results are not"),
}


def test_an_honest_submission_is_accepted(lines: list[str], tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [json.loads(line) for line in lines], False)
    assert verify(path)[1].end is not None


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_submission_is_refused(
    kind: str, lines: list[str], tmp_path: Path
) -> None:
    forge, told = FORGED[kind]
    given = [json.loads(line) for line in lines]
    forge(given)
    with pytest.raises(ValueError, match=f"is refused: .*{told}"):
        verify(written(tmp_path / "b.jsonl", given))


def test_an_unsigned_edit_of_words_is_refused(lines: list[str], tmp_path: Path) -> None:
    given = [json.loads(line) for line in lines]
    own(first(given))["reply"] += " "
    with pytest.raises(ValueError, match="SHA-256"):
        verify(written(tmp_path / "b.jsonl", given, signs=False))
