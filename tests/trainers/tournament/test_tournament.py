"""Round robins: lineups, payoffs computed by hand, faults, and resuming after a kill."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import arena_envs
from arena_envs import GameEnv
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_eval import evaluate
from arena_eval.tables import as_table
from arena_eval.tournament import (
    ScheduledEpisode,
    TournamentLog,
    TournamentPlan,
    lineups_of,
    play_tournament,
    round_robin,
)
from arena_eval.tournament.round_robin import tournament_tables
from arena_trainers.terminal import Console
from arena_wrappers import (
    NoReplyError,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    make_policy,
    play,
    replay,
)
from arena_wrappers.records import Episode


def always(text: str) -> ScriptedPolicy:
    return ScriptedPolicy(lambda request: request.wrap(text), name=text)


def episodes_in(path: Path) -> list[Episode]:
    lines = path.read_text().splitlines()[1:]
    records = [json.loads(line)["episode"] for line in lines]
    return [Episode.from_json(json.dumps(record)) for record in records]


def test_pairs_of_two_seats_meet_in_both_orders() -> None:
    assert lineups_of(3, 2, self_pairs=False) == [
        (0, 1),
        (1, 0),
        (0, 2),
        (2, 0),
        (1, 2),
        (2, 1),
    ]
    assert len(lineups_of(3, 2, self_pairs=True)) == 9


def test_with_more_seats_everybody_sits_alone_in_every_seat() -> None:
    found = lineups_of(3, 4, self_pairs=True)
    assert len(found) == len(set(found)) == 3 * 2 * 4 + 3
    for lineup in found:
        counts = sorted(Counter(lineup).values())
        assert counts in ([1, 3], [4])
    alone = [(lineup.count(0), lineup.index(0)) for lineup in found if 0 in lineup]
    assert sorted(seat for count, seat in alone if count == 1) == sorted(
        [0, 1, 2, 3] * 2
    )


def test_payoffs_of_rock_paper_scissors_cycle() -> None:
    found = play_tournament(
        [always("Rock"), always("Paper"), always("Scissors")],
        ["rock_paper_scissors"],
        4,
    )
    (game,) = found.games
    means = [[cell and cell.mean for cell in row] for row in game.payoffs]
    assert means == [[None, -1, 1], [1, None, -1], [-1, 1, None]]
    assert game.payoffs[0][1].num_episodes == 8
    assert game.payoffs[0][1].low == -1
    assert game.payoffs[0][1].high == pytest.approx(-1 + 2 * (1 - 0.025 ** (1 / 4)))
    assert game.nash.weights == pytest.approx([1 / 3] * 3)
    assert game.nash.ratings == pytest.approx([0] * 3)
    assert [rating.elo for rating in game.ratings] == pytest.approx([1500] * 3)
    assert (game.kind, game.cross_play, found.forfeits) == ("competitive", None, {})
    assert found.ratings == game.ratings


def test_three_players_are_paid_by_their_own_seat() -> None:
    bet, passing = always("bet"), always("pass")
    game = GameEnv(KuhnPoker(num_players=3))
    found = play_tournament([bet, passing], [game], 5, self_pairs=True)
    (summary,) = found.games
    assert summary.game == "KuhnPoker(num_players=3)"
    means = [[cell.mean for cell in row] for row in summary.payoffs]
    # one bettor takes two antes; one passer loses an ante to two bettors
    assert means[0] == [0, 2]
    assert means[1] == [-1, 0]
    assert summary.payoffs[0][1].num_episodes == 15
    assert summary.payoffs[0][0].num_episodes == 5
    assert summary.nash is None  # a game of three is no matrix
    # the bettor alone always wins; a passer alone loses every time
    assert summary.ratings[0].elo - 1500 == pytest.approx(1500 - summary.ratings[1].elo)
    assert summary.ratings[0].elo_low > 1500


def test_cooperative_games_show_how_much_worse_strangers_are() -> None:
    names = ["random", "first", "hanabi_convention"]
    found = play_tournament(names, ["mini_hanabi", "kuhn_poker"][:1], 30)
    (game,) = found.games
    means = [[cell.mean for cell in row] for row in game.payoffs]
    own = sum(means[i][i] for i in range(3)) / 3
    mixed = sum(means[i][j] for i in range(3) for j in range(3) if i != j) / 6
    cross = game.cross_play
    assert (cross.self_play, cross.cross_play) == pytest.approx((own, mixed))
    assert cross.gap == pytest.approx(own - mixed)
    assert cross.low < cross.gap < cross.high
    assert means[0][1] == means[1][0]  # the same episodes
    assert (game.ratings, game.nash, found.ratings) == (None, None, None)


def test_a_ranking_is_by_nash_average_where_elo_has_the_solver_behind_random() -> None:
    names = ["constant:0", "random", "cfr", "constant:1"]
    found = play_tournament(names, ["kuhn_poker"], 60)
    (game,) = found.games
    elos = {rating.policy: rating.elo for rating in game.ratings}
    assert elos["cfr"] < elos["random"]
    assert game.ranking[0] == "cfr"
    assert found.mean_ranks[2] == 1
    (table,) = [t for t in tournament_tables(found) if "Ranking" in str(t.title)]
    assert list(table.columns[0].cells) == list(game.ranking)


class Unknown:
    """A policy that reports no probabilities, as a model behind an API."""

    def __init__(self, spec: str, name: str) -> None:
        self.policy, self.name = make_policy(spec), name

    def act(self, requests):
        return self.policy.act(requests)


def test_means_have_their_luck_out_also_after_a_file_was_read(tmp_path: Path) -> None:
    names = [Unknown("noisy:0.5(cfr:50)", "model"), "cfr:50", "random"]
    out = tmp_path / "results.jsonl"
    (game,) = play_tournament(names, ["kuhn_poker"], 60, out=out).games
    adjusted = game.means[0].adjusted
    assert adjusted is not None
    assert adjusted.worth > 1.2
    exact = [
        evaluate("noisy:0.5(cfr:50)", "kuhn_poker", [name], 2, baselines=False).rows[-1]
        for name in ("cfr:50", "random")
    ]
    assert all(row.is_exact for row in exact)
    value = sum(row.mean_return for row in exact) / 2
    assert adjusted.low < value < adjusted.high
    (again,) = play_tournament(names, ["kuhn_poker"], 60, out=out).games
    assert again.means == game.means
    (raw,) = play_tournament(names, ["kuhn_poker"], 60, out=out, values=None).games
    assert raw.means[0].mean == game.means[0].mean
    assert not any(mean.adjusted for mean in raw.means)


def test_a_ranking_without_nash_average_is_by_mean_return() -> None:
    """One bettor takes two antes; one passer loses an ante to two bettors."""
    bet, passing = always("bet"), always("pass")
    game = GameEnv(KuhnPoker(num_players=3))
    found = play_tournament([passing, bet], [game], 5)
    (summary,) = found.games
    assert summary.ranking == ("bet", "pass")
    assert [mean.mean for mean in summary.means] == [-1, 2]
    assert summary.means[0].num_episodes == 15


@pytest.mark.slow
def test_ratings_count_all_competitive_games_together() -> None:
    found = play_tournament(
        ["random", "minimax"], ["tic_tac_toe", "nim"], 20, self_pairs=True
    )
    apart = [game.ratings[1].elo for game in found.games]
    assert min(apart) > 1500
    assert min(apart) < found.ratings[1].elo < max(apart)
    assert found.ratings[1].sigma < min(game.ratings[1].sigma for game in found.games)
    assert found.games[0].payoffs[1][1].mean == 0


class Crashing(RandomPolicy):
    name = "crashing"

    def act(self, requests):
        return [Reply("", error="no memory")] * len(requests)


class Unreachable(RandomPolicy):
    """An endpoint that gives no reply to every third request."""

    name, asked, fails = "unreachable", 0, True

    async def act_async(self, request, timeout=None):
        self.asked += 1
        if self.fails and self.asked % 3 == 0:
            return Reply("", error="the connection failed")
        return self.act([request])[0]


def test_episodes_without_a_reply_are_played_again(tmp_path: Path) -> None:
    endpoint, out = Unreachable(), tmp_path / "results.jsonl"
    lineup = [endpoint, "first"]
    message = r"of 20 episodes were lost \(unreachable error \d+\): policy 'unreachable' gave no reply: the conn"
    with pytest.raises(NoReplyError, match=message):
        play_tournament(lineup, ["nim"], 10, out=out)
    kept = episodes_in(out)
    assert 0 < len(kept) < 20
    assert not any(turn.invalid for episode in kept for turn in episode.turns)
    endpoint.fails = False
    found = play_tournament(lineup, ["nim"], 10, out=out)
    assert found == play_tournament(lineup, ["nim"], 10)
    assert episodes_in(out)[: len(kept)] == kept
    assert len(episodes_in(out)) == 20


class Mumbling(RandomPolicy):
    name = "mumbling"

    def act(self, requests):
        return [Reply("hm") for _ in requests]


class Stalling(RandomPolicy):
    """Stalls in two episodes."""

    name = "stalling"

    def act(self, requests):
        if any(request.episode in (4, 5) for request in requests):
            threading.Event().wait(1.5)
        return super().act(requests)


def test_lost_episodes_are_counted_by_policy_and_kind() -> None:
    policies = ["random", Crashing(), Stalling()]
    message = r"lost \(crashing error \d, stalling timeout \d\)"
    with pytest.raises(NoReplyError, match=message):
        play_tournament(policies, ["tic_tac_toe"], 2, timeout=0.3)


@pytest.mark.filterwarnings("ignore:.* are invalid:UserWarning")
def test_policies_that_mumble_forfeit_with_the_reason(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    policies = ["random", "first", Mumbling()]
    found = play_tournament(policies, ["tic_tac_toe"], 3, out=out)
    assert len(episodes_in(out)) == 6 * 3
    assert found.forfeits["mumbling"] == {"illegal": 12}
    assert "random" not in found.forfeits
    (game,) = found.games
    assert game.payoffs[2][0].mean == -1
    assert game.ratings[0].elo > game.ratings[2].elo
    forfeited = [e for e in episodes_in(out) if e.forfeited_by is not None]
    assert sum(sum(r.values()) for r in found.forfeits.values()) == len(forfeited)


@pytest.mark.filterwarnings("ignore:.* are invalid:UserWarning")
def test_names_and_reasons_are_printed_as_they_are() -> None:
    policies = [ScriptedPolicy(lambda request: "", name="lm:[bold]/[/x]"), "random"]
    console = Console(width=150, record=True, file=io.StringIO())
    for table in tournament_tables(play_tournament(policies, ["nim"], 2)):
        console.print(table)
    console.print(as_table(evaluate(policies[0], "nim", num_episodes=2)))
    shown = console.export_text()
    assert "format: " in shown
    # the payoffs twice, the ranking, forfeits, and three rows of the evaluation
    assert shown.count("lm:[bold]/[/x]") == 7


@pytest.mark.parametrize("chunk", [1, 5])
def test_numbers_do_not_depend_on_the_batch(monkeypatch, chunk: int) -> None:
    def run():
        return play_tournament(["random", "cfr:10"], ["kuhn_poker"], 10, seed=3)

    whole = run()
    monkeypatch.setattr(round_robin, "CHUNK", chunk)
    assert run() == whole


def test_every_episode_of_the_file_is_named_and_replays(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    names = ["random", "cfr:10", "first"]
    found = play_tournament(names, ["kuhn_poker"], 4, seed=9, out=out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0]["tournament"]["policies"] == names
    seen = Counter()
    for line, episode in zip(lines[1:], episodes_in(out), strict=True):
        match = line["match"]
        assert match["game"] == episode.game == "kuhn_poker-v0"
        for turn in episode.turns:
            assert turn.policy == match["seats"][turn.seat]
        replay(episode)
        seen[tuple(match["seats"]), episode.seed] += 1
    assert set(seen.values()) == {1}
    assert len(seen) == 6 * 4
    assert {seed for _, seed in seen} == {9, 10, 11, 12}
    json.dumps(found.to_dict(), allow_nan=False)


RUN = """
import sys, time
from arena_eval.tournament import play_tournament, round_robin
from arena_wrappers import RandomPolicy

