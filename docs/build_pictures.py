"""Draws `docs/images/credit.png`: what was read, said and paid in an episode, and its credit.

    python docs/build_pictures.py

A player that chooses at random meets tit for tat in 1,024 episodes of a prisoner's dilemma of
three rounds. The picture shows one episode, and the advantages that `mars` gives its turns.
Everything in it is computed here.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from arena_credit import TurnBatch, estimate
from arena_envs import make
from arena_wrappers import PromptWrapper, RandomPolicy, make_policy, play
from arena_wrappers.records import Turn

IMAGE = Path(__file__).parent / "images" / "credit.png"
SHOWN = ["Cooperate", "Defect", "Defect"]
INK, PALE, GOOD, BAD = "#22272e", "#f4f1ea", "#2a7f4f", "#b3402a"
LEFT = (0.012, 0.40, 0.615, 0.70, 0.835)  # of the five columns


def env() -> PromptWrapper:
    """Three rounds, with the legal actions but without the rules in the prompt."""
    game = make("iterated_prisoners_dilemma", num_rounds=3)
    return PromptWrapper(game, rules=False)


def turns_with_credit() -> list[tuple[Turn, float]]:
    """The turns of player_0 in the episode that is drawn, with their advantages."""
    policies = [RandomPolicy(), make_policy("tit_for_tat")]
    episodes = play(env, policies, range(1024))
    turns = [(i, t) for i, e in enumerate(episodes) for t in e.turns if t.seat == 0]
    zeros = np.zeros(len(turns), int)
    batch = TurnBatch(
        reward=np.array([turn.reward for _, turn in turns]),
        episode=np.array([number for number, _ in turns]),
        turn=np.array([turn.index for _, turn in turns]),
        game=zeros,
        seat=zeros,
        group=zeros,
    )
    credit = estimate("mars", batch, pool=("game", "seat", "turn")).advantage
    replies = [f"<answer>{action}</answer>" for action in SHOWN]
    for number in range(len(episodes)):
        rows = np.flatnonzero(batch.episode == number)
        if [turns[row][1].reply for row in rows] == replies:
            return [(turns[row][1], float(credit[row])) for row in rows]
    raise RuntimeError(f"nobody played {SHOWN}")


def draw(path: Path) -> None:
    """Writes the picture."""
    drawn_turns = turns_with_credit()
    figure = Figure(figsize=(10, 4.6), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    heads = ("prompt of player_0", "reply", "reward", "return-to-go", "advantage")
    for left, head in zip(LEFT, heads, strict=True):
        axes.text(left, 0.95, head, size=11, weight="bold", color=INK)
    largest = max(abs(advantage) for _, advantage in drawn_turns)
    to_go = sum(turn.reward for turn, _ in drawn_turns)
    for row, (turn, advantage) in enumerate(drawn_turns):
        bottom, share = 0.63 - 0.305 * row, advantage / largest
        _draw_turn(axes, bottom, turn, to_go, advantage, share)
        to_go -= turn.reward
    figure.savefig(path, dpi=140)


def _draw_turn(
    axes: Axes, bottom: float, turn: Turn, to_go: float, advantage: float, share: float
) -> None:
    """One row of the picture; `share` is the advantage over the largest."""
    middle = bottom + 0.14
    box = FancyBboxPatch(
        (LEFT[0], bottom + 0.015),
        0.365,
        0.255,
        boxstyle="round,pad=0,rounding_size=0.012",
        facecolor=PALE,
        edgecolor="#d8d2c4",
    )
    axes.add_patch(box)
    prompt = turn.messages[-1]["content"]
    axes.text(LEFT[0] + 0.012, middle, prompt, va="center", size=8.6, linespacing=1.35)
    axes.text(LEFT[1], middle, turn.reply, va="center", size=8.6, family="monospace")
    axes.text(LEFT[2], middle, f"{turn.reward:+g}", va="center", size=13)
    axes.text(LEFT[3], middle, f"{to_go:+g}", va="center", size=13)
    color, zero = (GOOD if advantage > 0 else BAD), 0.91
    axes.barh(middle, 0.075 * share, left=zero, height=0.09, color=color)
    axes.plot([zero, zero], [middle - 0.08, middle + 0.08], color=INK, linewidth=0.8)
    aside, side = (-0.012, "right") if share > 0 else (0.012, "left")
    text = f"{advantage:+.2f}"
    axes.text(zero + aside, middle, text, va="center", ha=side, size=11, color=color)


if __name__ == "__main__":
    IMAGE.parent.mkdir(exist_ok=True)
    draw(IMAGE)
