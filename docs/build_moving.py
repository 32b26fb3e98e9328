"""Draws `docs/images/game.gif`: a game, what its players thought, and the credit of each turn.

    python docs/build_moving.py

In half of their turns two players of tic-tac-toe look for wins and threats and say what they see; in
the others they place at random. The game is recorded play. The advantages are exact for these two
players, Q(s, a) - Σ π(b|s) Q(s, b), and so are the values that they compare.
"""

from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from arena_envs import make, make_game
from arena_envs.solvers import InfosetTable, action_values, information_states
from arena_wrappers import PromptWrapper, ScriptedPolicy, TurnRequest, play

IMAGE = Path(__file__).parent / "images" / "game.gif"
GAME, LOOKS = make_game("tic_tac_toe"), 0.5
INK, GOOD, BAD = "#22272e", "#2a7f4f", "#b3402a"
HEADS = {0.34: "what the player wrote", 0.78: "reward", 0.87: "advantage"}


class Shown(NamedTuple):
    """A turn as it is drawn."""

    seat: int
    reply: str
    reward: float
    advantage: float


def wins(state: Any) -> list[int]:
    """Actions with which the seat to move wins at once."""
    seat = GAME.current_player(state)
    after = {action: GAME.apply(state, action) for action in GAME.legal_actions(state)}
    return [action for action, end in after.items() if GAME.returns(end)[seat] > 0]


def seen(state: Any) -> tuple[str, list[int]]:
    """What a player that looks sees, and the actions between which it then draws."""
    legal = list(GAME.legal_actions(state))
    if winning := wins(state):
        return f"{name(state, winning[0])} makes three in a row.", winning[:1]
    elsewhere = {action: (legal[0], legal[-1])[action == legal[0]] for action in legal}
    threats = [
        action
        for action, elsewhere_action in elsewhere.items()
        if action != elsewhere_action
        and action in wins(GAME.apply(state, elsewhere_action))
    ]
    if threats:
        elsewhere_action = 1 - GAME.current_player(state)
        return (
            f"player_{elsewhere_action} would win at {name(state, threats[0])}.",
            threats[:1],
        )
    return "I see no win and no threat.", legal


def name(state: Any, action: int) -> str:
    """The text of an action."""
    return str(GAME.action_text(state, action))


def reply(request: TurnRequest) -> str:
    """A turn of a player: a sentence, and the action."""
    rng, sentence = Random(request.seed), "I place without looking."
    choices = list(GAME.legal_actions(request.state))
    if rng.random() < LOOKS:
        sentence, choices = seen(request.state)
    return f"{sentence} {request.wrap(name(request.state, rng.choice(choices)))}"


def policy_table() -> InfosetTable:
    """The probabilities of the players' actions in every state."""
    probabilities = {}
    for key, state in information_states(GAME).items():
        legal, (_, choices) = list(GAME.legal_actions(state)), seen(state)
        probabilities[key] = [
            (1 - LOOKS) / len(legal) + LOOKS * (action in choices) / len(choices)
            for action in legal
        ]
    return probabilities


def env() -> PromptWrapper:
    """The game with pictures."""
    return PromptWrapper(make("tic_tac_toe", render_mode="rgb_array"))


def recorded() -> tuple[list[Any], list[Shown]]:
    """Pictures and turns of the first game with a block, a mistake and a winner."""
    table = policy_table()
    values = action_values(GAME, table)
    for seed in range(1000):
        player = ScriptedPolicy(reply)
        (episode,) = play(env, [player, player], [seed], on_error="raise")
        board = env()
        board.reset(seed=seed)
        frames, turns = [board.render()], []
        for turn in episode.turns:
            state = board.game_state
            key = (turn.seat, GAME.information_state(state, turn.seat))
            action_value = values[key][
                list(GAME.legal_actions(state)).index(turn.action)
            ]
            credit = action_value - float(np.dot(table[key], values[key]))
            turns.append(Shown(turn.seat, turn.reply, turn.reward, credit))
            board.step(turn.reply)
            frames.append(board.render())
        text = " ".join(turn.reply for turn in turns)
        is_mixed = min(turn.advantage for turn in turns) < -0.3
        if is_mixed and "would win" in text and "makes three" in text:
            return frames, turns
    raise RuntimeError("no game has a block, a mistake and a winner")


def draw(path: Path) -> None:
    """Writes the picture."""
    frames, turns = recorded()
    pictures = [picture(frame, turns[:number]) for number, frame in enumerate(frames)]
    palette = pictures[-1].quantize(64)
    first, *later = (image.quantize(palette=palette) for image in pictures)
    times = [1200, *[2200] * (len(later) - 1), 6000]
    first.save(path, save_all=True, append_images=later, duration=times, loop=0)


def picture(board: Any, turns: list[Shown]) -> Image.Image:
    """The board, and the turns that led to it."""
    figure = Figure(figsize=(9, 3.6), dpi=100, facecolor="white")
    left = figure.add_axes((0.01, 0.04, 0.3, 0.92))
    left.imshow(board)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.patch.set_alpha(0)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for each in (left, axes):
        each.axis("off")
    for x, head in HEADS.items():
        axes.text(x, 0.93, head, size=10, weight="bold", color=INK)
    for row, turn in enumerate(turns):
        _draw_turn(axes, 0.85 - 0.108 * row, turn, row == len(turns) - 1)
    figure.savefig(buffer := BytesIO(), format="png")
    return Image.open(buffer).convert("RGB")


def _draw_turn(axes: Axes, middle: float, turn: Shown, is_last: bool) -> None:
    reply_text, zero = turn.reply.replace(" <answer>", "\n<answer>"), 0.925
    color = GOOD if turn.advantage > 0 else BAD
    text = f"{'XO'[turn.seat]}  {reply_text.splitlines()[0]}\n     {reply_text.splitlines()[1]}"
    weight = "bold" if is_last else "normal"
    axes.text(0.34, middle, text, va="center", size=8.6, color=INK, weight=weight)
    axes.text(0.79, middle, f"{turn.reward:+g}" if turn.reward else "0", va="center")
    axes.barh(middle, 0.06 * turn.advantage, left=zero, height=0.06, color=color)
    axes.plot([zero, zero], [middle - 0.05, middle + 0.05], color=INK, linewidth=0.8)
    aside, side = (-0.008, "right") if turn.advantage > 0 else (0.008, "left")
    number = f"{turn.advantage:+.2f}"
    axes.text(zero + aside, middle, number, va="center", ha=side, size=9.5, color=color)


if __name__ == "__main__":
    draw(IMAGE)
