"""Paired differences of two policies: `evaluate(..., base=...)`."""

import pytest

import arena_envs
from arena_envs.game import bounds_of
from arena_envs.solvers import expected_returns
from arena_eval import EvaluationPlan, evaluate, tabular
from arena_eval.exploit import SHORT
from arena_eval.intervals import paired_interval
from arena_wrappers import Reply, ScriptedPolicy, make_policy, play
from arena_wrappers.records import EpisodeLog


def difference(base, policy, game="kuhn_poker", num=60, **options):
    plan = EvaluationPlan(
        policy, game, num_episodes=num, baselines=False, base=base, **options
    )
    (found,) = plan.run().differences
    return found


def test_a_policy_less_itself_is_exactly_zero():
    found = difference("noisy:0.5(cfr:10)", "noisy:0.5(cfr:10)", num=12)
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert found.value == found.base_value != 0


def test_equal_play_of_two_policies_leaves_room_for_a_difference_that_was_not_seen():
    quiet = ScriptedPolicy(lambda request: request.wrap(request.legal[0]), "quiet")
    found = difference("first", quiet, num=12)
    assert found.difference == 0
    assert found.low < 0 < found.high


def test_swapped_policies_negate_the_difference_and_its_interval():
    one = difference("first", "cfr:10")
    other = difference("cfr:10", "first")
    assert one.difference == -other.difference > 0
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-12)


@pytest.mark.parametrize(
    "game",
    [
        "kuhn_poker",
        "mini_hanabi",
        pytest.param("tic_tac_toe", marks=pytest.mark.slow),
        pytest.param("kuhn_poker(num_players=3)", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore:.* are invalid:UserWarning")
def test_forfeits_on_purpose_gain_nothing(game):
    silly = ScriptedPolicy(lambda request: "I resign", "silly")
    cooperative = arena_envs.make(game).game.kind == "cooperative"
    others = ["self" if cooperative else "random"]
    found = difference("random", silly, game, 30, opponents=others)
    assert found.difference < 0


class Unwilling:
    """Random play that gives no reply in some seeds."""

    name = "unwilling"

    def __init__(self, seeds):
        self.seeds = seeds

    def act(self, requests):
        replies = make_policy("random").act(requests)
        return [
            Reply("", error="no") if request.episode in self.seeds else reply
            for request, reply in zip(requests, replies, strict=True)
        ]


def test_a_seed_that_one_policy_lost_counts_for_neither():
    plan = EvaluationPlan(
        Unwilling({2, 5}), "tic_tac_toe", num_episodes=8, baselines=False, base="first"
    )
    (found,) = plan.run().differences
    kept = difference("first", "random", "tic_tac_toe", 8)
    assert (found.num_seeds, kept.num_seeds) == (6, 8)
    assert plan.unanswered()


def test_the_difference_follows_from_the_file_of_episodes(tmp_path):
    out = tmp_path / "all.jsonl"
    found = difference("first", "win_or_block", "tic_tac_toe", num=20, out=out)
    paid = {"first": [], "win_or_block": []}
    for episode in EpisodeLog(out):
        for name, returns in paid.items():
            names = {turn.seat: turn.policy for turn in episode.turns}
            returns += [episode.returns[s] for s, who in names.items() if who == name]
    means = {name: sum(returns) / 40 for name, returns in paid.items()}
    assert found.difference == pytest.approx(means["win_or_block"] - means["first"])


def test_only_lost_episodes_of_several_games_are_played_again(tmp_path):
    out, games = tmp_path / "all.jsonl", ["nim", "tic_tac_toe"]

    def plans(policy):
        return [
            EvaluationPlan(policy, game, num_episodes=4, baselines=False, out=out)
            for game in games
        ]

    for plan in plans(Unwilling({1})):
        plan.run()
    before = len(list(EpisodeLog(out)))
    for plan in plans(Unwilling(())):
        plan.run()
    assert len(list(EpisodeLog(out))) - before == 2  # one of eight in each game


def test_evaluation_without_a_base_has_no_differences():
    assert evaluate("first", "nim", ["random"], 4, baselines=False).differences == ()


PAIRS = {
    "kuhn_poker": ("noisy:0.8(first)", "noisy:0.2(first)"),
    "leduc_poker": ("random", "noisy:0.2(first)"),
    "tic_tac_toe": ("random", "noisy:0.3(first)"),
    "tiny_hanabi": ("random", "noisy:0.3(first)"),
}


def differences_of(name, num):
    """The exact difference of two policies in seat 0, in a team in all seats, and that of seeds."""
    env = arena_envs.make(name)
    game, team = env.game, env.game.kind == "cooperative"
    policies = [make_policy(spec) for spec in (*PAIRS[name], "random")]
    tables = [tabular(one, game, SHORT)[0] for one in policies]
    values, paid = [], []
    for policy, table in zip(policies[:2], tables[:2], strict=True):
        mixed = {k: table[k] if team or k[0] == 0 else tables[2][k] for k in table}
        values.append(float(expected_returns(game, mixed)[0]))
        lineup = [policy if team or s == 0 else policies[2] for s in range(2)]
        paid.append([e.returns[0] for e in play(env.clone, lineup, range(num))])
    return values[1] - values[0], [b - a for a, b in zip(*paid, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_intervals_hold_the_right_difference_in_930_of_1000_repetitions(name):
    right, gaps = differences_of(name, 50_000)
    low, high = bounds_of(arena_envs.make_game(name))
    for size in (20, 50):
        chunks = [gaps[at : at + size] for at in range(0, 1000 * size, size)]
        ends = [paired_interval(chunk, high - low) for chunk in chunks]
        held = sum(low <= right <= high for low, high in ends)
        print(f"{name}, {size} seeds: {right:.4f} held in {held} of 1000 intervals")
        assert held >= 930
