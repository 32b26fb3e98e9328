"""Draws `docs/images/game.gif`: a model plays one deal before and after self-play, with the credit of each turn.

    python docs/build_moving.py                  # draws docs/images/game.json
    python docs/build_moving.py RUN              # writes it first, from a run of `arena train`

Both models play the same deal of Kuhn poker. The advantages are exact for the model that plays both
seats, Q(s, a) - Σ π(b|s) Q(s, b): its probabilities are read in all 12 information states.
"""

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from arena_envs import make, make_game
from arena_envs.solvers import action_values

GAME_ID = "kuhn_poker"
GAME = make_game(GAME_ID)
IMAGE = Path(__file__).parent / "images" / "game.gif"
RECORD = IMAGE.with_suffix(".json")
INK, FAINT, GOOD, BAD = "#22272e", "#6b7280", "#2a7f4f", "#b3402a"
HEADS = {0.33: "what the model reads", 0.66: "its reply", 0.79: "paid", 0.87: "credit"}
STAGES = {"start": "before self-play", "model": "after a minute of self-play"}


def record(run: Path) -> dict[str, Any]:
    """A deal that the start of a run and its model play, with exact advantages.

    It is the first one in which the start makes a mistake that the model does not make.
    """
    from arena_eval import exploitability
    from arena_eval.exploit import tabular
    from arena_trainers.lm import LMPolicy

    policies = {stage: LMPolicy.from_pretrained(str(run / stage)) for stage in STAGES}
    values = {}
    for stage, policy in policies.items():
        table, _ = tabular(policy, GAME)
        values[stage] = (table, action_values(GAME, table))
    for seed in range(1000):
        games = {
            stage: _game(policy, *values[stage], seed)
            for stage, policy in policies.items()
        }
        worst = {
            stage: min(turn["advantage"] for turn in turns)
            for stage, turns in games.items()
        }
        if worst["start"] < -0.5 and worst["model"] > -0.2:
            stages = [
                {
                    "stage": stage,
                    "nash_conv": exploitability(policies[stage], GAME).nash_conv,
                    "turns": games[stage],
                }
                for stage in STAGES
            ]
            return {"seed": seed, "stages": stages}
    raise RuntimeError(
        "no deal has a mistake of the start that the model does not make"
    )


def _game(policy: Any, table: Any, values: Any, seed: int) -> list[dict[str, Any]]:
    """The turns of a game, as the record keeps them."""
    from arena_eval.baselines import prepared
    from arena_wrappers import PromptWrapper, play
    from arena_wrappers.policies.protocol import own_prompt

    options = own_prompt(policy)
    player = prepared(policy, GAME)

    def env() -> PromptWrapper:
        return PromptWrapper(
            make(GAME_ID), reply_format=options.reply_format, rules=options.rules
        )

    (episode,) = play(env, [player, player], [seed], on_error="raise")
    board = make(GAME_ID)
    board.reset(seed=seed)
    turns = []
    for turn in episode.turns:
        key = (turn.seat, GAME.information_state(board.game_state, turn.seat))
        index = list(GAME.legal_actions(board.game_state)).index(turn.action)
        turns.append(
            {
                "seat": turn.seat,
                "text": board.observe(f"player_{turn.seat}")["text"],
                "reply": turn.reply,
                "action": int(turn.action),
                "reward": turn.reward,
                "advantage": float(
                    values[key][index] - np.dot(table[key], values[key])
                ),
            }
        )
        board.step(turn.action)
    return turns


def draw(path: Path) -> None:
    """Writes the picture of the record."""
    kept = json.loads(RECORD.read_text(encoding="utf-8"))
    pictures: list[Image.Image] = []
    times: list[int] = []
    for stage in kept["stages"]:
        board = make(GAME_ID, render_mode="rgb_array")
        board.reset(seed=kept["seed"])
        turns = stage["turns"]
        for number in range(len(turns) + 1):
            pictures.append(_picture(board.render(), stage, turns[:number]))
            times.append(1200 if number == 0 else 2600)
            if number < len(turns):
                board.step(turns[number]["action"])
        times[-1] = 4500
    tall = np.concatenate([np.asarray(picture) for picture in pictures])
    palette = Image.fromarray(tall).quantize(96)
    first, *later = (
        image.quantize(palette=palette, dither=Image.Dither.NONE) for image in pictures
    )
    first.save(path, save_all=True, append_images=later, duration=times, loop=0)


def _picture(board: Any, stage: dict[str, Any], turns: list[dict[str, Any]]) -> Any:
    """The table, and the turns so far."""
    figure = Figure(figsize=(9, 3.6), dpi=100, facecolor="white")
    left = figure.add_axes((0.02, 0.02, 0.29, 0.84))
    left.imshow(board[10:, 100:560])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.patch.set_alpha(0)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    for each in (left, axes):
        each.axis("off")
    title = f"{STAGES[stage['stage']]}: NashConv {stage['nash_conv']:.2f}"
    axes.text(0.03, 0.93, title, size=12, weight="bold", color=INK)
    for x, head in HEADS.items():
        axes.text(x, 0.82, head, size=10, weight="bold", color=INK)
    for row, turn in enumerate(turns):
        _draw_turn(axes, 0.68 - 0.21 * row, turn, row == len(turns) - 1)
    figure.savefig(buffer := BytesIO(), format="png")
    return Image.open(buffer).convert("RGB")


def _draw_turn(axes: Axes, middle: float, turn: dict[str, Any], is_last: bool) -> None:
    advantage, zero = turn["advantage"], 0.935
    color = GOOD if advantage > 0 else BAD
    weight = "bold" if is_last else "normal"
    text = turn["text"].replace(" Actions", "\nActions").replace(" Your", "\nYour")
    axes.text(0.33, middle, text, va="center", size=8.6, color=INK)
    axes.text(0.66, middle, turn["reply"], va="center", size=12, weight=weight)
    axes.text(0.79, middle, f"{turn['reward']:+g}", va="center", color=FAINT)
    axes.barh(middle, 0.05 * advantage, left=zero, height=0.08, color=color)
    axes.plot([zero, zero], [middle - 0.07, middle + 0.07], color=INK, linewidth=0.8)
    aside, side = (-0.008, "right") if advantage > 0 else (0.008, "left")
    number = f"{advantage:+.2f}"
    axes.text(zero + aside, middle, number, va="center", ha=side, size=9.5, color=color)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        text = json.dumps(record(Path(sys.argv[1])), indent=1)
        RECORD.write_text(f"{text}\n", encoding="utf-8")
    draw(IMAGE)
