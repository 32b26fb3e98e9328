"""Entries of the options `games` and `opponents`: their form; a game for each knob and opponent.

This module imports neither TRL nor torch.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena_envs.checks import check_known
from arena_envs.registration import games, make_game
from arena_trainers.matchmaking.by_name import names_matchmaker

KEYS = ("id", "params", "max_turns", "weight", "opponents")
MAX_VALUES = 30  # games of one entry


def checked_entry(spec: Any, keys: Sequence[str] = KEYS) -> dict[str, Any]:
    """An entry as a dict.

    Raises:
        ValueError: another key, no id, or a value that means nothing.
    """
    entry = {"id": spec} if isinstance(spec, str) else spec
    if not isinstance(entry, dict):
        raise ValueError(f"want a game as id or dict of {sorted(keys)}, got {spec!r}")
    for key in entry:
        if key in ("game", "name") and "id" not in entry:
            raise ValueError(
                f"want the id of a game under the key id, got {spec!r}; write id: {entry[key]}"
            )
        if len(entry) == 1 and games.knows(key):
            raise ValueError(
                f"want a game as id or dict of {sorted(keys)}, got {spec!r}; write "
                f"{{id: {key}, params: {{...}}, weight: 1}}"
            )
        check_known(
            key, sorted(keys), f"a game in games: has no key {key!r}, got {spec!r}"
        )
    if "id" not in entry:
        raise ValueError(
            f"want an id in every game of games:, got {spec!r}; add id: kuhn_poker, or another"
        )
    params, weight = entry.get("params", {}), entry.get("weight", 1.0)
    if not isinstance(params, dict):
        raise ValueError(f"want params of {entry['id']} as a mapping, got {params!r}")
    if not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise ValueError(f"want weight of {entry['id']} above 0, got {weight!r}")
    return entry


def expanded(entries: Sequence[Any]) -> list[Any]:
    """Entries without `knobs` and `ladder`: one for each value of the knobs and each opponent.

    Several knobs give all combinations of their values. The games of an entry share its
    weight equally, and have its other keys.

    Args:
        entries: ids and dicts; `knobs` of a dict is True for all knobs of its game, or a list
            of names; `ladder` is a list of opponents, from easy to hard.

    Raises:
        ValueError: an entry is malformed, its game lacks knobs or one of this name or refuses a
            value, a knob is also one of `params`, a ladder is no list of opponents or stands
            beside `opponents`, or there are more than 30 combinations.
    """
    expanded_entries: list[Any] = []
    for spec in entries:
        entry = checked_entry(spec, (*KEYS, "knobs", "ladder"))
        games = _games_by_knobs(entry) if "knobs" in entry else [spec]
        for game in games:
            has_ladder = isinstance(game, dict) and "ladder" in game
            expanded_entries += _games_by_opponent(game) if has_ladder else [game]
    return expanded_entries


def _games_by_opponent(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entry with each opponent of its ladder."""
    id, ladder = entry["id"], entry["ladder"]
    is_list = isinstance(ladder, list | tuple) and bool(ladder)
    if not is_list or not all(isinstance(opponent, str) for opponent in ladder):
        raise ValueError(
            f"want ladder of {id} as a list of policy strings, got {ladder!r}; write [random, "
            '"mcts:10"]'
        )
    if "opponents" in entry:
        raise ValueError(
            f"want opponents or a ladder of {id}, got both; leave one of them out"
        )
    if len(set(ladder)) < len(ladder) or len(ladder) > MAX_VALUES:
        raise ValueError(
            f"want at most {MAX_VALUES} different opponents in the ladder of {id}, got {ladder!r}"
        )
    weight = entry.get("weight", 1.0) / len(ladder)
    other_keys = {name: value for name, value in entry.items() if name != "ladder"}
    return [
        {**other_keys, "opponents": opponent, "weight": weight} for opponent in ladder
    ]


def _games_by_knobs(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entry with each combination of the values of its knobs."""
    id, params = entry["id"], entry.get("params", {})
    values = _knob_values(entry)
    num_values = math.prod(map(len, values.values()))
    if num_values > MAX_VALUES:
        raise ValueError(
            f"want at most {MAX_VALUES} combinations of the knobs of {id}, got "
            f"{num_values} of {list(values)}; name fewer knobs"
        )
    weight = entry.get("weight", 1.0) / num_values
    other_keys = {name: value for name, value in entry.items() if name != "knobs"}
    entries = []
    for knob_values in itertools.product(*values.values()):
        knobs = dict(zip(values, knob_values, strict=True))
        try:
            make_game(id, **params, **knobs)
        except ValueError as error:
            raise ValueError(
                f"{id} refuses the values {knobs} of its knobs ({error}); name fewer "
                "knobs, or list the game several times with other params"
            ) from error
        entries.append({**other_keys, "params": {**params, **knobs}, "weight": weight})
    return entries


def _knob_values(entry: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The values of the knobs that an entry names, by knob."""
    id, names, params = entry["id"], entry["knobs"], entry.get("params", {})
    game_knobs = getattr(make_game(id, **params), "knobs", {})  # the fact is optional
    if not game_knobs:
        where = " with these params" if params else ""
        raise ValueError(
            f"{id} has no knobs{where}; leave knobs out, and list the game several "
            "times with other params"
        )
    names = list(game_knobs) if names is True else names
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or not names:
        raise ValueError(
            f"want knobs of {id} as true or a list of {list(game_knobs)}, got {names!r}"
        )
    for name in names:
        check_known(name, game_knobs, f"{id} has no knob {name!r}")
        if name in params:
            raise ValueError(
                f"want {name} of {id} in params or in knobs, got it in both; leave it "
                "out of one of them"
            )
    return {name: game_knobs[name] for name in names}


def check_opponents(opponents: Any) -> None:
    """Raises ValueError unless they are a string, a list of strings, or a matchmaker."""
    if isinstance(opponents, Mapping):
        return
    seats = [opponents] if isinstance(opponents, str) else opponents
    if not isinstance(seats, list) or not all(isinstance(seat, str) for seat in seats):
        raise ValueError(
            f"want opponents as a string or a list, got {opponents!r}; write a policy "
            "string, a list with one for each seat, or a matchmaker such as past_selves"
        )
    if isinstance(opponents, str):
        return
    for seat in seats:
        if names_matchmaker(seat):
            raise ValueError(
                "want policy strings in a list of opponents, got the matchmaker "
                f"{seat!r}, which assigns all seats; give it alone: --opponents {seat}"
            )