class Slow(RandomPolicy):
    name = "slow"

    def act(self, requests):
        time.sleep(0.004)
        return super().act(requests)

round_robin.CHUNK = 8
play_tournament([Slow(), "first"], ["kuhn_poker", "mini_hanabi"], 60, out=sys.argv[1])
"""


@pytest.mark.slow
def test_a_tournament_goes_on_after_being_killed(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    command, num_kills, kept = [sys.executable, "-c", RUN, str(out)], 0, []
    for size in (1, 200_000):
        process = subprocess.Popen(command)
        while process.poll() is None:
            if out.exists() and out.stat().st_size >= size:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                num_kills += 1
                break
            time.sleep(0.002)
        lines = out.read_bytes().split(b"\n")[:-1]  # the last is empty or unfinished
        assert lines[: len(kept)] == kept  # nothing that was finished is lost
        kept = lines
    assert num_kills == 2
    out.write_bytes(out.read_bytes()[:-7])  # killed while it wrote, surely
    subprocess.run(command, check=True)

    slow = RandomPolicy()
    slow.name = "slow"
    games = ["kuhn_poker", "mini_hanabi"]
    whole = tmp_path / "whole.jsonl"
    expected = play_tournament([slow, "first"], games, 60, out=whole)
    again = play_tournament([slow, "first"], games, 60, out=out)
    assert again == expected
    assert sorted(out.read_bytes().splitlines()) == sorted(
        whole.read_bytes().splitlines()
    )


def test_a_finished_tournament_is_not_played_again(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    arguments = ["random", "first"], ["kuhn_poker"], 5
    found = play_tournament(*arguments, out=out)
    size, calls = out.stat().st_size, []
    again = play_tournament(*arguments, out=out, progress=lambda *n: calls.append(n))
    assert (again, calls, out.stat().st_size) == (found, [], size)


def test_progress_counts_what_was_done_before(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    arguments = ["random", "first"], ["kuhn_poker"], 5
    play_tournament(*arguments, out=out)
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:8]))
    calls = []
    play_tournament(*arguments, out=out, progress=lambda *n: calls.append(n))
    assert calls == [(8, 10), (9, 10), (10, 10)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_episodes": 6}, "its num_episodes is 5, now it is 6"),
        ({"seed": 1}, "its seed is 0, now it is 1"),
        ({"policies": ["random", "cfr"]}, "its policies is"),
        ({"games": ["nim"]}, "its games is"),
        ({"prompt": {"reply_format": "bare"}}, "its prompt is"),
        ({"self_pairs": True}, "its self_pairs is False"),
    ],
)
def test_a_file_of_another_tournament_is_refused_and_kept(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    out = tmp_path / "results.jsonl"
    same = {"policies": ["random", "first"], "games": ["kuhn_poker"], "num_episodes": 5}
    play_tournament(**same, out=out)
    before = out.read_bytes()
    with pytest.raises(ValueError, match="is of another tournament") as info:
        TournamentPlan(**{**same, **change}, out=out)
    assert message in str(info.value)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        b"my notes",
        b"my notes\n",
        b"{}\n",
        b'{"tournament": 3}\n',
        b"[1]\n",
        b"\xff\xfe\n",
    ],
)
def test_a_file_of_something_else_is_refused_and_kept(
    tmp_path: Path, content: bytes
) -> None:
    out = tmp_path / "notes.txt"
    out.write_bytes(content)
    with pytest.raises(ValueError, match=r"notes\.txt"):
        TournamentPlan(["random", "first"], ["kuhn_poker"], 5, out=out)
    assert out.read_bytes() == content


def test_a_file_with_a_broken_or_repeated_line_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    arguments = ["random", "first"], ["kuhn_poker"], 2
    play_tournament(*arguments, out=out)
    lines = out.read_bytes().splitlines(keepends=True)
    for broken, message in (
        ([*lines, lines[-1]], "line 6 repeats"),
        ([*lines[:2], lines[2][:50] + b"\n", *lines[3:]], "line 3: want a match"),
        ([*lines[:2], lines[2].replace(b'"seed"', b'"sed"')], "line 3: the episode"),
        ([*lines[:2], lines[2].replace(b'"first"', b'"last"')], "no match of this"),
    ):
        out.write_bytes(b"".join(broken))
        with pytest.raises(ValueError, match=message):
            TournamentPlan(*arguments, out=out)


@pytest.mark.parametrize("lost", [1, 30, 1000])
def test_an_unfinished_line_is_cut_off(tmp_path: Path, lost: int) -> None:
    out = tmp_path / "results.jsonl"
    arguments = ["random", "first"], ["kuhn_poker"], 2
    found = play_tournament(*arguments, out=out)
    whole = out.read_bytes()
    out.write_bytes(whole[:-lost])
    assert play_tournament(*arguments, out=out) == found
    assert out.read_bytes() == whole
    out.write_bytes(whole[:20])  # of the header
    assert play_tournament(*arguments, out=out) == found


FULL = """
import sys
from resource import RLIMIT_FSIZE, setrlimit
from arena_eval.tournament import play_tournament

