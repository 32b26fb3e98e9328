"""Bots: policies that read states instead of text.

A bot is a function of the game, the state and a generator. It returns a legal action of the
seat to move; in a language game, any that `parse` reads. Its actions do not depend on earlier calls; its only randomness is the generator;
it can be pickled. `make_bot` makes a bot from a string, which also names it as an opponent:

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
| `othello_greedy`          | a corner, else the action that turns the most discs    | Othello            |
| `hanabi_convention`       | a playable card, else a hint at one, else a discard    | Hanabi             |
| `always_cooperate`        | action 0                                               | repeated matrices  |
| `always_defect`           | action 1                                               | repeated matrices  |
| `tit_for_tat`             | the last action of the other                           | repeated matrices  |
| `generous_tit_for_tat:P`  | tit for tat, but action 0 with probability P (1/3)     | repeated matrices  |
| `grim_trigger`            | action 0 until another seat defects                    | repeated matrices  |
| `win_stay_lose_shift`     | action 0 after a round in which all chose alike        | repeated matrices  |
| `information_gain`        | the action whose answer is the most uncertain          | hidden secrets     |
| `question_tree`           | an optimal tree of questions, by exact search          | hidden secrets     |
| `sokoban_search`          | a shortest solution, by A* search                      | Sokoban            |
| `bidder:STYLE`            | by STYLE: `honest`, `greedy` or `silent`               | auction            |
| `negotiator:STYLE`        | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | negotiation        |
| `persuader:STYLE`         | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | persuasion         |
| `dealer:STYLE`            | by STYLE: `honest`, `greedy` or `silent`               | deal or no deal    |
| `promiser:STYLE`          | by STYLE: `honest`, `greedy` or `silent`               | social dilemma     |
| `maze_walker:STYLE`       | by STYLE: `honest`, `greedy` or `silent`               | collaborative maze |
| `referrer:STYLE`          | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | referential        |
| `spy:STYLE`               | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | codenames          |
| `taboo:STYLE`             | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | taboo              |
| `werewolf_player:STYLE`   | by STYLE: `honest`, `greedy` or `silent`               | Werewolf           |
| `say_selector:STYLE`      | by STYLE: `honest`, `greedy`, `silent` or `optimal`    | Say-Select         |
| `secret_holder:STYLE`     | by STYLE: `honest`, `greedy` or `silent`               | secret keeper      |

Games of hidden secrets are `guess_number`, `twenty_questions` and `wordle`.
Bots choose at random among equally good actions, so repeated games differ. If a bot knows its
probabilities, `action_probs` returns them. `arena_wrappers.make_policy` reads these strings and
`noisy:P(STRING)` around any of them, which plays a random legal action with probability P.

`minimax` and `cfr` refuse games of more than 200,000 states, as a player waits for the action.
The limit of the solvers is higher, and an argument.
"""

import random
from typing import Any, Protocol

from arena_envs.doors import Door
from arena_envs.game import AnyGame

__all__ = ["BOTS", "Bot", "bots", "make_bot"]


class Bot(Protocol):
    """Chooses actions by the state."""

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        """A legal action of the seat to move."""


bots: Door[Bot] = Door(
    "bot",
    "",
    {
        name: f"arena_envs.bots.{path}"
        for name, path in {
            "random": "simple:Uniform",
            "first": "simple:First",
            "constant": "simple:Constant",
            "mcts": "mcts:MCTS",
            "ismcts": "ismcts:ISMCTS",
            "minimax": "solved:Minimax",
            "cfr": "solved:CFR",
            "core_cfr": "solved:CoreCFR",
            "win_or_block": "greedy:WinOrBlock",
            "othello_greedy": "greedy:OthelloGreedy",
            "hanabi_convention": "hanabi:HanabiConvention",
            "always_cooperate": "repeated:AlwaysCooperate",
            "always_defect": "repeated:AlwaysDefect",
            "tit_for_tat": "repeated:TitForTat",
            "generous_tit_for_tat": "repeated:GenerousTitForTat",
            "grim_trigger": "repeated:GrimTrigger",
            "win_stay_lose_shift": "repeated:WinStayLoseShift",
            "information_gain": "questions:InformationGain",
            "question_tree": "questions:QuestionTree",
            "sokoban_search": "sokoban:SokobanSearch",
            "bidder": "auction:Bidder",
            "negotiator": "negotiation:Negotiator",
            "persuader": "persuasion:Persuader",
            "dealer": "deal:Dealer",
            "promiser": "dilemma:Promiser",
            "maze_walker": "maze:MazeWalker",
            "referrer": "referential:Referrer",
            "spy": "codenames:Spy",
            "taboo": "taboo:TabooPlayer",
            "werewolf_player": "werewolf:WerewolfPlayer",
            "say_selector": "say_select:SaySelector",
            "secret_holder": "secrets:SecretHolder",
        }.items()
    },
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
