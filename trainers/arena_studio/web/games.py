"""The games that can be played in a browser, and their own opponents."""

from collections import Counter
from functools import lru_cache
from typing import Any

import arena_envs
from arena_envs.catalogue import GAMES
from arena_envs.checks import install_advice
from arena_envs.game import AnyGame
from arena_envs.scenes.shapes import SEATS, seat_tone
from arena_envs.testing import page_of
from arena_eval.baselines import solver_of
from arena_studio.web.refusal import Refused
from arena_wrappers import make_policy
from arena_wrappers.prompts.pages import page_title

COLORS = {  # words for tones of pieces
    **dict(
        zip(SEATS, ("blue", "orange", "green", "purple", "teal", "pink"), strict=True)
    ),
    "dark": "black",
    "light": "white",
}
CACHE_SIZE = 200  # tables, policies and solved games that stay in memory


def game_named(id: str) -> AnyGame:
    """The rules of a registered game; raises Refused for another id."""
    if id not in listed():
        raise Refused(404, f"There is no game {id!r:.80}.")
    return arena_envs.make_game(id)


@lru_cache(1)
def listed() -> dict[str, dict[str, Any]]:
    """The games that can be played here: facts by id."""
    facts_by_id = {}
    missing = arena_envs.missing_games()
    for info in arena_envs.game_infos():
        if info.id in missing:
            continue
        game = arena_envs.make_game(info.id)
        facts_by_id[info.id] = {
            "id": info.id,
            "title": page_title(game) if info.id in GAMES else info.id,
            "about": first_sentence(game) if info.id in GAMES else "",
            "players": game.num_players,
            "kind": game.kind,
            "information": game.information,
            "talk": game.num_actions is None,
            **_seats(game),
        }
    # games of one module share its title; each has its id then
    num_by_title = Counter(facts["title"] for facts in facts_by_id.values())
    for id, facts in facts_by_id.items():
        if num_by_title[facts["title"]] > 1:
            facts["title"] = id.rpartition("-v")[0].replace("_", " ").capitalize()
    return facts_by_id


def first_sentence(game: AnyGame) -> str:
    """The sentence behind the title of a game's page."""
    sentence = page_of(game).partition(":")[2].strip().partition("\n\n")[0]
    words = " ".join(sentence.split())
    return words[:1].upper() + words[1:]


def _seats(game: AnyGame) -> dict[str, list[str]]:
    """Of each seat, the tone of its pieces, the word for it, its role and the name in texts."""
    num = game.num_players
    tones = _by_seat(game, "seat_tones") or [seat_tone(seat) for seat in range(num)]
    colors = [
        COLORS.get(tone, tone) if seat < len(SEATS) else f"seat {seat + 1}"
        for seat, tone in enumerate(tones)
    ]
    roles = _by_seat(game, "seat_roles")
    names = [name.capitalize() for name in roles or colors]
    return {
        "tones": tones,
        "colors": colors,
        "roles": roles,
        "names": ["You"] if num == 1 else names,
    }


def _by_seat(game: AnyGame, fact: str) -> list[str]:
    """What a game declares of each seat; empty without a value for each of its seats."""
    values = list(getattr(game, fact, ()))
    return values if len(values) == game.num_players else []


def missing_note() -> str:
    """Which games are left out because their extras are not installed; empty if none is."""
    missing = arena_envs.missing_games()
    if not missing:
        return ""
    advice = install_advice(",".join(sorted({*missing.values()})))
    return f"Not installed: {', '.join(missing)}; {advice}"


@lru_cache(CACHE_SIZE)
def offered_opponents(id: str) -> tuple[str, ...]:
    """The opponents that a game offers by itself: strings of policies."""
    game = game_named(id)
    names = ["random", solver_of(game)]
    for bot in GAMES[id].bots if id in GAMES else ():
        names += [f"{bot}:honest", f"{bot}:greedy"] if _has_styles(bot) else [bot]
    is_open = game.information == "perfect" and not game.simultaneous
    if is_open and game.num_players > 1 and game.num_actions is not None:
        names += ["mcts:100", "mcts:1000"]
    return tuple(name for name in names if name is not None)


def _has_styles(bot: str) -> bool:
    try:
        make_policy(bot)
    except ValueError:
        return True
    return False
