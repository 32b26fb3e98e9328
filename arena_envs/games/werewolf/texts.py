"""Texts of Werewolf: the rules, the public story, and what a seat knows."""

from collections.abc import Iterator, Sequence

from arena_envs import talk
from arena_envs.game import CHANCE, TERMINAL, counted
from arena_envs.games.werewolf import state as states
from arena_envs.games.werewolf.state import (
    NIGHT,
    NO_WOLF,
    SEER,
    TALK,
    VOTE,
    WOLF,
    Event,
    State,
)

KILL, *DAY_SPEECH = (talk.Move(name) for name in states.SPOKEN)
VOTING = talk.Move("vote", message="no")
BUDGET = 12_000  # characters of quoted messages in a text; each takes at most 12 per character

TIMES = ("", "once", "twice")
TASKS = {
    "kill": "name the player to kill",
    "see": "choose a player to see",
    "save": "choose a player to save",
    "sleep": "sleep",
    TALK: "accuse or clear a player, or pass",
    VOTE: "vote for a player",
}
PAST = {
    "kill": "named {} to kill",
    "save": "saved {}",
    "accuse": "accused {}",
    "clear": "cleared {}",
    "pass": "passed",
    "vote": "voted for {}",
}


def observed(state: State, seat: int, player: int, max_message: int) -> Iterator[str]:
    """The lines of an observation."""
    known = states.known_roles(state, seat)
    role = f", {article(known[seat])}" if len(known) > seat else ""
    alive = " and alive" if seat in state.living else " and dead"
    yield f"You are player_{seat}{role}{alive}. {_stage(state, seat, player)}"
    yield f"Living: {named(state.living)}."
    yield from _knowledge(state, seat, known)
    yield from _chronicle(state)
    shown = [
        each
        for each in states.known_events(state, seat)
        if each.said.move not in ("vote", "see", "sleep")
        or _is_running_vote(state, each)
    ]
    yield from _transcript(shown, seat, max(3, BUDGET // (12 * max_message)))


def named(seats: Sequence[int]) -> str:
    """Seats by name."""
    return ", ".join(f"player_{seat}" for seat in seats) or "nobody"


def article(role: str) -> str:
    """A role with its article.

    >>> article("seer"), article("wolf"), article("no wolf")
    ('the seer', 'a wolf', 'no wolf')
    """
    if role == NO_WOLF:
        return role
    return f"{'a' if role in ('wolf', 'villager') else 'the'} {role}"


def _stage(state: State, seat: int, player: int) -> str:
    if player == TERMINAL:
        winner = "village wins" if states.village_wins(state) else "wolves win"
        return f"The game is over: the {winner}."
    if player == CHANCE:
        drawn = "roles are" if not state.past else "vote is tied, and a name is"
        return f"The {drawn} being drawn."
    when = f"Night {state.day}." if state.phase == NIGHT else f"Day {state.day}."
    what = {NIGHT: "choose", TALK: "speak", VOTE: "vote"}[state.phase]
    if player != seat:
        return f"{when} player_{player} is to {what}."
    is_night = state.phase == NIGHT
    task = states.NIGHT_MOVES[state.roles[seat]] if is_night else state.phase
    return f"{when} You are to move: {TASKS[task]}."


def _knowledge(state: State, seat: int, known: Sequence[str]) -> Iterator[str]:
    if len(known) < len(state.living):
        return
    if known[seat] == WOLF and len(state.wolves) > 1:
        yield f"The wolves are {named(state.wolves)}."
    if known[seat] == SEER:
        told = {seat, *(death.seat for death in state.deaths)}
        found = [
            f"player_{other} is {article(role)}"
            for other, role in enumerate(known)
            if role and other not in told
        ]
        if found:
            yield f"You have seen that {', '.join(found)}."


def _chronicle(state: State) -> Iterator[str]:
    """The public story of nights and votes that are over."""
    died = {(death.day, death.phase): death for death in state.deaths}
    for day in range(1, state.day + 1):
        if day < state.day or state.phase != NIGHT:
            yield f"Night {day}: {_fate(died, day, NIGHT, 'died')}."
        votes = [e for e in state.past if e.day == day and e.phase == VOTE]
        if votes and not _is_running_vote(state, votes[0]):
            cast = ", ".join(
                f"player_{each.seat} for player_{each.said.values[0]}" for each in votes
            )
            yield f"Day {day} votes: {cast}. {_fate(died, day, VOTE, 'was voted out')}."


def _fate(
    died: dict[tuple[int, str], states.Death], day: int, phase: str, how: str
) -> str:
    if not (death := died.get((day, phase))):
        return "nobody died" if phase == NIGHT else "The vote is tied"
    return f"player_{death.seat}, {article(death.role)}, {how}"


def _is_running_vote(state: State, each: Event) -> bool:
    return each.phase == state.phase == VOTE and each.day == state.day


def _transcript(shown: Sequence[Event], seat: int, latest: int) -> Iterator[str]:
    def did(turn: int) -> str:
        each = shown[turn]
        who = "you" if each.seat == seat else f"player_{each.seat}"
        target = f"player_{each.said.values[0]}" if each.said.values else ""
        return f"{who} {PAST[each.said.move].format(target)}"

    def told(turn: int) -> str:
        each = shown[turn]
        when = "Night" if each.phase == NIGHT else "Day"
        return f"{when} {each.day}: {did(turn)}"

    def brief(turn: int) -> str:
        return "" if shown[turn].said.move == "pass" else did(turn)

    said = [each.said for each in shown]
    yield from talk.transcript(
        said, seat, told, latest=latest, brief=brief, num_listed=None
    )


def rules_text(roles: Sequence[str], num_statements: int) -> str:
    """The rules, but for how to write a reply."""
    others = [role for role in ("seer", "doctor") if role in roles]
    special = "".join(f" a {role}," for role in others)
    num_wolves = roles.count(WOLF)
    wolves = (
        "a wolf," if num_wolves == 1 else f"{num_wolves} wolves, who know each other,"
    )
    villagers = counted(roles.count("villager"), "villager")
    others_know = "Everybody knows" if num_wolves == 1 else "Everybody else knows"
    start = (
        f"This is Werewolf, for {len(roles)} players. Chance draws who is who: "
        f"{wolves}{special} and {villagers}. {others_know} only its own role. "
        "Night 1 comes first, then day 1, night 2 and so on."
    )
    end = (
        ("Then" if num_statements else "By day")
        + ' all vote, such as "vote player_1"; votes are shown when all have voted. The '
        "player with the most votes is out; chance chooses among the tied. The role of a dead player is "
        "told to all, and the dead do not move. The village, that is all but the wolves, wins when "
        "no wolf lives. The wolves win when they are at least as many as the others. Members of "
        "the team that wins score 1, dead or alive, and the others -1."
    )
    return " ".join([start, *_night_rules(roles), *_talk_rules(num_statements), end])


def _night_rules(roles: Sequence[str]) -> Iterator[str]:
    has_pack = roles.count(WOLF) > 1
    yield "At night every living player moves, in the order of the numbers."
    if has_pack:
        yield "Wolves see the moves of wolves; all other moves at night are hidden."
    else:
        yield "Nobody sees the moves."
    yield 'A wolf names a victim, who is no wolf, such as "kill player_1".'
    if has_pack:
        yield (
            "If the wolves name different victims, the living wolf with the highest number "
            "decides."
        )
    if SEER in roles:
        yield (
            'The seer asks about a player, such as "see player_1", and learns whether it is a wolf.'
        )
    if "doctor" in roles:
        yield (
            'The doctor protects a player, itself if it likes, such as "save player_1"; if this '
            "is the victim, nobody dies."
        )
    yield 'Villagers answer "sleep".'


def _talk_rules(num_statements: int) -> Iterator[str]:
    if num_statements:
        yield (
            f"By day every living player speaks {TIMES[num_statements]} in the order "
            'of the numbers: "accuse player_1" says that this is a wolf, "clear player_1" that it '
            'is none, and "pass" says neither. None of it needs to be true.'
        )


def how_to_write(num_statements: int, num_wolves: int, max_message: int) -> str:
    """The paragraph of the rules about messages."""
    names = [*DAY_SPEECH] if num_statements else []
    how = talk.how_to_write((*names, VOTING), max_message, "the other players")
    if num_wolves == 1 or not max_message:
        return how
    if num_statements:
        return (
            f'{how} With "kill", wolves may speak in the same way; only wolves read it.'
        )
    return talk.how_to_write((KILL, VOTING), max_message, "the other wolves")
