"""The gallery of the site: a picture of every game, with filters; `build_reference.py` calls it."""

import html
import json
from pathlib import Path

import arena_envs
from arena_envs.game import AnyGame
from arena_envs.registration import GameInfo
from arena_envs.scenes import svg
from arena_studio.web.pictures import middle_scene
from arena_wrappers.prompts.pages import page_title
from build_games import stems_of

HEAD = """\
# Gallery

A position of every game in the middle of an episode, as the player to move sees it. Bots play: the game's own where it has one.

"""
FACTS = ("kind", "players", "information", "pays")


def write_gallery(folder: Path) -> None:
    """Writes `gallery.md` and its pictures."""
    images = folder / "images"
    images.mkdir()
    stems, cards = stems_of(), []
    values: dict[str, set[str]] = {fact: set() for fact in FACTS}
    for info in arena_envs.game_infos():
        if info.id in stems:
            game = arena_envs.make_game(info.id)
            facts = dict(zip(FACTS, _facts(info, game), strict=True))
            for fact, value in facts.items():
                values[fact].add(value)
            (images / f"{info.id}.svg").write_text(svg(middle_scene(info.id, game)))
            cards.append(card(info, game, f"../games/{stems[info.id]}.md", facts))
    choices = "".join(_choice(fact, sorted(values[fact])) for fact in FACTS)
    form = f'<form class="gallery-filters" aria-label="Filters">{choices}</form>\n\n'
    cards_html = "\n".join(cards)
    body = f'<div class="gallery" markdown="1">\n{cards_html}\n</div>\n'
    (folder / "gallery.md").write_text(HEAD + form + body)


def _facts(info: GameInfo, game: AnyGame) -> tuple[str, str, str, str]:
    pays = "at the end" if game.pays == "end" else "on the way"
    return info.kind, str(info.num_players), info.information, pays


def card(info: GameInfo, game: AnyGame, page: str, facts: dict[str, str]) -> str:
    """A game in the gallery, as HTML around a link in Markdown."""
    title = html.escape(page_title(game))
    facts_text = f"{facts['kind']}, players: {facts['players']}, {facts['information']} information"
    return (
        f'<div class="card" markdown="1" data-facts="{html.escape(json.dumps(facts))}">\n'
        f"![{title}](images/{info.id}.svg){{ loading=lazy }}\n\n"
        f"[{title} `{info.id}`]({page})\n\n{facts_text}\n</div>\n"
    )


def _choice(fact: str, values: list[str]) -> str:
    options = "".join(f"<option>{html.escape(value)}</option>" for value in values)
    return (
        f'<label>{fact} <select name="{fact}"><option value="">all</option>{options}'
        "</select></label> "
    )
