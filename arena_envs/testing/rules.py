"""Checks of the rules: declared facts, actions, chance, returns, rounds, purity."""

import copy
import math
import pickle
import random
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from arena_envs.checks import short
from arena_envs.game import (
    CHANCE,
    SPLITS,
    TERMINAL,
    AnyAction,
    AnyGame,
    AnyState,
    possible_actions,
    random_states,
)
from arena_envs.registry import BrokenPromise
from arena_envs.testing.sample import Sample, demand, difference, view

NUM_PAID = 200  # further random episodes that look for an early payment


def check_knobs(game: AnyGame) -> None:
    """Knobs are parameters, and every value builds the game."""
    params = _parameters_of(game)
    for name, values in getattr(game, "knobs", {}).items():  # the fact is optional
        rule = "a knob is a parameter of the game, which is a dataclass"
        demand(name in params, rule, name, fix="Name a parameter in knobs.")
        rule = f"the knob {name!r} has a tuple of different values"
        is_tuple = type(values) is tuple and bool(values)
        demand(is_tuple and len(set(values)) == len(values), rule, values)
        for value in values:
            try:
                _rebuilt(game, **{name: value})
            except ValueError as error:
                raise BrokenPromise(
                    f"every value of the knob {name!r} builds the game; got "
                    f"{short(value)}: {error}. Remove this value from knobs."
                ) from error


def check_splits_apart(game: AnyGame) -> None:
    """Checks that the train and the test split share no instance."""
    params = _parameters_of(game)
    instances = tuple(getattr(game, "instances", ()))  # the fact is optional
    if not instances and "split" not in params:
        return
    rule = "a game with instances is a dataclass with a parameter split"
    demand(
        "split" in params, rule, fix="Draw the instances by arena_envs.game.of_split."
    )
    instances_by_split = {}
    for split in SPLITS:
        try:
            instances_by_split[split] = tuple(_rebuilt(game, split=split).instances)
        except ValueError as error:
            rule = "a game with instances can be built with both splits"
            demand(not instances, rule, error, fix="Hold instances out, or name none.")
            return
    rule = "instances of both splits, each listed once, if the game takes both"
    each_once = all(
        len(set(split_instances)) == len(split_instances) > 0
        for split_instances in instances_by_split.values()
    )
    demand(
        each_once,
        rule,
        *(split_instances[:5] for split_instances in instances_by_split.values()),
    )
    shared = set(instances_by_split["train"]) & set(instances_by_split["test"])
    rule = "the splits train and test share no instance"
    demand(not shared, rule, *sorted(shared, key=repr)[:3])
    own_split = getattr(game, "split", None)
    demand(own_split in SPLITS, "split is 'train' or 'test'", own_split)


def _parameters_of(game: AnyGame) -> list[str]:
    """The names of a game's parameters; empty where the game is no dataclass."""
    if not is_dataclass(game):
        return []
    return [field.name for field in fields(game) if field.init]


def _rebuilt(game: Any, **params: Any) -> Any:
    """The game with other parameters."""
    return replace(game, **params)


METHODS = (
    "initial_state",
    "current_player",
    "chance_outcomes",
    "legal_actions",
    "apply",
    "returns",
    "observe",
    "information_state",
    "features",
    "action_text",
    "parse",
    "rules",
    "resample",
    "forfeit",
    "default_action",
)
FACTS = (
    "num_players",
    "num_actions",
    "kind",
    "information",
    "simultaneous",
    "zero_sum",
    "min_return",
    "max_return",
    "max_turns",
    "teams",
)


def check_protocol(game: AnyGame) -> None:
    """The game has all facts and methods of `Game`."""
    for name in FACTS:
        demand(
            hasattr(game, name),
            f"the game declares {name}",
            fix="Set it as an attribute or a property.",
        )
    for name in METHODS:
        demand(
            callable(getattr(game, name, None)),
            f"the game has a method {name}",
            fix="Write it, or inherit from arena_envs.BaseGame.",
        )


