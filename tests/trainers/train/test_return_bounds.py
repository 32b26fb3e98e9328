"""Bounds of returns that forfeits and penalties keep to."""

import pytest

import arena_envs
from arena_trainers import TurnGRPOConfig
from arena_trainers.train import check_credit
from arena_trainers.train.return_bounds import pays_early, return_bounds

KUHN = arena_envs.make_game("kuhn_poker")
pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


def one(*_):
    return 1


def bnpo(settings, low=None, high=None, **overrides):
    bounds = {"min_return": low, "max_return": high}
    return TurnGRPOConfig(
        **settings | {"credit": "bnpo", "credit_args": bounds} | overrides
    )


@pytest.mark.parametrize(
    ("game", "overrides", "bounds"),
    [
        ("kuhn_poker", {}, (-2.5, 2)),
        ("tic_tac_toe", {}, (-1.5, 1)),
        ("kuhn_poker", {"penalty": 0.0}, (-2, 2)),
        ("kuhn_poker", {"part_weights": {"game": 3.0, "format": 2.0}}, (-7, 6)),
        ("kuhn_poker", {"part_weights": {"game": -1.0, "format": -1.0}}, (-2, 2.5)),
        ("kuhn_poker", {"on_invalid": "retry"}, (-2 - 0.5 * (2 * 3 + 1), 2)),
        ("kuhn_poker", {"on_invalid": "random"}, (-2 - 0.5 * 3, 2)),
    ],
)
def test_bounds_are_those_of_the_game_with_penalties_and_weights(
    settings, game, overrides, bounds
):
    rules, args = arena_envs.make_game(game), bnpo(settings, **overrides)
    assert return_bounds(rules, args, args.part_weights) == pytest.approx(bounds)
    check_credit(bnpo(settings, *bounds, **overrides), [rules])
    low, high = bounds
    with pytest.raises(ValueError, match=f"want a min_return of {low:g} or less"):
        check_credit(bnpo(settings, low + 0.1, high, **overrides), [rules])
    with pytest.raises(ValueError, match=f"want a max_return of {high:g} or more"):
        check_credit(bnpo(settings, low, high - 0.1, **overrides), [rules])


@pytest.mark.parametrize("low", [None, -9])
def test_bounds_may_be_wider_or_absent(settings, low):
    games = [KUHN, arena_envs.make_game("tic_tac_toe")]
    check_credit(bnpo(settings, low), games)
    check_credit(bnpo(settings, low, 9), games)


def test_every_game_has_to_keep_to_the_bounds(settings):
    games = [arena_envs.make_game("tic_tac_toe"), KUHN]
    with pytest.raises(
        ValueError, match=r"-2\.5 or less, got -1\.5: KuhnPoker can pay -2\.5, with"
    ):
        check_credit(bnpo(settings, -1.5, 9), games)


def test_bounds_of_a_paid_judge_are_not_known(settings):
    args = bnpo(settings, -9, 9, part_weights={"judge": 1.0})
    with pytest.raises(
        ValueError, match=r"'bnpo' cannot check min_return.*'judge' are"
    ):
        check_credit(args, [KUHN], {"rewards.judge": one})
    args = bnpo(settings, part_weights={"judge": 1.0})
    check_credit(args, [KUHN], {"rewards.judge": one})


def by_part(settings, part, low, high, **overrides):
    bounds = {"min_return": {part: low}, "max_return": {part: high}}
    options = {"parts": ["game", part] if part != "game" else ["game"], **bounds}
    return TurnGRPOConfig(
        **settings | {"credit": "bnpo", "credit_args": options} | overrides
    )


@pytest.mark.parametrize(
    ("part", "weights", "bounds"),
    [
        ("game", {}, (-2, 2)),
        ("format", {}, (-0.5, 0)),
        ("game", {"game": 3.0}, (-6, 6)),
        ("format", {"format": 2.0, "game": 3.0}, (-1, 0)),
        ("format", {"format": -2.0}, (0, 1)),
        ("format", {"format": 0.0}, (-0.5, 0)),
    ],
)
def test_bounds_by_part_are_those_of_the_part(settings, part, weights, bounds):
    """Times its weight; a part of weight 0 is read as it came."""
    low, high = bounds
    own = {"part_weights": weights}
    check_credit(by_part(settings, part, low, high, **own), [KUHN])
    check_credit(by_part(settings, part, None, high + 1, **own), [KUHN])
    message = (
        f"want a min_return\\['{part}'\\] of {low:g} or less, got .*: KuhnPoker can"
    )
    with pytest.raises(ValueError, match=message):
        check_credit(by_part(settings, part, low + 0.1, high + 1, **own), [KUHN])
    message = (
        f"want a max_return\\['{part}'\\] of {high:g} or more, got .*: KuhnPoker can"
    )
    with pytest.raises(ValueError, match=message):
        check_credit(by_part(settings, part, low, high - 0.1, **own), [KUHN])


def test_bounds_of_a_judge_by_part_are_not_known(settings):
    judge = {"rewards.judge": one}
    with pytest.raises(
        ValueError, match=r"'bnpo' cannot check min_return.*'judge' are"
    ):
        check_credit(by_part(settings, "judge", 0, 1), [KUHN], judge)
    check_credit(by_part(settings, "judge", None, None), [KUHN], judge)


def test_forfeits_keep_to_the_bounds_that_pass_at_the_start(make_trainer, generated):
    """A hot model says nonsense; with the game's own bounds the run would have stopped."""
    with pytest.raises(ValueError, match=r"want a min_return of -2\.5 or less"):
        make_trainer(credit="bnpo", credit_args={"min_return": -2, "max_return": 2})
    trainer = make_trainer(
        credit="bnpo",
        credit_args={"min_return": -2.5, "max_return": 2},
        temperature=10.0,
    )
    generated(trainer)
    assert trainer.last_turns.reward.min() == -2.5


def test_penalties_keep_to_the_bounds_by_part_that_pass_at_the_start(
    make_trainer, generated
):
    def trainer(low):
        bounds = {"game": -2, "format": low}, {"game": 2, "format": 0.0}
        options = {"min_return": bounds[0], "max_return": bounds[1]}
        options |= {"parts": ["game", "format"]}
        return make_trainer(credit="bnpo", credit_args=options, temperature=10.0)

    with pytest.raises(ValueError, match=r"want a min_return\['format'\] of -0\.5 or"):
        trainer(-0.1)
    played = trainer(-0.5)
    generated(played)
    assert played.last_turns.rewards["format"].min() == -0.5


@pytest.mark.parametrize(
    ("game", "early"),
    [("kuhn_poker", False), ("chess", False), ("mini_hanabi", True), ("nim", False)],
)
def test_games_that_pay_seats_before_they_have_moved_are_found(game, early):
    assert pays_early(arena_envs.make_game(game)) is early


def test_a_seat_that_was_paid_early_may_lose_it_all(settings):
    """Hanabi's first card scores for both; who forfeits has then been paid -1."""
    game = arena_envs.make_game("mini_hanabi")
    low, high = return_bounds(game, bnpo(settings), {})
    assert (low, high) == (-game.max_return - 0.5, game.max_return)
