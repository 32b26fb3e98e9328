"""Checks of scenes: they show a seat no more than it knows, and can be drawn."""

import random

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
)
from arena_envs.scenes import (
    Cards,
    Grid,
    Scene,
    Table,
    Talk,
    Track,
    scene_of,
    svg,
    text_of,
)
from arena_envs.scenes.shapes import TONES
from arena_envs.testing.knowledge import first_unequal, hidden_twins
from arena_envs.testing.sample import Sample, demand

NUM_STATES, NUM_DRAWN = 60, 4  # states whose scenes are compared, and that are drawn


def check_scenes(sample: Sample) -> None:
    """Scenes of states that a seat cannot tell apart are the same for this seat."""
    game, rng = sample.game, random.Random(0)
    states = [s for s in sample.states() if game.current_player(s) != CHANCE]
    for state in rng.sample(states, min(len(states), NUM_STATES)):
        for seat in range(game.num_players):
            _compare(game, state, game.resample(state, seat, rng), seat)
    for state, twin, seat in hidden_twins(sample, rng, 2)[:NUM_STATES]:
        _compare(game, state, twin, seat)
    for state in (*rng.sample(states, min(len(states), NUM_DRAWN)), states[-1]):
        for viewer in (None, *range(game.num_players)):
            scene = scene_of(game, state, viewer)
            _check_tones(scene)
            for drawing in (svg(scene), text_of(scene)):
                demand(
                    bool(drawing), "a scene can be drawn", scene, fix="Show something."
                )


def _compare(game: AnyGame, state: AnyState, twin: AnyState, seat: int) -> None:
    if game.current_player(state) == TERMINAL:
        seat_returns = [game.returns(each)[seat] for each in (state, twin)]
        if seat_returns[0] != seat_returns[1]:
            return  # the seat is paid, so it can tell them apart
    scene, twin_scene = (scene_of(game, each, seat) for each in (state, twin))
    demand(
        scene == twin_scene,
        "what a seat cannot know shows in no scene of the seat",
        *first_unequal(
            text_of(scene).split("\n"),
            text_of(twin_scene).split("\n"),
            (scene, twin_scene),
        ),
        fix="Read information_state instead of the state where something is hidden.",
    )


def _check_tones(scene: Scene) -> None:
    """Every color of a scene is known to the renderers."""
    tones: list[str] = []
    for shape in scene.shapes:
        rule = "a scene is made of the shapes of arena_envs.scenes"
        demand(isinstance(shape, Grid | Cards | Table | Track | Talk), rule, shape)
        if isinstance(shape, Grid | Table):
            tones += [cell.tone for row in shape.rows for cell in row]
        elif isinstance(shape, Track):
            tones += [cell.tone for cell in shape.items]
        elif isinstance(shape, Cards):
            tones += [card.tone for card in shape.cards]
    for tone in tones:
        rule = f"a tone is one of {', '.join(filter(None, TONES))}"
        demand(tone in TONES, rule, tone)
