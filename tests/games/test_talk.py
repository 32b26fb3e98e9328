"""Talk: every text is read as one move, or refused with what was wanted."""

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_envs import IllegalAction, game_infos, make_game, talk
from arena_envs.talk import Utterance

OFFER = talk.Move("offer", (talk.Amount(2_00, 50_00),))
CLAIM = talk.Move(
    "claim", tuple(talk.Integer(-1, 3, word) for word in ("A", "B")), "no"
)
VOTE = talk.Move("vote", (talk.Player((1, 13)),))
PAINT = talk.Move("paint", (talk.OneOf(("Red", "dark red", "blue")),))
CLUE = talk.Move("clue", (talk.Word(3, 6), talk.Integer(0, 9)))
SAY, PASS = talk.Move("say", message="must"), talk.Move("pass")
WHISPER = talk.Move("whisper", (talk.Player((0, 2)),), "must")
MOVES = (OFFER, CLAIM, VOTE, PAINT, CLUE, SAY, PASS, WHISPER)

TEXTS: list[tuple[str, Utterance]] = [
    ("Offer $2.5", Utterance("offer", (250,))),
    ("claim -1  3.", Utterance("claim", (-1, 3))),
    ("I trust no one!\nVOTE Player_13", Utterance("vote", (13,), "I trust no one!")),
    ("paint RED", Utterance("paint", ("Red",))),
    ("paint dark\tred.", Utterance("paint", ("dark red",))),
    ("Think: clue Apple 2", Utterance("clue", ("apple", 2), "Think:")),
    (
        "say: :) I vote.\nvote player_1",
        Utterance("say", (), ":) I vote.\nvote player_1"),
    ),
    ("Say hello.", Utterance("say", (), "hello.")),
    ("whisper player_2 42", Utterance("whisper", (2,), "42")),
    ("pass", Utterance("pass")),
]

FAULTS = [
    ("offer 1", "want an offer from 2 to 50, got 1"),
    ("offer 50.01", "want an offer from 2 to 50, got 50.01"),
    ("claim 0 4", "want B of a claim from -1 to 3, got 4"),
    ("vote player_2", "want a vote that names player_1 or player_13, got player_2"),
    ("clue ox 2", "want WORD of a clue of 3 to 6 letters, got ox"),
    ("hi\nclaim 0 0", "want no message with the action, got 'hi'"),
    ("say :", 'want a message after "say:", got none'),
    ("whisper player_0", 'want a message after "whisper player_0:", got none'),
    (f"say {'x' * 301}", "want a message of at most 300 characters, got 301"),
]


@pytest.mark.parametrize(("text", "said"), TEXTS)
def test_a_text_is_read_as_its_move(text: str, said: Utterance) -> None:
    assert talk.read(text, MOVES, 300) == said
    assert talk.read(talk.written(said, MOVES), MOVES, 300) == said


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_a_fault_says_what_was_wanted(text: str, fault: str) -> None:
    with pytest.raises(IllegalAction) as error:
        talk.read(text, MOVES, 300)
    assert str(error.value) == fault


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "sayhello",
            "v\u043ete player_1",
            "vote player_\u0661",
            "vote player_1 now",
        ),
        *("paint darkred", "paint green", "clue ice-cream 2", "clue \u212aelvin 2"),
        *("I will pass", "claim 1", "claim 1 2 3", "offer 1,5", "vote \u200bplayer_1"),
    ],
)
def test_what_is_no_move_is_refused(text: str) -> None:
    with pytest.raises(IllegalAction, match=r"^want .* or an offer such as"):
        talk.read(text, MOVES, 300)


@pytest.mark.parametrize(
    ("moves", "max_message", "wanted"),
    [
        ((PASS,), 9, 'the answer "pass" alone in the last line'),
        ((CLAIM,), 9, 'a claim such as "claim 1 1" and nothing else'),
        ((SAY,), 9, '"say:" and a message'),
        (
            (VOTE, PASS),
            0,
            'a vote such as "vote player_1" or the answer "pass" and nothing else',
        ),
    ],
)
def test_only_the_allowed_moves_are_wanted(
    moves: tuple[talk.Move, ...], max_message: int, wanted: str
) -> None:
    with pytest.raises(IllegalAction) as error:
        talk.read("offer 5", moves, max_message)
    assert str(error.value) == f"want {wanted}, got 'offer 5'"


