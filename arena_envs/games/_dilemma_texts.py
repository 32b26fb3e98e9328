"""What a seat is told in a social dilemma: the rules, the choices, and what was said."""

from collections.abc import Iterator, Sequence

from arena_envs.games import _talk as talk
from arena_envs.games._words import counted


def choices_lines(
    rounds: Sequence[Sequence[int]],
    paid: Sequence[int],
    seat: int,
    names: Sequence[str],
) -> Iterator[str]:
    """The choices of each player in past rounds and its points, the own ones first.

    Args:
        rounds: the choices of all seats, by round.
        paid: points of each seat.
        seat: who reads the lines.
        names: of the choices.
    """
    if not rounds:
        return
    num = len(paid)
    for other in (*range(seat, num), *range(seat)):
        chose = ", ".join([names[choices[other]] for choices in rounds])
        who, has = ("You", "have") if other == seat else (f"player_{other}", "has")
        yield f"{who} chose {chose} and {has} {counted(paid[other], 'point')}."


def said_lines(
    said: Sequence[talk.Utterance],
    speakers: Sequence[int],
    seat: int,
    num_in_round: int,
) -> Iterator[str]:
    """The talk as a seat reads it.

    Args:
        said: all utterances.
        speakers: the seats that said them.
        seat: who reads the lines.
        num_in_round: utterances in a round.
    """

    def told(turn: int) -> str:
        who = "you" if speakers[turn] == seat else f"player_{speakers[turn]}"
        move = said[turn].move
        did = f"promised to {said[turn].values[0]}" if move == "promise" else ""
        did = did or ("said" if move == "say" else "passed")
        return f"Round {turn // num_in_round + 1}: {who} {did}"

    def brief(turn: int) -> str:
        if said[turn].move != "promise":
            return ""
        who = "you" if speakers[turn] == seat else f"player_{speakers[turn]}"
        number = turn // num_in_round + 1
        return f"{who} promised to {said[turn].values[0]} (round {number})"

    latest = len(set(speakers))
    return talk.transcript(said, seat, told, latest=latest, brief=brief)


def rules_text(
    num_players: int, num_rounds: int, talk_turns: int, payoffs: Sequence[int]
) -> str:
    """The rules, for every seat, without the paragraph about messages.

    Args:
        num_players: of the game.
        num_rounds: of the game.
        talk_turns: of each player in a round.
        payoffs: for each other player: both cooperate, only the other defects, only the other
            cooperates, both defect.
    """
    both, alone, defects, none = payoffs
    once = num_rounds == 1
    others = "the other player" if num_players == 2 else "each other player"
    chooses = "Then all players choose"
    if not talk_turns:
        chooses = "All players choose" if once else "In each round all players choose"
    start = "" if once else f" of {counted(num_rounds, 'round')}"
    last = "" if once else ", summed over all rounds"
    return (
        f"This is a game{start} for {num_players} players. "
        f"{_talk_text(num_players, talk_turns, once)}{chooses} at the same time, "
        'without seeing what the others choose: "choose cooperate" or "choose defect". '
        f"Then everybody sees the choices. You are paid once for {others}: if you both "
        f"cooperate, you get {both}; if you cooperate and the other defects, {alone}; if "
        f"you defect and the other cooperates, {defects}; if you both defect, {none}. Your "
        f"score is what you are paid{last}."
    )


def _talk_text(num_players: int, talk_turns: int, once: bool) -> str:
    if not talk_turns:
        return ""
    times = "once" if talk_turns == 1 else f"{talk_turns} times"
    start = "All" if once else "In each round all"
    order = "player_0 first"
    if not once:
        order = "player_0 first in round 1, player_1 first in round 2, and so on"
    return (
        f"{start} players speak {times}, in turn, {order}; everybody hears everything. "
        '"promise cooperate" and "promise defect" say what you will choose; nothing binds '
        'you to it. "pass" says nothing. '
    )
