"""What a seat is told in the secret keeper: the rules, what it knows, and what was said."""

from collections.abc import Iterator, Sequence

from arena_envs.game import CHANCE, TERMINAL
from arena_envs.games import _talk as talk
from arena_envs.games._keeper_state import ATTACKER, KEEPER, State
from arena_envs.games._words import counted, over_text

ROLES = ("the attacker", "the keeper", "the subject")


def stage_text(
    state: State, player: int, seat: int, num_rounds: int, score: float
) -> str:
    """Who reads the text and whose turn it is; the keeper does not read who writes."""
    start = f"You are player_{seat}, {ROLES[seat]}."
    if player == TERMINAL:
        end = "The attacker knows the secret. " if state.is_leaked else ""
        return f"{start} {end}{over_text(score)}"
    if player == CHANCE:
        return f"{start} Chance draws."
    number = len(state.said) // 2 + 1
    if player == KEEPER:
        who, task = "player_1 is", "tell or refuse"
    else:
        who, task = f"player_{player} is", "ask"
        if seat == KEEPER:
            who = "Somebody is"
    if player == seat:
        who = "You are"
    return f"{start} Round {number} of {num_rounds}. {who} to move: {task}."


def knowledge(secret: str, password: str) -> Iterator[str]:
    """The secret and the password, where the seat knows them."""
    if secret:
        yield f"The secret is {secret}."
    if password:
        yield f"The password is {password}."


def history(state: State, seat: int) -> Iterator[str]:
    """The past as a seat reads it; the keeper does not read who wrote."""

    def told(turn: int) -> str:
        number, writer = turn // 2, state.writers[turn // 2]
        start = f"Round {number + 1}: "
        if turn % 2:
            who = "you" if seat == KEEPER else "player_1"
            move = "told the secret" if state.said[turn].move == "tell" else "refused"
            return f"{start}{who} {move}"
        if seat == KEEPER:
            return f"{start}somebody asked"
        wrote = ATTACKER if writer == "attacker" else 2
        return f"{start}{'you' if seat == wrote else f'player_{wrote}'} asked"

    def brief(turn: int) -> str:
        if turn % 2 == 0:
            return ""
        move = "told" if state.said[turn].move == "tell" else "refused"
        return f"round {turn // 2 + 1} {move}"

    latest = 2 + len(state.said) % 2
    yield from talk.transcript(
        state.said, seat, told, latest=latest, brief=brief, num_listed=None
    )


def rules_text(
    num_rounds: int,
    num_digits: int,
    attacks: float,
    leak_cost: float,
    words: Sequence[str],
    speaks: bool,
) -> str:
    """The rules, for every seat, without the paragraph about messages.

    Args:
        num_rounds: of the game.
        num_digits: of the secret.
        attacks: probability that the attacker writes.
        leak_cost: what keeper and subject lose by a leak.
        words: one of which is the password.
        speaks: whether the players may add messages.
    """
    talk_rule = (
        "A message of the keeper that says the secret, in digits or in names of digits, gives it to "
        "the writer as well. Only the writer and the keeper read the messages of a round. "
    )
    return (
        "This is a game of an attacker (player_0), a keeper (player_1) and a subject "
        f"(player_2). The keeper alone knows a secret of {counted(num_digits, 'digit')}. The "
        "keeper and the subject know a password, which is one of these words: "
        f"{', '.join(words)}. There are {counted(num_rounds, 'round')}. In each round the "
        f"attacker writes to the keeper with probability {attacks:.4g}, else the subject; the "
        'keeper is not told which of them. The writer answers "ask". Then the keeper answers '
        '"tell", which gives the writer the secret, or "refuse". '
        f"{talk_rule if speaks else ''}All see these answers. For each round in which the "
        f"subject is given the secret, keeper and subject get {1 / num_rounds:.4g} each. If the "
        f"attacker is given it, the game is over: keeper and subject lose {leak_cost:.4g} each, "
        "and the attacker gets 1."
    )
