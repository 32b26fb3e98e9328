"""Exact NashConv of several policies, such as the snapshots of a run."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_envs.env import GameEnv
from arena_envs.game import AnyGame
from arena_envs.solvers import TooLarge, information_states
from arena_trainers.evaluate.exploit import exploitability
from arena_trainers.evaluate.replies import given_prompts
from arena_wrappers import Policy

MAX_STATES, MAX_INFORMATION_STATES = 20_000, 1_000  # tic-tac-toe has 4,520


def nash_convs(
    policies: Sequence[Policy | str], env: GameEnv, prompt: Mapping[str, Any]
) -> dict[str, float]:
    """Exact NashConv of each policy, by name; of its legal replies.

    Policies without `action_probs` and those that read transcripts are left out. Empty in
    games that are not competitive, that have more than `MAX_INFORMATION_STATES`, or whose
    number of turns is limited.

    Args:
        policies: in the order of the result; strings are left out.
        env: the game.
        prompt: arguments of a `PromptWrapper`; they override the options of policies.
    """
    if env.max_turns is not None or not is_exact(env.game):
        return {}
    found = {}
    for policy in policies:
        if isinstance(policy, str) or not hasattr(policy, "action_probs"):
            continue
        (own,) = given_prompts([policy], prompt)
        if own is None or own.history == "state":
            scoring: Any = policy  # mypy knows of no attribute
            found[policy.name] = exploitability(scoring, env.game, own).nash_conv
    return found


def is_exact(game: AnyGame) -> bool:
    """Whether NashConv is exact and quick to compute."""
    if game.num_actions is None or game.kind != "competitive":
        return False
    try:
        return len(information_states(game, MAX_STATES)) <= MAX_INFORMATION_STATES
    except TooLarge:
        return False


def nash_conv_table(game: str, found: Mapping[str, float]) -> Table:
    """A row for each policy, in the order of `found`."""
    table = Table(
        title=escape(f"Exact NashConv: {game}"),
        caption="0 = an equilibrium; of the policy among its legal replies",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    table.add_column("policy", overflow="fold")
    table.add_column("NashConv", justify="right", no_wrap=True)
    for name, value in found.items():
        table.add_row(escape(name), f"{value:.4f}")
    return table