def check_measures(sample: Sample) -> None:
    """Measures are finite floats with the same names in every last state."""
    game = sample.game
    if not callable(getattr(game, "measures", None)):
        return  # the method is optional
    names = None
    for state in sample.states():
        if game.current_player(state) != TERMINAL:
            continue
        measures = dict(game.measures(state))
        rule = "measures are finite floats by name"
        finite = all(
            type(name) is str and type(value) is float and math.isfinite(value)
            for name, value in measures.items()
        )
        demand(finite, rule, measures)
        demand(
            dict(game.measures(state)) == measures,
            "measures are deterministic",
            measures,
            fix="Compute measures from the state alone.",
        )
        rule = "measures have the same names in every last state"
        demand(
            names is None or names == measures.keys(),
            rule,
            measures,
            fix="Give each measure in every last state; 0.0 where it does not apply.",
        )
        names = measures.keys()


def check_facts(game: AnyGame) -> None:
    """The declared facts have their types and make sense by themselves."""
    rule = "num_players is an integer above 0"
    demand(type(game.num_players) is int and game.num_players > 0, rule)
    num_actions = game.num_actions
    rule = "num_actions is an integer above 0, or None in a language game"
    demand(
        num_actions is None or (type(num_actions) is int and num_actions > 0),
        rule,
        num_actions,
    )
    kinds = ("competitive", "cooperative", "mixed")
    demand(game.kind in kinds, f"kind is one of {', '.join(kinds)}", game.kind)
    rule = "information is 'perfect' or 'imperfect'"
    demand(game.information in ("perfect", "imperfect"), rule, game.information)
    demand(type(game.zero_sum) is bool, "zero_sum is a bool", game.zero_sum)
    demand(type(game.simultaneous) is bool, "simultaneous is a bool", game.simultaneous)
    low, high = game.min_return, game.max_return
    finite = -math.inf < low <= high < math.inf
    demand(finite, "min_return and max_return are finite and in order", low, high)
    rule = "max_turns is an integer above 0"
    demand(type(game.max_turns) is int and game.max_turns > 0, rule, game.max_turns)
    max_chance_nodes = getattr(game, "max_chance_nodes", None)
    rule = "max_chance_nodes is an integer of at least 0, or None"
    demand(
        max_chance_nodes is None
        or (type(max_chance_nodes) is int and max_chance_nodes >= 0),
        rule,
        max_chance_nodes,
    )
    rule = "teams has an entry for each seat"
    demand(len(game.teams) == game.num_players, rule, game.teams)
    rule = "all seats of a cooperative game are in one team"
    demand(game.kind != "cooperative" or len(set(game.teams)) == 1, rule, game.teams)
    rule = "a zero-sum game is competitive, or always pays nothing"
    demand(
        not game.zero_sum or game.kind == "competitive" or low == high,
        rule,
        game.kind,
        fix="Declare kind = 'competitive' or zero_sum = False.",
    )
    rule = "a copy of the game equals it and hashes alike"
    for game_copy in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
        demand(
            game_copy == game and hash(game_copy) == hash(game),
            rule,
            fix="Make the game a frozen dataclass of its parameters.",
        )


def check_actions(sample: Sample) -> None:
    """Legal actions and chance outcomes are well formed."""
    game, players = sample.game, (CHANCE, TERMINAL, *range(sample.game.num_players))
    for state in sample.states():
        player, legal = game.current_player(state), list(game.legal_actions(state))
        rule = "current_player is a seat, CHANCE or TERMINAL, as an int"
        demand(type(player) is int and player in players, rule, player)
        rule = "there are legal actions if and only if a seat is to move"
        demand(
            bool(legal) == (player >= 0),
            rule,
            legal,
            player,
            fix="Return legal actions where current_player is a seat, and none elsewhere.",
        )
        if game.num_actions is not None:
            rule = f"actions are integers from 0 to {game.num_actions - 1}"
            in_range = all(type(a) is int and 0 <= a < game.num_actions for a in legal)
            demand(
                in_range,
                rule,
                legal,
                fix="Return ints within these limits, or raise num_actions.",
            )
            demand(
                legal == sorted(legal), "legal actions are in ascending order", legal
            )
        demand(len(set(legal)) == len(legal), "no legal action is listed twice", legal)
        if player == CHANCE:
            _check_chance(game.chance_outcomes(state))
    most = getattr(game, "max_chance_nodes", None)  # the fact is optional
    for episode in sample.episodes:
        num = sum(game.current_player(state) == CHANCE for state, _ in episode)
        rule = f"an episode has at most max_chance_nodes = {most} chance nodes"
        demand(
            most is None or num <= most,
            rule,
            num,
            fix="Raise max_chance_nodes, or set it to None.",
        )


