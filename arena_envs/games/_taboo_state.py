"""A state of taboo, how a game ends, and what an episode measures."""

from collections.abc import Sequence
from typing import NamedTuple

from arena_envs.games._taboo_cards import Card
from arena_envs.games._talk import Utterance
from arena_envs.games._word_match import said_among

GIVER, GUESSER = 0, 1
ENDS = ("broken", "said", "guessed", "missed")


class State(NamedTuple):
    """The word, all utterances in order, and one of `ENDS` after such an end."""

    word: str = ""
    said: tuple[Utterance, ...] = ()
    end: str = ""


def end_of(card: Card, said: Sequence[Utterance], adversarial: bool) -> str:
    """The end that the last utterance brings, one of `ENDS`; empty if it brings none."""
    speaker, last = (len(said) - 1) % 2, said[-1]
    if speaker == GIVER:
        is_broken = said_among(last.message, (card.word, *card.forbidden))
        return "broken" if is_broken else ""
    if last.move == "say":
        return "said" if said_among(last.message, (card.word,)) else ""
    if said_among(last.values[0], (card.word,)):
        return "guessed"
    return "missed" if adversarial else ""


def shared_return(state: State, num_rounds: int) -> float:
    """What both get in the cooperative game."""
    number = (len(state.said) + 1) // 2
    share = (num_rounds + 1 - number) / num_rounds
    return share if state.end == "guessed" else 0.0


def attacker_return(state: State) -> float:
    """What the attacker gets in the adversarial game; the defender gets its negative."""
    if not state.end:
        return 0.0
    return 1.0 if state.end in ("said", "missed") else -1.0


def measured(state: State) -> dict[str, float]:
    """Success, forbidden, uttered and words, as the page defines them."""
    counts = [len(said.message.split()) for said in state.said[::2]]
    return {
        "success": float(state.end == "guessed"),
        "forbidden": float(state.end == "broken"),
        "uttered": float(state.end == "said"),
        "words": sum(counts) / max(1, len(counts)),
    }
