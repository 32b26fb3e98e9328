"""How good a policy is, in numbers that can be trusted."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_envs.game import AnyGame
from arena_envs.solvers import Table, information_states, nash_conv
from arena_wrappers import PromptOptions, ScoringPolicy, TurnRequest, messages
from arena_wrappers.episodes import Episode


class Exploitability(NamedTuple):
    """How much a policy loses to best responses, exactly.

    Attributes:
        nash_conv: sum over seats of what a best response would gain; 0 at equilibrium.
        exploitability: `nash_conv` per seat.
        illegal_mass: mean over information states of the mass on replies that are not
            canonical legal ones; the policy is renormalised without them.
    """

    nash_conv: float
    exploitability: float
    illegal_mass: float


def exploitability(
    policy: ScoringPolicy, game: AnyGame, options: PromptOptions | None = None
) -> Exploitability:
    """Exact exploitability of a policy in self-play, by enumerating the game.

    Every information state is prompted once, as in play with `history="state"`.

    Args:
        policy: a policy with `action_probs`.
        game: the rules; at most a million states.
        options: what the prompts contain.

    Raises:
        ValueError: the game is too large, or a language game: a policy may say more than
            its finite core, and what that earns cannot be enumerated.

    >>> from arena_envs import make_game
    >>> from arena_wrappers import RandomPolicy
    >>> round(exploitability(RandomPolicy(), make_game("kuhn_poker")).nash_conv, 6)
    0.916667
    """
    if game.num_actions is None:
        raise ValueError(f"{game!r} is a language game, which cannot be enumerated")
    table, illegal = tabular(policy, game, options or PromptOptions())
    conv = nash_conv(game, table)
    mass = sum(illegal) / len(illegal)
    return Exploitability(conv, conv / game.num_players, mass)


def tabular(
    policy: ScoringPolicy, game: AnyGame, options: PromptOptions
) -> tuple[Table, list[float]]:
    """A policy as a table of its action probabilities, and its illegal masses."""
    found = information_states(game)
    requests = [
        TurnRequest(
            episode=0,
            turn=0,
            seat=seat,
            game=game,
            state=state,
            messages=messages(game, state, seat, options),
            context_ids=(),
            legal=[game.action_text(state, a) for a in game.legal_actions(state)],
            seed=0,
            reply_format=options.reply_format,
        )
        for (seat, _), state in found.items()
    ]
    scored = policy.action_probs(requests)
    table = {key: probs for key, (probs, _) in zip(found, scored, strict=True)}
    return table, [illegal for _, illegal in scored]


def legal_rate(episodes: Sequence[Episode]) -> float:
    """Valid replies per reply, of all seats."""
    turns = [turn for episode in episodes for turn in episode.turns]
    return sum(turn.invalid is None for turn in turns) / len(turns)