def _check_chance(outcomes: Sequence[tuple[AnyAction, float]]) -> None:
    total = sum(p for _, p in outcomes)
    demand(abs(total - 1) < 1e-9, "probabilities of chance outcomes sum to 1", total)
    rule = "every chance outcome has a probability above 0"
    demand(all(p > 0 for _, p in outcomes), rule, outcomes)
    rule = "a chance outcome is an int, a float or a str, as records hold them"
    plain = all(type(outcome) in (int, float, str) for outcome, _ in outcomes)
    demand(plain, rule, outcomes)
    distinct = len({outcome for outcome, _ in outcomes}) == len(outcomes)
    demand(distinct, "no chance outcome is listed twice", outcomes)


def check_returns(sample: Sample) -> None:
    """Returns keep to `kind`, `zero_sum`, `min_return` and `max_return`."""
    game = sample.game
    start = list(game.returns(game.initial_state()))
    demand(
        start == [0.0] * game.num_players, "returns of the initial state are 0", start
    )
    for state in sample.states():
        returns = game.returns(state)
        rule = "returns has an entry for each seat"
        demand(len(returns) == game.num_players, rule, returns)
        finite = all(type(r) is float and math.isfinite(r) for r in returns)
        demand(finite, "returns are finite floats", returns)
    low, high = game.min_return - 1e-9, game.max_return + 1e-9
    for episode in sample.episodes:
        returns = game.returns(episode[-1][0])
        rule = f"a final return lies between {game.min_return} and {game.max_return}"
        demand(
            low <= min(returns) <= max(returns) <= high,
            rule,
            returns,
            fix="Correct returns, min_return or max_return.",
        )
        if game.zero_sum:
            rule = "returns of a zero-sum game sum to 0"
            demand(
                abs(sum(returns)) < 1e-9,
                rule,
                returns,
                fix="Correct returns, or declare zero_sum = False.",
            )
        if game.kind == "cooperative":
            rule = "all seats of a cooperative game have the same return"
            demand(
                len(set(returns)) == 1,
                rule,
                returns,
                fix="Correct returns, or declare another kind.",
            )


def check_pays(sample: Sample) -> None:
    """`pays` says whether seats are paid before the last state."""
    game = sample.game
    pays = getattr(game, "pays", None)
    if pays is None:
        return  # the fact is optional
    rule = "pays is 'end' or 'on_the_way'"
    demand(pays in ("end", "on_the_way"), rule, pays)
    early = [
        game.returns(state)
        for episode in sample.episodes
        for state, _ in episode[:-1]
        if any(game.returns(state))
    ]
    if pays == "end":
        rule = "returns are 0 until the last state if pays is 'end'"
        demand(not early, rule, *early[:1], fix="Declare pays = 'on_the_way'.")
        return
    rule = "some return is not 0 before the last state if pays is 'on_the_way'"
    num = f"none in {NUM_PAID} episodes of random play"
    is_paid = bool(early) or pays_before_the_end(game)
    demand(is_paid, rule, num, fix="Declare pays = 'end'.")


def pays_before_the_end(game: AnyGame) -> bool:
    """Whether a seat is paid before the last state in some episode of random play."""
    rng = random.Random(0)
    return any(
        any(game.returns(state))
        for _ in range(NUM_PAID)
        for state, _ in random_states(game, rng)
    )


def check_purity(sample: Sample) -> None:
    """No method changes a state or the result of another call, and none is random."""
    game = sample.game
    for state in sample.states(10):
        before, code = copy.deepcopy(state), hash(state)
        for seat in range(game.num_players):
            first = view(game, state, seat)
            game.features(state, seat)[:] = -1
            key = game.information_state(state, seat)
            game.resample(state, seat, random.Random(0))
            game.forfeit(state, seat)
            rule = "a second call of observe, features or legal_actions gives the same"
            demand(
                view(game, state, seat) == first,
                rule,
                state,
                fix="Compute them from the state alone, and return a new array from features.",
            )
            again = game.information_state(state, seat)
            rule = "information_state is hashable and the same at every call"
            demand(again == key and hash(again) == hash(key), rule, key)
        for action in possible_actions(game, state):
            rule = "apply gives the same state at every call"
            demand(
                game.apply(state, action) == game.apply(state, action),
                rule,
                state,
                fix="Compute the next state from the state and the action alone.",
            )
        rule = "no method changes a state"
        unchanged = state == before and hash(state) == code == hash(before)
        demand(
            unchanged,
            rule,
            before,
            state,
            fix="Use tuples or frozen dataclasses, and build a new state in apply.",
        )


