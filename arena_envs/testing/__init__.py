"""The conformance kit, which checks a game against the contract of `arena_envs.game.Game`.

    from arena_envs.testing import check_game

    def test_my_game_keeps_the_contract():
        check_game(MyGame())

It plays random episodes, so it finds what these show. It does not know the rules of a game:
compare them with an independent implementation (`same_game`) or with a value known in closed form. Where
information is imperfect, it does not find a text that leaves out a public fact (see
`check_game`).
"""

import re
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arena_envs import game as rules_of_all
from arena_envs import talk
from arena_envs.game import AnyGame
from arena_envs.registration import make_game
from arena_envs.registry import BrokenPromise as BrokenPromise
from arena_envs.testing import environment, knowledge, messages, pictures, rules, texts
from arena_envs.testing.sample import Sample as Sample
from arena_envs.testing.sample import demand
from arena_envs.testing.sample import draw_sample as draw_sample
from arena_envs.testing.sample import random_episode as random_episode
from arena_envs.testing.twin import EnvTwin as EnvTwin
from arena_envs.testing.twin import StateDifference as StateDifference
from arena_envs.testing.twin import same_game as same_game
from arena_envs.testing.twin import twin as twin
from arena_envs.testing.twin import twin_values as twin_values
from arena_envs.transforms import innermost

PAGE_ROWS = (
    "Create",
    "Agents",
    "Kind",
    "Actions",
    "Rewards",
    "Length",
    "Known value",
    "Source",
)


def page_of(game: AnyGame | type) -> str:
    """The docstring of the module of a game, or of a game's class; empty without one.

    A transform has the page of its inner game.
    """
    game = innermost(game)
    owner = game if isinstance(game, type) else type(game)
    return (sys.modules[owner.__module__].__doc__ or "").strip()


def check_page(game: AnyGame | type) -> None:
    """The module's docstring is a page: title, table with all rows, rules."""
    page = page_of(game)
    demand(bool(page), "the module of a game has a docstring, which is its page")
    rule = "the page starts with a title, a colon and a sentence, and then a blank line"
    demand(
        bool(re.match(r"[^\n:|]+: [^\n|]+(\n[^\n|]+)*\n\n", page)),
        rule,
        page,
        fix="Start it as in 'Nim: take objects from piles.'",
    )
    rows = tuple(re.findall(r"^\| (\w[\w ]*?) +\|", page, re.MULTILINE))
    rule = f"the table of the page has the rows Property, {', '.join(PAGE_ROWS)}"
    demand(rows == ("Property", *PAGE_ROWS), rule, rows)
    rule = "the rules follow the table of the page"
    demand(
        "\n\n" in page.partition("| Source")[2],
        rule,
        fix="Write the rules below the table, after a blank line.",
    )


CHECKS: tuple[Callable[[Sample], None], ...] = (
    knowledge.check_complete,
    rules.check_actions,
    rules.check_returns,
    rules.check_measures,
    rules.check_purity,
    rules.check_pays,
    texts.check_texts,
    texts.check_parse,
    texts.check_hostile_texts,
    texts.check_read_back,
    texts.check_strictness,
    knowledge.check_knowledge,
    knowledge.check_resampling,
    knowledge.check_hidden,
    pictures.check_scenes,
    messages.check_messages,
    messages.check_long_talk,
    rules.check_rounds,
    knowledge.check_sufficiency,
    rules.check_forfeit,
    environment.check_pettingzoo,
    environment.check_seeds,
    environment.check_copies,
    environment.check_refusals,
    environment.check_replay,
    environment.check_gymnasium,
)

# methods of BaseGame and TalkGame, which call those of the game
BASES = (rules_of_all.__file__, talk.__file__)
OPT_OUT = ", or pass needs_page=False"  # left out by the command `arena check`


def check_game(
    game_or_id: AnyGame | str,
    *,
    num_episodes: int = 40,
    seed: int = 0,
    needs_page: bool | None = None,
) -> None:
    """Checks by random play that a game keeps the contract of `arena_envs.game.Game`.

    Not everything is checked in every game. In games of perfect information, states with
    the same text must have the same returns and the same successors; with imperfect
    information only the legal actions are compared, so read the golden file or some prompts
    to see whether a text leaves out what its reader needs.

    Args:
        game_or_id: the rules, or the id of a registered game.
        num_episodes: random episodes to look at; no more begin after 1,500 states.
        seed: of the random episodes.
        needs_page: whether the module of the game must have a page. None: it must in this
            package, and a game of another package gets a warning without a page.

    Raises:
        BrokenPromise: names the game, the first rule that it breaks and what to do.
        ValueError: the id is unknown, or `num_episodes` is no integer above 0.
    """
    if type(num_episodes) is not int or num_episodes < 1:
        raise ValueError(f"want num_episodes above 0, got {num_episodes!r}")
    game = make_game(game_or_id) if isinstance(game_or_id, str) else game_or_id
    _run(rules.check_protocol, game, game)
    _run(rules.check_facts, game, game)
    _run(rules.check_knobs, game, game)
    _run(rules.check_splits_apart, game, game)
    if hasattr(game, "check_parts"):  # optional: of what plug-ins give a game
        _run(game.check_parts, game)
    sample = _run(draw_sample, game, game, num_episodes, seed)
    for check in CHECKS:
        _run(check, game, sample)
    if needs_page is False:
        return
    try:
        check_page(game)
    except BrokenPromise as error:
        if needs_page or type(game).__module__.startswith("arena_envs."):
            raise BrokenPromise(f"{game!r} breaks a rule: {error}") from error
        warnings.warn(
            f"{game!r} has no page for `arena show`: {error}; write one as in "
            f"arena_envs.games.nim{OPT_OUT}",
            stacklevel=2,
        )


def _run(check: Callable[..., Any], game: AnyGame, *args: Any) -> Any:
    try:
        return check(*args)
    except BrokenPromise as error:
        raise BrokenPromise(f"{game!r} breaks a rule: {error}") from error
    except NotImplementedError as error:  # a default of BaseGame does not do
        raise BrokenPromise(
            str(error) or f"{game!r}: {_call_of(game, error)}"
        ) from error
    except Exception as error:  # of the game's own code, which may raise anything
        problem = f"raised {type(error).__name__}: {error}"
        if call := _call_of(game, error):
            raise BrokenPromise(
                f"{game!r} breaks a rule: {call[0]} {problem} ({call[1]})"
            ) from error
        title = str(check.__doc__).partition("\n")[0]
        raise BrokenPromise(f"{game!r} breaks a rule: {title} It {problem}") from error


def _call_of(game: AnyGame, error: Exception) -> tuple[str, str] | None:
    """The call of the game that raised, such as `observe(state, 0)`, and the line.

    The line is the last one in the file of that method. None: no method of the game raised.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    for frame, _ in frames:
        code = frame.f_code
        if code.co_filename in BASES or type(frame.f_locals.get("self")) is not type(
            game
        ):
            continue
        names = code.co_varnames[1 : code.co_argcount]
        values = [frame.f_locals.get(name) for name in names]
        arguments = [
            f"{value!r:.60}"
            if isinstance(value, int | str) and name != "state"
            else name
            for name, value in zip(names, values, strict=True)
        ]
        file = code.co_filename
        line = [number for f, number in frames if f.f_code.co_filename == file][-1]
        return f"{code.co_name}({', '.join(arguments)})", f"{Path(file).name}:{line}"
    return None
