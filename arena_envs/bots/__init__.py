"""Bots: policies that read states instead of text.

A bot is a function of the game, the state and a generator. It returns a legal action of the
seat to move; in a language game, any that `parse` reads. Its actions do not depend on earlier
calls; its only randomness is the generator; it can be pickled. An attribute `is_exact`, True, says
that it plays what a solver found. `make_bot` makes a bot from a string, which also names it as an opponent:

| String                    | Plays                                                  | In games           |
|---------------------------|--------------------------------------------------------|--------------------|
| `random`                  | each legal action with the same probability            | all                |
| `first`                   | the first legal action                                 | all                |
| `constant:K`              | action K (in language games, text K), else the first   | all                |
| `mcts:N`                  | tree search with N simulations (100)                   | nothing hidden     |
| `ismcts:N`                | tree search over information states (100)              | with `resample`    |
| `minimax:DEPTH`           | a best action by a search of DEPTH actions             | nothing hidden     |
| `cfr:N`                   | the average policy of N iterations of CFR+ (1000)      | enumerable         |
| `core_cfr:N`              | `cfr:N` on the legal actions of a language game        | with `core_state`  |
| `win_or_block`            | a winning action, else one that blocks another's win   | nothing hidden     |
| `bidder:STYLE`            | by STYLE: `honest`, `greedy` or `silent`               | auction            |
| `spy:STYLE`               | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | codenames          |
| `maze_walker:STYLE`       | by STYLE: `honest`, `greedy` or `silent`               | collaborative maze |
| `dealer:STYLE`            | by STYLE: `honest`, `greedy` or `silent`               | deal or no deal    |
| `information_gain`        | the action whose answer is the most uncertain          | hidden secrets     |
| `question_tree`           | an optimal tree of questions, by exact search          | hidden secrets     |
| `hanabi_convention`       | a playable card, else a hint at one, else a discard    | Hanabi             |
| `always_cooperate`        | action 0                                               | repeated matrices  |
| `always_defect`           | action 1                                               | repeated matrices  |
| `tit_for_tat`             | the last action of the other                           | repeated matrices  |
| `generous_tit_for_tat:P`  | tit for tat, but action 0 with probability P (1/3)     | repeated matrices  |
| `grim_trigger`            | action 0 until another seat defects                    | repeated matrices  |
| `win_stay_lose_shift`     | action 0 after a round in which all chose alike        | repeated matrices  |
| `negotiator:STYLE`        | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | negotiation        |
| `othello_greedy`          | a corner, else the action that turns the most discs    | Othello            |
| `persuader:STYLE`         | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | persuasion         |
| `referrer:STYLE`          | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | referential        |
| `say_selector:STYLE`      | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | Say-Select         |
| `secret_holder:STYLE`     | by STYLE: `honest`, `greedy` or `silent`               | secret keeper      |
| `promiser:STYLE`          | by STYLE: `honest`, `greedy` or `silent`               | social dilemma     |
| `sokoban_search`          | a shortest solution, by A* search                      | Sokoban            |
| `taboo:STYLE`             | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | taboo              |
| `werewolf_player:STYLE`   | by STYLE: `honest`, `greedy` or `silent`               | Werewolf           |

Games of hidden secrets are `guess_number`, `twenty_questions` and `wordle`.
Bots choose at random among equally good actions, so repeated games differ. If a bot knows its
probabilities, `action_probs` returns them. `arena_wrappers.make_policy` reads these strings and
`noisy:P(STRING)` around any of them, which plays a random legal action with probability P.

`minimax` and `cfr` refuse games of more than 200,000 states, as a player waits for the action.
The limit of the solvers is higher, and an argument.
"""

import random
from typing import Any, Protocol

from arena_envs.catalogue import GAMES
from arena_envs.game import AnyGame
from arena_envs.registry import Registry


class Bot(Protocol):
    """Chooses actions by the state."""

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        """A legal action of the seat to move."""


_HERE = "arena_envs.bots"
bots: Registry[Bot] = Registry(
    "bot",
    "",
    {  # the bots of games stand in the catalogue
        "random": f"{_HERE}.simple:Uniform",
        "first": f"{_HERE}.simple:First",
        "constant": f"{_HERE}.simple:constant",
        "mcts": f"{_HERE}.mcts:MCTS",
        "ismcts": f"{_HERE}.mcts:ISMCTS",
        "minimax": f"{_HERE}.solved:Minimax",
        "cfr": f"{_HERE}.solved:CFRBot",
        "core_cfr": f"{_HERE}.solved:CoreCFR",
        "win_or_block": f"{_HERE}.simple:WinOrBlock",
        **{
            name: f"arena_envs.games.{path}"
            for listed in GAMES.values()
            for name, path in listed.bots.items()
        },
    },
    max_number=10_000,  # simulations and iterations
)
BOTS = tuple(bots.built_in)


def make_bot(spec: str) -> Bot:
    """The bot that a string names: `"kind"` or `"kind:argument"`.

    Raises:
        ValueError: unknown kind, or an argument that the kind does not take.

    >>> make_bot("mcts:50")
    MCTS(num_simulations=50, exploration=2.0)
    """
    return bots.make(spec)
