"""Columns that the user's functions give."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import arena_envs
from arena_credit import estimate
from arena_envs.solvers import action_values, uniform_table
from arena_eval.rollouts import read_rollouts, write_rollouts
from arena_studio.report.episode_text import turn_lines
from arena_trainers import TurnGRPOConfig
from arena_trainers.runs import training_groups
from arena_trainers.train import check_credit
from arena_trainers.train.columns import supplied_by

KUHN = arena_envs.make_game("kuhn_poker")
VALUES = action_values(KUHN, uniform_table(KUHN))
pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


def judge(episode, turn, state):
    """.2 for what is best against uniform play, else -.2; invalid replies are worst."""
    if turn.invalid:
        return -0.2
    values = VALUES[turn.seat, KUHN.information_state(state, turn.seat)]
    best = KUHN.legal_actions(state)[int(np.argmax(values))]
    return 0.2 if turn.action == best else -0.2


def cards(episode, turn, state):
    """The card that the seat was dealt."""
    return state.cards[turn.seat]


def labels(trainer):
    """What the judge says of the learners' turns, from the records of play."""
    from arena_wrappers.play import turn_states

    return [
        judge(episode, turn, state)
        for episode in trainer.last_episodes
        for turn, state in zip(episode.turns, turn_states(episode, KUHN), strict=True)
    ]


@pytest.mark.parametrize("weight", [0.5, 0.0])
def test_supplied_parts_are_in_rollouts_replays_and_metrics_and_add_up(
    make_trainer, generated, tmp_path, weight
):
    """A part of weight 0 is named as not paid, and is not in the sum."""
    options = {"part_weights": {"judge": weight}} if weight else {"credit": "adca"}
    trainer = make_trainer(columns={"rewards.judge": judge}, **options)
    generated(trainer)
    path = tmp_path / "step-0.jsonl"
    write_rollouts(path, training_groups(trainer, 100))
    shown = [
        (list(turn_lines(turn, earned, full=False)), earned)
        for episode, credit in read_rollouts(path)
        for turn, earned in zip(episode.turns, credit, strict=True)
        if earned is not None
    ]
    sums = [sum(earned.rewards.values()) for _, earned in shown]
    assert sums == pytest.approx(trainer.last_turns.reward.tolist())
    said = labels(trainer)
    kind = "rewards" if weight else "unpaid"
    factor = weight or 1
    found = [getattr(earned, kind).get("judge", 0) for _, earned in shown]
    assert found == [factor * x for x in said]
    for (lines, earned), total in zip(shown, sums, strict=True):
        (line,) = (one for one in lines if one.startswith("  reward"))
        assert float(line.split()[1].rstrip(";")) == pytest.approx(total, abs=1e-5)
        if earned.rewards.get("judge") and len(earned.rewards) > 1:
            assert f"judge {earned.rewards['judge']:g}" in line
        assert ("not paid: judge" in line) == (weight == 0)
    logged = trainer._metrics["train"]
    turns = trainer.last_turns
    for seat in (0, 1):
        own = turns.seat == seat
        mean = turns.rewards["judge"][own].sum() / len({*turns.episode[own].tolist()})
        (value,) = logged[f"arena/kuhn_poker/player_{seat}/reward/judge"]
        assert value == pytest.approx(mean)


def test_adca_learns_from_an_exact_judge(make_trainer):
    """Two steps; the labels are read, not paid, and decide the credit."""
    trainer = make_trainer(
        credit="adca",
        columns={"rewards.judge": judge},
        max_steps=2,
        episodes_per_step=16,
        num_generations=4,
    )
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    assert trainer.state.global_step == 2
    turns = trainer.last_turns
    wanted = labels(trainer)
    assert turns.rewards["judge"].tolist() == wanted
    assert set(wanted) == {0.2, -0.2}
    paid = turns.rewards["game"] + turns.rewards["format"]
    assert turns.reward.tolist() == paid.tolist()
    again = estimate("adca", turns).advantage
    assert trainer.last_credit.advantage.tolist() == again.tolist()
    without = estimate("adca", turns, judge_weight=0.0).advantage
    assert np.abs(again - without).max() > 0.01
    after = trainer.model.parameters()
    assert any((a != b).any() for a, b in zip(before, after, strict=True))


def test_a_part_that_part_weights_names_is_paid(make_trainer, generated):
    """Of a weight of .5, and `rewards` holds it as it is paid."""
    trainer = make_trainer(
        columns={"rewards.judge": judge}, part_weights={"judge": 0.5}
    )
    generated(trainer)
    turns = trainer.last_turns
    assert turns.rewards["judge"].tolist() == [0.5 * x for x in labels(trainer)]
    assert turns.reward.tolist() == pytest.approx(sum(turns.rewards.values()).tolist())


def test_strata_by_the_dealt_card(make_trainer, generated):
    options = {"strata": ["stratum"], "pool": ["game", "seat"], "blend": 1.0}
    trainer = make_trainer(
        credit="stratified_grpo",
        credit_args=options,
        columns={"stratum": cards},
        episodes_per_step=32,
    )
    generated(trainer)
    turns, advantage = trainer.last_turns, trainer.last_credit.advantage
    assert set(turns.stratum.tolist()) == {0, 1, 2}
    assert turns.stratum.dtype == np.int64
    first = turns.turn == 0
    for card in range(3):
        for seat in range(2):
            own = first & (turns.stratum == card) & (turns.seat == seat)
            assert abs(advantage[own].sum()) < 1e-9