setrlimit(RLIMIT_FSIZE, (30_000, 30_000))
play_tournament(["random", "first"], ["kuhn_poker"], 50, out=sys.argv[1])
"""


def test_a_full_disk_leaves_finished_episodes_readable(tmp_path: Path) -> None:
    out = tmp_path / "results.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(out)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "OSError: [Errno 27] File too large" in done.stderr
    content = out.read_bytes()
    assert content.endswith(b"\n")
    assert 25_000 < len(content) <= 30_000
    arguments = ["random", "first"], ["kuhn_poker"], 50
    assert play_tournament(*arguments, out=out) == play_tournament(*arguments)
    assert out.read_bytes().startswith(content)


class Refusing(RandomPolicy):
    name = "refusing"

    def act(self, requests):
        raise AssertionError("something was played")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["random"], ["nim"]), "want at least 2 policies, got 1"),
        ((["random", "cfr", "random"], ["nim"]), "'random' 2 times"),
        (([Refusing(), "rndom"], ["nim"]), "no policy 'rndom'"),
        (([Refusing(), "random"], []), "want at least 1 games, got 0"),
        (([Refusing(), "random"], ["nim", "nim"]), "different games, got 'nim-v0' 2"),
        (([Refusing(), "random"], ["nimm"]), "unknown game 'nimm'"),
        (([Refusing(), "random"], ["blackjack"]), "want games of at least 2 players"),
        (([Refusing(), "hanabi_convention"], ["nim"]), "want Hanabi, got Nim"),
        (([Refusing(), "random"], ["nim"], 0), "num_episodes of at least 1, got 0"),
    ],
)
def test_mistakes_are_refused_before_anything_is_played(
    tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        play_tournament(*arguments, out=tmp_path / "results.jsonl")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("module", ["openskill.models", "scipy.optimize"])
def test_a_missing_package_is_named_with_its_extra(monkeypatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[eval\]'"):
        play_tournament([Refusing(), "random"], ["nim"])


def test_the_log_knows_what_is_done(tmp_path: Path) -> None:
    seen: list[Episode] = []
    log = TournamentLog(tmp_path / "new" / "log.jsonl", {"seed": 1}, seen.append)
    assert log.done == {}
    match = ScheduledEpisode("kuhn_poker-v0", ("first", "random"), 0)
    (episode,) = play(lambda: arena_envs.make("kuhn_poker"), RandomPolicy(), [0])
    log.append(match, episode)
    assert list(TournamentLog(log.path, {"seed": 1}, seen.append).done) == [match]
    assert [e.actions for e in seen] == [episode.actions] * 2


LIGHT = """
import sys
from arena_eval import evaluate
from arena_eval.tournament import play_tournament

evaluate("random", "kuhn_poker", num_episodes=2)
play_tournament(["random", "first"], ["kuhn_poker"], 2)
print({"torch", "transformers", "trl", "matplotlib"} & set(sys.modules))
"""


@pytest.mark.slow
def test_bots_are_measured_without_torch() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