def check_forfeit(sample: Sample) -> None:
    """A forfeit gives the team of the offender nothing and costs no other seat."""
    game = sample.game
    if game.num_players > 2:
        _check_default(sample)
        return
    for state in sample.states(10):
        if game.current_player(state) == TERMINAL:
            continue
        for seat in range(game.num_players):
            returns, returns_so_far = game.forfeit(state, seat), game.returns(state)
            rule = "a forfeit gives a return to each seat"
            demand(len(returns) == game.num_players, rule, returns)
            inside = all(game.min_return <= r <= game.max_return for r in returns)
            demand(
                inside,
                "a forfeit pays between min_return and max_return",
                returns,
                fix="Correct forfeit, min_return or max_return.",
            )
            for team, after, before in zip(
                game.teams, returns, returns_so_far, strict=True
            ):
                if team == game.teams[seat]:
                    demand(
                        after <= max(before, game.min_return),
                        "the team that forfeits ends with at most its return so far, or "
                        "with min_return",
                        returns,
                        fix="Take something from the team that forfeits alone.",
                    )
                else:
                    demand(
                        after >= before,
                        "a forfeit takes nothing from other teams",
                        returns,
                        fix="Leave something from the team that forfeits alone.",
                    )
            rule = "a forfeit keeps the sum of a zero-sum game"
            demand(not game.zero_sum or abs(sum(returns)) < 1e-9, rule, returns)
            rule = "a cooperating team shares a forfeit"
            is_shared = game.kind != "cooperative" or len(set(returns)) == 1
            demand(is_shared, rule, returns)


def _check_default(sample: Sample) -> None:
    """A bad reply becomes a legal action that the seat could choose by what it knows."""
    game, rng = sample.game, random.Random(0)
    for state in sample.states(10):
        seat = game.current_player(state)
        if seat < 0:
            continue
        action = game.default_action(state)
        rule = "default_action gives a legal action"
        demand(action in game.legal_actions(state), rule, action)
        again = game.default_action(game.resample(state, seat, rng))
        rule = "default_action depends only on what the seat to move knows"
        demand(action == again, rule, action, again)


def check_rounds(sample: Sample) -> None:
    """Checks that nobody sees or is paid for a simultaneous choice before the round ends."""
    game = sample.game
    if not game.simultaneous:
        return
    rng = random.Random(0)
    for episode in sample.episodes[:10]:
        seats = [p for s, _ in episode if (p := game.current_player(s)) >= 0]
        demand(
            seats == [turn % game.num_players for turn in range(len(seats))],
            "all seats choose in each round, in ascending order",
            seats,
            fix="Let every seat choose once in each round, or set simultaneous = False.",
        )
        for state, _ in episode:
            if game.current_player(state) == 0:
                _check_round(game, state, rng)


def _check_round(game: AnyGame, start: AnyState, rng: random.Random) -> None:
    first = second = start
    for player in range(game.num_players):
        for seat in range(player, game.num_players):
            for state in (first, second):
                _check_alike(game, start, state, seat)
        demand(
            game.returns(first) == game.returns(start),
            "nothing is paid before the end of a round",
            game.returns(first),
            fix="Pay after the last seat's choice, or set simultaneous = False.",
        )
        if player == game.num_players - 1:
            return
        action = rng.choice(game.legal_actions(first))
        after_choice = game.apply(first, action)
        _check_alike(game, after_choice, game.apply(second, action), player)
        first, second = (
            after_choice,
            game.apply(second, rng.choice(game.legal_actions(second))),
        )


def _check_alike(game: AnyGame, state: AnyState, twin: AnyState, seat: int) -> None:
    seat_view, twin_view = view(game, state, seat), view(game, twin, seat)
    rule = "no text, features or mask shows another seat's choice of the running round"
    demand(
        seat_view == twin_view,
        f"{rule}; got {difference(seat_view, twin_view)}",
        fix="Show choices after the last seat's choice, or set simultaneous = False.",
    )
    rule = "no information state shows another seat's choice of the running round"
    keys = [game.information_state(s, seat) for s in (state, twin)]
    demand(
        keys[0] == keys[1],
        rule,
        *keys,
        fix="Show choices after the last seat's choice, or set simultaneous = False.",
    )