def test_values_from_functions_take_the_place_of_a_critic(make_trainer, generated):
    def state_value(episode, turn, state):
        return np.mean(VALUES[turn.seat, KUHN.information_state(state, turn.seat)])

    trainer = make_trainer(credit="gae", columns={"value": state_value})
    generated(trainer)
    turns = trainer.last_turns
    assert len(set(turns.value.tolist())) > 2
    assert trainer.credit.critic is None
    wanted = estimate("gae", turns).advantage
    assert trainer.last_credit.advantage.tolist() == wanted.tolist()


TURN = SimpleNamespace(index=1, seat=0)
EPISODE = SimpleNamespace(seed=7)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (
            "rewards.judge",
            "good",
            "want a finite number from columns\\['rewards.judge'\\]",
        ),
        (
            "rewards.judge",
            None,
            "got None for turn 1 of seat 0 in an episode of seed 7",
        ),
        ("rewards.judge", float("nan"), "want a finite number .*, got nan"),
        ("value", np.inf, "want a finite number .*, got inf"),
        pytest.param("value", 10**400, "want a finite number .*, got 1000", id="huge"),
        (
            "stratum",
            0.5,
            "want an integer of 64 bits from columns\\['stratum'\\], got 0.5",
        ),
        ("stratum", 2**63, "want an integer of 64 bits .*, got 9223372036854775808"),
        ("stratum", float("nan"), "want an integer of 64 bits .*, got nan"),
    ],
)
def test_values_that_are_no_numbers_are_named(column, value, message):
    with pytest.raises(ValueError, match=message):
        supplied_by({column: lambda *_: value}, EPISODE, TURN, None)


@pytest.mark.parametrize(
    "value", [1, 1.0, True, np.int8(1), np.float32(1), np.bool_(True), Fraction(1)]
)
def test_numbers_of_all_kinds_are_taken(value):
    functions = {"stratum": lambda *_: value, "rewards.judge": lambda *_: value}
    found = supplied_by(functions, EPISODE, TURN, None)
    assert found == {"stratum": 1, "rewards.judge": 1.0}
    assert [type(x) for x in found.values()] == [int, float]


def test_a_bad_value_stops_the_run_by_name(make_trainer, generated):
    def judge(episode, turn, state):
        return 0.0 if turn.logprobs == [0.0] else "good"  # it passes the trial

    trainer = make_trainer(credit="adca", columns={"rewards.judge": judge})
    with pytest.raises(ValueError, match=r"columns\['rewards.judge'\], got 'good'"):
        generated(trainer)


def one(*_):
    return 1


@pytest.mark.parametrize(
    ("overrides", "columns", "message"),
    [
        (
            {},
            {"stratum": one},
            "credit 'control_variates' does not read 'stratum'; leave it",
        ),
        (
            {},
            {"rewards.judge": one},
            "credit 'control_variates' does not read 'rewards.judge'",
        ),
        (
            {"credit": "archer"},
            {"value": one, "action_value": one},
            "credit 'archer' does not read 'action_value'",
        ),
        (
            {"credit": "adca"},
            {"rewards.jugde": one},
            "columns={'rewards.judge': 'my_module",
        ),
        ({}, {"strata": one}, "columns gives 'strata'.* did you mean 'stratum'"),
        ({}, {"judge": one}, "parts of the reward; did you mean 'rewards.judge'"),
        ({}, {"rewards.": one}, "but a function can give value, action_value, stratum"),
        ({}, {"team": one}, "columns gives 'team', which the trainer gives; leave"),
        ({}, {"rewards.game": one}, "'rewards.game', which the trainer gives; leave"),
        (
            {"credit": "gae", "critic": "features"},
            {"value": one},
            "columns gives 'value', which the trainer gives; leave",
        ),
        ({"credit": "adca"}, {"rewards.judge": 0.2}, "want a function .*, got 0.2"),
        (
            {"part_weights": {"jugde": 1.0}, "credit": "adca"},
            {"rewards.judge": one},
            "part_weights names 'jugde'.* did you mean 'judge'",
        ),
        (
            {"part_weights": {"game": 0.0}, "credit": "mt_grpo"},
            {},
            "'mt_grpo' needs as outcome a reward part with a weight other than 0, got 'game'",
        ),
        (
            {"credit": "mt_grpo", "credit_args": {"outcome": "judge"}},
            {"rewards.judge": one},
            "'mt_grpo' needs as outcome a reward part with a weight other than 0, got 'judge'",
        ),
    ],
)
def test_columns_are_checked_at_the_start(settings, overrides, columns, message):
    args = TurnGRPOConfig(**settings | overrides)
    with pytest.raises(ValueError, match=message):
        check_credit(args, [KUHN], columns)


@pytest.mark.parametrize(
    ("overrides", "columns"),
    [
        ({"credit": "adca"}, ["rewards.judge"]),
        ({"credit": "gae"}, ["value"]),
        ({"credit": "counterfactual"}, ["value", "action_value"]),
        (
            {"credit": "archer", "credit_args": {"action_value": "column"}},
            ["value", "action_value"],
        ),
        (
            {"credit": "stratified_grpo", "credit_args": {"strata": ["stratum"]}},
            ["stratum"],
        ),
        (
            {"credit": "random_effects", "credit_args": {"pool": ["game", "stratum"]}},
            ["stratum"],
        ),
        (
            {"credit": "flow_grpo", "credit_args": {"outcome": "judge"}},
            ["rewards.judge"],
        ),
        ({"part_weights": {"judge": 2.0}}, ["rewards.judge"]),
    ],
)
def test_columns_that_are_read_or_paid_are_taken(settings, overrides, columns):
    args = TurnGRPOConfig(**settings | overrides)
    functions = dict.fromkeys(columns, one)
    assert set(columns) <= set(check_credit(args, [KUHN], functions))
