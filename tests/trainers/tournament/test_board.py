"""Suites, submissions and their verification."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena_eval.tournament import (
    Suite,
    load_suite,
    play_suite,
    rate_submissions,
    submissions_page,
    verify_submission,
)
from arena_wrappers import NoReplyError, Reply, TurnRequest, make_policy

GIVEN = {
    "suite": "one",
    "version": 1,
    "notes": ["One game."],
    "games": [{"game": "kuhn_poker", "disguise": 7, "opponents": ["random", "self"]}],
    "prompts": {
        "plain": {"reply_format": "answer"},
        "other": {"reply_format": "boxed"},
    },
    "num_seeds": 5,
    "max_tokens": 64,
}
SUITE, FEW = Suite(GIVEN), Suite({**GIVEN, "num_seeds": 2})
Lines = list[dict[str, Any]]


class Model:
    """Bets with probability 0.2, says something before; 0.05 illegal replies, 0.05 too long ones."""

    name = "model"

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: TurnRequest) -> Reply:
        number = request.seed % 1000
        text = request.wrap(request.legal[number < 200])
        said = "I fold my chair." if number > 950 else f"Well, {text}"
        return Reply(said, token_ids=[1] * 9, truncated=900 < number <= 950)

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        return [([7 / 9, 2 / 9], 0.1) for _ in requests]


class Endpoint(Model):
    """Is down for every third episode at first."""

    is_down = True

    def _reply(self, request: TurnRequest) -> Reply:
        if self.is_down and request.seed % 3 == 0:
            return Reply("", error="503")
        return super()._reply(request)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("board")
    policies = {"model": Model(), "cfr": make_policy("cfr:10")}
    for name, policy in policies.items():
        play_suite(SUITE, policy, folder / f"{name}.jsonl")
    return {name: folder / f"{name}.jsonl" for name in policies}


def read(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, lines: Lines) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def first(lines: Lines) -> dict[str, Any]:
    """An episode in which the policy replied."""
    return next(line for line in lines if line.get("replies"))


def table(lines: Lines) -> dict[str, Any]:
    return next(line for line in lines if "table" in line)


def other_text(lines: Lines) -> None:
    one = first(lines)
    was = one["replies"][0]
    one["replies"][0] = was.replace("pass", "call").replace("check", "bet")
    assert one["replies"][0] != was


def legal_text(lines: Lines) -> None:
    """Writes that an illegal reply was legal."""
    one = next(x for x in lines if "I fold my chair." in x.get("replies", ()))
    one["returns"] = one["returns"][::-1]


def to_cell(place: int, value: Any) -> Callable[[Lines], Any]:
    return lambda lines: first(lines)["cell"].__setitem__(place, value)


FORGED: dict[str, tuple[Callable[[Lines], Any], str]] = {
    "return": (lambda x: first(x).update(returns=[2.0, -2.0]), "returns was"),
    "dropped": (lambda x: x.remove(first(x)), "want BoardCell"),
    "extra": (lambda x: x.insert(1, {**first(x), "cell": [*first(x)["cell"][:4], 99]}), "want BoardCell"),
    "seed": (to_cell(4, 4), "want BoardCell"),
    "seat": (to_cell(3, 1), "want BoardCell"),
    "duplicate": (lambda x: x.insert(1, first(x)), "want BoardCell"),
    "order": (lambda x: x.insert(1, x.pop(9)), "want BoardCell"),
    "action": (lambda x: first(x)["actions"].__setitem__(-1, 1 - first(x)["actions"][-1]), "actions was"),
    "legality": (legal_text, "returns was"),
    "further reply": (lambda x: first(x)["replies"].append("bet"), "replies was"),
    "fewer replies": (lambda x: first(x)["replies"].pop(), "gave no reply"),
    "lost reply": (lambda x: first(x)["replies"].__setitem__(0, ""), "replies was|actions was"),
    "tokens below 1": (lambda x: first(x)["tokens"].__setitem__(0, -900), "want 1 to 64 tokens"),
    "fewer tokens": (lambda x: next(y for y in x if len(y.get("tokens", ())) > 1)["tokens"].pop(), "want 1 to 64 tokens"),
    "tokens over budget": (lambda x: first(x)["tokens"].__setitem__(0, 65), "want 1 to 64 tokens"),
    "equilibrium": (lambda x: table(x).update(probs=[[0.999, 0.001]] * 12), "standard deviations"),
    "certainty": (lambda x: table(x).update(probs=[[1.0, 0.0]] * 12), "inf standard deviations"),
    "no distribution": (lambda x: table(x)["probs"].__setitem__(0, [1.5, -0.5]), "no distribution"),
    "not a number": (lambda x: table(x)["probs"].__setitem__(0, [float("nan"), 0.5]), "no distribution"),
    "fewer rows": (lambda x: table(x)["probs"].pop(), "no distribution"),
    "table of another game": (lambda x: table(x).update(table=["nim", "plain"]), "no exact cell"),
    "hash": (lambda x: x[0]["board"].update(hash="0" * 64), "want suite"),
    "name of a bot": (lambda x: x[0]["board"].update(policy="cfr:10"), "replies was"),
    "prompt": (lambda x: x[0]["board"].update(prompt={"history": "all"}), "line 1"),
    "prompt of another type": (lambda x: x[0]["board"].update(prompt={"rules": []}), "line 1"),
    "name with HTML": (lambda x: x[0]["board"].update(policy="<b>me</b>"), "want a name"),
    "name that looks like a bot's": (lambda x: x[0]["board"].update(policy="\u0441fr"), "want a name"),
    "name that ends in a space": (lambda x: x[0]["board"].update(policy="cfr "), "want a name"),
    "name in italics": (lambda x: x[0]["board"].update(policy="_me_"), "want a name"),
    "use below 0": (lambda x: x[-1].update(usage={"cost": -5}), "want a use of at least 0"),
    "use is no number": (lambda x: x[-1].update(usage={"cost": float("nan")}), "want a use of at least 0"),
    "no text": (lambda x: first(x).update(replies=[{"text": 5}]), "replies was|actions was"),
    "huge number": (lambda x: table(x)["probs"].__setitem__(0, [1e400, 0]), "no distribution"),
    "unfinished": (lambda x: x.pop(), "not finished"),
    "nested": (lambda x: x.insert(1, {"cell": 5}), "line 2 is no line"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["model", "cfr"])
def test_an_honest_submission_is_accepted(name: str, files: dict[str, Path]) -> None:
    assert list(verify_submission(files[name], SUITE).episodes) == SUITE.cells


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_submission_is_refused(
    kind: str, files: dict[str, Path], tmp_path: Path
) -> None:
    forge, told = FORGED[kind]
    lines = read(files["model"])
    forge(lines)
    with pytest.raises(ValueError, match=told):
        verify_submission(written(tmp_path / "b.jsonl", lines), SUITE)


def test_a_bot_is_played_again(files: dict[str, Path], tmp_path: Path) -> None:
    lines = read(files["cfr"])
    other_text(lines)
    with pytest.raises(ValueError, match="replies was"):
        verify_submission(written(tmp_path / "b.jsonl", lines), SUITE)


def test_tables_of_a_bot_are_computed(files: dict[str, Path], tmp_path: Path) -> None:
    lines = read(files["cfr"])
    assert verify_submission(files["cfr"], SUITE).tables
    lines.insert(-1, table(read(files["model"])))
    with pytest.raises(ValueError, match="tables of a bot are computed"):
        verify_submission(written(tmp_path / "b.jsonl", lines), SUITE)


def test_a_stopped_run_goes_on_to_the_same_file(
    files: dict[str, Path], tmp_path: Path
) -> None:
    part = tmp_path / "a.jsonl"
    lines = files["model"].read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:1] + lines[30:10:-1]) + lines[40][:30])
    play_suite(SUITE, Model(), part)
    assert part.read_bytes() == files["model"].read_bytes()


def test_a_finished_file_stays_as_it_is(files: dict[str, Path]) -> None:
    before = files["model"].read_bytes()
    play_suite(SUITE, Endpoint(), files["model"])
    assert files["model"].read_bytes() == before


@pytest.mark.parametrize(
    ("name", "file", "told"),
    [
        ("<b>", "a.jsonl", "want a name of"),
        ("cfr:10", "a.jsonl", "cfr:10 is the name of a bot"),
        ("me", "a.jsonl.gz", r"want a name without \.gz"),
    ],
)
def test_names_are_checked_before_anything_is_written(
    name: str, file: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=told):
        play_suite(SUITE, Model(), tmp_path / file, name=name)
    assert not [*tmp_path.iterdir()]


def test_a_submission_with_the_name_of_an_opponent_is_refused(tmp_path: Path) -> None:
    rival, path = "noisy:0.5(first)", tmp_path / "a.jsonl"
    games = [{"game": "kuhn_poker", "opponents": [rival]}]
    suite = Suite({**GIVEN, "games": games, "num_seeds": 1})
    play_suite(suite, Model(), path)
    lines = read(path)
    lines[0]["board"]["policy"] = rival
    with pytest.raises(ValueError, match="is the name of an opponent"):
        verify_submission(written(path, lines), suite)


def test_a_file_that_unpacks_to_very_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"a" * 2**20))
    with pytest.raises(ValueError, match="unpacks to 200 times its size"):
        verify_submission(path, SUITE)


def test_a_page_has_each_policy_once(files: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match=r"got several of \['model'\]"):
        submissions_page([files["model"]] * 2, SUITE)


class Greedy(Model):
    """Samples at temperature 0, where action probabilities raise."""

    sampling = SimpleNamespace(temperature=0)

    def action_probs(
        self, requests: Sequence[TurnRequest]
    ) -> list[tuple[list[float], float]]:
        raise ValueError("temperature 0")


def test_a_greedy_model_has_no_exact_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    play_suite(FEW, Greedy(), path)
    assert verify_submission(path, FEW).tables == {}


@dataclass
class Usage:
    completion_tokens: int = 0


class Metered(Endpoint):
    """Counts its tokens, as an endpoint does."""

    def __init__(self) -> None:
        self.usage = Usage()

    def _reply(self, request: TurnRequest) -> Reply:
        self.usage = Usage(self.usage.completion_tokens + 1)
        return super()._reply(request)


class Stopped(Metered):
    """Is stopped by Ctrl-C at first."""

    def _reply(self, request: TurnRequest) -> Reply:
        if self.is_down and self.usage.completion_tokens == 9:
            raise KeyboardInterrupt
        return super()._reply(request)


@pytest.mark.parametrize(
    ("make", "end"), [(Metered, NoReplyError), (Stopped, KeyboardInterrupt)]
)
def test_the_use_of_an_endpoint_is_counted_once_in_all_sessions(
    make: Callable[[], Metered], end: type[BaseException], tmp_path: Path
) -> None:
    policy, path = make(), tmp_path / "a.jsonl"
    with pytest.raises(end):
        play_suite(FEW, policy, path)
    policy.is_down = False
    play_suite(FEW, policy, path)
    told = verify_submission(path, FEW).usage
    assert told["completion_tokens"] == policy.usage.completion_tokens > 0


@pytest.mark.parametrize("text", ["notes", '{"board": {}}\n'])
def test_a_file_of_something_else_is_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(
        ValueError, match=r"is no line of a submission|want an episode at the end"
    ):
        play_suite(SUITE, Model(), path)
    assert path.read_text() == text


def test_lost_episodes_are_played_again_and_never_written(
    files: dict[str, Path], tmp_path: Path
) -> None:
    policy, path = Endpoint(), tmp_path / "a.jsonl"
    with pytest.raises(NoReplyError, match="episodes were lost"):
        play_suite(SUITE, policy, path)
    policy.is_down = False
    play_suite(SUITE, policy, path)
    assert path.read_bytes() == files["model"].read_bytes()


def test_a_longer_reply_than_the_suite_allows_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="want 1 to 8 tokens in each of 1 replies"):
        play_suite(Suite({**GIVEN, "max_tokens": 8}), Model(), tmp_path / "a.jsonl")


def test_the_page_has_the_numbers_of_the_episodes(files: dict[str, Path]) -> None:
    text = submissions_page([*files.values()], SUITE)
    found = verify_submission(files["model"], SUITE)
    mean = sum(
        episode.returns[cell.seat]
        for cell, episode in found.episodes.items()
        if (cell.condition, cell.opponent) == ("plain", "random")
    )
    (row,) = (line for line in text.splitlines() if line.startswith("| model | 0") or line.startswith("| model | -"))  # fmt: skip
    assert row.split(" | ")[1].startswith(f"{mean / 10:z.2f} [")
    assert "| cfr:10 ✓ |" in text
    assert "who wrote the replies" in text


def test_exact_numbers_need_legal_replies(tmp_path: Path) -> None:
    class Silent(Model):
        def _reply(self, request: TurnRequest) -> Reply:
            return Reply("I wonder.")

    path = tmp_path / "silent.jsonl"
    play_suite(FEW, Silent(), path)
    assert "NashConv, " not in submissions_page([path], FEW)


def test_games_have_equal_weight_in_the_ratings(files: dict[str, Path]) -> None:
    elos = rate_submissions(SUITE, {"cfr:10": verify_submission(files["cfr"], SUITE)})
    assert list(elos) == ["cfr:10", "random"]
    mean, low, high = elos["cfr:10"]
    assert low <= mean <= high


@pytest.mark.parametrize("name", ["gtbench", "mars", "small", "standard"])
def test_suites_that_ship_can_be_loaded(name: str) -> None:
    if name == "gtbench":
        pytest.importorskip("pyspiel")
    given = load_suite(name).given
    assert (given["suite"], given["version"]) == (name, 1)
    assert "\n" not in "".join(given["notes"])


@pytest.mark.parametrize(
    "text",
    [
        *("a", "[1]", "suite: ["),
        json.dumps({**GIVEN, "games": [{"game": "nim"}]}),
        json.dumps({**GIVEN, "games": [{**GIVEN["games"][0], "disguse": 1}]}),
        json.dumps({**GIVEN, "num_seed": 3}),
    ],
)
def test_a_broken_suite_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.yaml is no suite"):
        load_suite(str(path))


def test_seeds_follow_from_the_hash_and_are_those_of_all_conditions_and_seats() -> None:
    def seeds(suite: Suite) -> set[int]:
        plans = [suite.plan(cell, Model()) for cell in suite.cells]
        return {plan.seed for plan in plans}

    assert len(seeds(SUITE)) == 5
    assert not seeds(SUITE) & seeds(Suite({**GIVEN, "version": 2}))