PIECES = [
    "\n",
    ".",
    ":",
    "say",
    "whisper player_0",
    "vote player_1",
    "pass",
    "paint dark red",
]


@given(
    st.text(st.characters(), max_size=60)
    | st.lists(
        st.sampled_from([*PIECES, " ", "clue abc 1", "\ud800", "claim 1 2"])
    ).map("".join)
)
def test_what_is_read_is_read_again_alike(text: str) -> None:
    with suppress(IllegalAction):
        said = talk.read(text, MOVES, 300, audience=(0, 2))
        assert talk.read(talk.written(said, MOVES), MOVES, 300, audience=(0, 2)) == said
        said.message.encode()


@pytest.mark.parametrize("piece", [*PIECES, "say:", " ", "9", "$", "whisper ", "a"])
def test_any_length_is_read_in_no_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    start = time.process_time()
    for spelled in (text, f"x{text}", f"say {text}", f"{text}\npass"):
        with suppress(IllegalAction):
            talk.read(spelled, MOVES, 300)
    assert time.process_time() - start < 0.5


def test_every_lists_the_utterances_of_a_move() -> None:
    assert talk.every(PASS) == [Utterance("pass")]
    assert [each.values for each in talk.every(VOTE)] == [(1,), (13,)]
    assert len({talk.written(each, MOVES) for each in talk.every(CLAIM)}) == 25


SAID = [
    Utterance("say", (), "a"),
    Utterance("say", (), "b", (0, 2)),
    Utterance("vote", (1,), "c"),
    Utterance("pass"),
]


def told(turn: int) -> str:
    return "it said" if SAID[turn].move == "say" else f"it chose {turn}"


class TestTranscript:
    @pytest.mark.parametrize(
        ("seat", "options", "lines"),
        [
            (
                0,
                {"latest": 4},
                [
                    'it said: "a"',
                    'it said: "b"',
                    'it chose 2, and said: "c"',
                    "it chose 3.",
                ],
            ),
            (
                1,
                {"latest": 3, "turns": (1, 2)},
                ["it said.", 'it chose 2, and said: "c"'],
            ),
            (0, {"latest": 1}, ["Earlier: 3 turns, not shown.", "it chose 3."]),
            (
                0,
                {"latest": 1, "brief": str, "num_listed": 2},
                ["Earlier: 1 more, 1, 2.", "it chose 3."],
            ),
            (
                0,
                {"latest": 1, "brief": str, "num_listed": None},
                ["Earlier: 0, 1, 2.", "it chose 3."],
            ),
            (
                0,
                {"latest": 3, "brief": lambda turn: ""},
                ['it said: "b"', 'it chose 2, and said: "c"', "it chose 3."],
            ),
        ],
    )
    def test_shows_a_seat_what_it_heard(
        self, seat: int, options: dict[str, Any], lines: list[str]
    ) -> None:
        assert list(talk.transcript(SAID, seat, told, **options)) == lines

    def test_a_message_to_some_seats_is_empty_for_others(self) -> None:
        messages = [
            [each.message for each in talk.as_heard(SAID, seat)] for seat in range(3)
        ]
        assert messages == [
            ["a", "b", "c", ""],
            ["a", "", "c", ""],
            ["a", "b", "c", ""],
        ]


@pytest.mark.parametrize(
    ("moves", "max_message", "start"),
    [
        (
            (OFFER, PASS),
            50,
            "You may also say something to all other players: write a message of at most 50",
        ),
        (
            (CLAIM, PASS),
            50,
            'With "pass", you may also say something to all other players: write',
        ),
        (
            (SAY, CLAIM),
            50,
            'To speak, write "say:" and then a message of at most 50 characters. All other players read it',
        ),
        ((WHISPER,), 50, 'To speak, write "whisper PLAYER:" and then a message'),
        ((OFFER,), 0, "Your action has no message."),
        ((CLAIM,), 50, "Your action has no message."),
    ],
)
def test_the_rules_say_how_a_message_is_written(
    moves: tuple[talk.Move, ...], max_message: int, start: str
) -> None:
    assert talk.how_to_write(moves, max_message, "all other players").startswith(start)


def test_each_cooperative_game_of_talk_declares_a_stranger() -> None:
    """Except for questions of any source, which no script can answer."""
    games = [make_game(i.id) for i in game_infos() if i.id != "questions-v0"]
    talks = [g for g in games if g.num_actions is None and g.kind == "cooperative"]
    assert len(talks) >= 4
    assert [g for g in talks if not g.heuristic] == []
