"""Replies: every text gives an action or a reason, and one documented rule decides which."""

import random
import re
import time
from dataclasses import dataclass
from itertools import chain, islice, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import arena_envs
from arena_envs.game import BaseGame, random_states
from arena_wrappers import FORMATS, InvalidReply, PromptWrapper, parse_reply
from arena_wrappers.prompts import legal_texts

REPLIES = Path(__file__).with_name("replies.txt")
KUHN = arena_envs.make_game("kuhn_poker")
DEALT = KUHN.apply(KUHN.apply(KUHN.initial_state(), 2), 0)
REASONS = {"format", "illegal", "ambiguous", "overlong", "reasoning"}

PIECES = [
    *("<answer>", "</answer>", "<ANSWER>", "<answer", "< /answer>", "<answer/>"),
    *("<think>", "</think>", "<|im_end|>", "<|im_start|>system\n", "[INST]", "<s>"),
    *(r"\boxed{", r"\boxed{bet}", "}", "[", "]", "[bet]", "{", "Action: ", "**"),
    *("bet", "pass", "BET", " 1 ", "9" * 5000, "-0", "1e999", "٣", "²", "½", "\u22121"),
    *(
        "\ud800",
        "\x00",
        "\u202e",
        "\ufeff",
        "İ",
        "ß",
        "\n",
        "\r\n",
        "\t",
        "\\",
        "{}",
        "%s",
    ),
    *("1", "2", "play 1", "discard 0", "reveal rank 1 to player_1", "a1", "(0, 0)"),
]
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
PARSINGS = ("tolerant", "strict")
both_parsings = pytest.mark.parametrize("parsing", PARSINGS)
any_game = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20
)


MARKS = (
    *(
        ("<think>", "</think>"),
        ("<reasoning>\n", "\n</reasoning>\n"),
        ("[THINK]", "[/THINK]"),
    ),
    *(("<seed:think>", "</seed:think>"), ("<|channel>thought\n", "<channel|>")),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>",
    ),
)


@both_parsings
@pytest.mark.parametrize(("opening", "closing"), MARKS)
@pytest.mark.parametrize("shape", FORMATS)
def test_reasoning_in_the_marks_of_any_family_is_not_played(
    opening, closing, shape, parsing
):
    thought = FORMATS[shape].wrap("pass")
    for text, outcome in (
        (f"{opening}{thought}{closing}{FORMATS[shape].wrap('bet')}", 1),
        (f"{opening}{thought}", "reasoning"),
    ):
        got = parse_reply(KUHN, DEALT, text, shape, parsing=parsing)
        assert (got.reason if isinstance(got, InvalidReply) else got) == outcome


@both_parsings
@pytest.mark.parametrize("reply_format", FORMATS)
@any_game
@given(text=texts, seed=st.integers(0, 9))
def test_any_text_is_an_action_or_a_reason(
    game, walk, parsing, reply_format, text, seed
):
    for state in islice(walk(game, seed), 5):
        outcome = parse_reply(game, state, text, reply_format, parsing=parsing)
        if isinstance(outcome, InvalidReply):
            assert outcome.reason in REASONS
        elif game.num_actions is not None:
            assert outcome in game.legal_actions(state)


@both_parsings
@pytest.mark.parametrize("reply_format", FORMATS)
@pytest.mark.parametrize("id", ["mini_hanabi", "bargaining"])
def test_a_huge_reply_is_read_in_no_time(walk, parsing, reply_format, id):
    game = arena_envs.make_game(id)
    state = next(walk(game, 0))
    pieces = [
        *(r"\boxed{", "[", "{", "}", "Action: ", "<answer>", "</answer>", "<think>")
    ]
    for piece in [
        *pieces,
        "</think>",
        "9",
        " ",
        "\n",
        "\t",
        "é",
        "<",
        "bet ",
        "offer 5 ",
    ]:
        text = piece * (200_000 // len(piece))
        start = time.process_time()
        for reply in (
            text,
            f"<answer>{text[:4000]}</answer>",
            f"{text}<answer>bet</answer>",
        ):
            parse_reply(game, state, reply, reply_format, parsing=parsing)
        assert time.process_time() - start < 0.3, piece


def test_canonical_texts_parse_back(every_game, walk):
    game = every_game
    for state in chain(*(islice(walk(game, seed), 3) for seed in range(3))):
        legal = game.legal_actions(state)
        for action in legal[:: max(1, len(legal) // 12)]:
            text = game.action_text(state, action)
            for reply_format, parsing in product(FORMATS, PARSINGS):
                reply = FORMATS[reply_format].wrap(text)
                for said in (reply, f"<think>{reply} or not?</think>\n {reply}\n"):
                    read = parse_reply(game, state, said, reply_format, parsing=parsing)
                    assert read == action


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("<answer>bet</answer>", 1),
        ("I could pass. <answer>\n BET\t</answer> Good luck!", 1),
        ("<think><answer>pass</answer></think><answer>bet</answer>", 1),
        ("<think>a</think><think>b</think><answer>bet</answer>", 1),
        ("no reasoning tag </think><answer>bet</answer>", 1),
        ("bet", "format"),
        ("", "format"),
        ("<answer>bet", "format"),
        ("bet</answer>", "format"),
        ("</answer>bet<answer>", "format"),
        ("<ANSWER>bet</ANSWER>", "format"),
        ("<answer>bet</answer></think>", "format"),
        ("<think><answer>bet</answer>", "reasoning"),
        ("<think>a</think><think><answer>bet</answer>", "reasoning"),
        ("<answer>pass</answer> no: <answer>bet</answer>", "ambiguous"),
        ("<answer><answer>bet</answer></answer>", "ambiguous"),
        ("<answer>bet</answer></answer>", "ambiguous"),
        ("<answer></answer>", "illegal"),
        ("<answer>bet bet</answer>", "illegal"),
        ("<answer>bet or pass</answer>", "illegal"),
        ("<answer>1</answer>", "illegal"),
        ("<answer>" + "9" * 4000 + "</answer>", "illegal"),
        ("<answer>" + "9" * 4001 + "</answer>", "overlong"),
    ],
)
def test_one_answer_after_the_reasoning_counts(text, outcome):
    got = parse_reply(KUHN, DEALT, text, parsing="strict")
    assert got == outcome or got.reason == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("bet", 1),
        (" \n Pass ", 0),
        ("<think>pass?</think>bet", 1),
        ("", "format"),
        (" \n", "format"),
        ("I bet", "illegal"),
        ("bet.", "illegal"),
        ("<answer>bet</answer>", "illegal"),
        ("bet<|im_end|>", "illegal"),
        ("bet" * 2000, "overlong"),
    ],
)
def test_a_bare_reply_is_the_answer_and_nothing_else(text, outcome):
    got = parse_reply(KUHN, DEALT, text, "bare", parsing="strict")
    assert got == outcome or got.reason == outcome


@pytest.mark.parametrize(
    ("reply_format", "text", "outcome"),
    [
        ("boxed", r"\boxed{bet}", 1),
        ("boxed", r"So: \boxed{ BET } it is.", 1),
        ("boxed", r"\boxed{bet", "format"),
        ("boxed", "{bet}", "format"),
        ("boxed", r"\boxed{pass} no, \boxed{bet}", "ambiguous"),
        ("boxed", r"\boxed{\boxed{bet}}", "ambiguous"),
        ("boxed", r"\boxed{\text{bet}}", "illegal"),
        ("bracket", "[bet]", 1),
        ("bracket", "I say [Pass].", 0),
        ("bracket", "bet", "format"),
        ("bracket", "[bet", "format"),
        ("bracket", "]bet[", "format"),
        ("bracket", "[pass] or [bet]", "ambiguous"),
        ("bracket", "[[bet]]", "ambiguous"),
    ],
)
def test_other_formats_want_exactly_one_answer_too(reply_format, text, outcome):
    got = parse_reply(KUHN, DEALT, text, reply_format, parsing="strict")
    assert got == outcome or got.reason == outcome


@pytest.mark.parametrize(
    ("reply_format", "text", "outcome"),
    [
        ("answer", "<answer>pass</answer> no: <answer>bet</answer>", "ambiguous"),
        ("answer", "<answer>I bet!</answer>", 1),
        ("answer", "bet", 1),
        ("answer", "I pass? No.\n**Action:** `bet`", 1),
        ("answer", "My final answer is 'Bet'.", 1),
        ("boxed", r"\boxed{\text{bet}}", 1),
        ("bracket", "[pass]\nno, [bet]", "ambiguous"),
        ("bare", "I will bet.\n", 1),
        ("bare", "I could pass.\nI bet", 1),
        ("answer", "I bet or pass", "ambiguous"),
        ("answer", "<answer>pass</answer><answer>bet or pass</answer>", "ambiguous"),
        ("answer", "I better wait", "illegal"),
        ("answer", "", "format"),
        ("answer", "<answer> </answer>", "format"),
        ("answer", "<think>bet", "reasoning"),
        ("answer", "bet" * 2000, "overlong"),
    ],
)
def test_tolerant_parsing_follows_its_rules(reply_format, text, outcome):
    got = parse_reply(KUHN, DEALT, text, reply_format)
    assert got == outcome or got.reason == outcome


def test_the_longest_of_texts_that_stand_in_each_other_counts():
    game = arena_envs.make_game("mini_hanabi")
    state = game.initial_state()
    for card in (0, 0, 1, 2, 2, 3):
        state = game.apply(state, card)
    names = [game.action_text(state, a) for a in game.legal_actions(state)]
    named = names.index("reveal rank 1 to player_1")
    text = "Let me reveal rank 1 to player_1, then."
    assert parse_reply(game, state, text) == game.legal_actions(state)[named]


@pytest.mark.parametrize(
    ("id", "text", "outcome"),
    [
        ("public_goods", "I give 7, thanks.", "7"),
        ("public_goods", "That leaves me $10", "10"),
        *(("public_goods", text, "illegal") for text in ("I give 2.5", "-5", "20 %")),
        *(("public_goods", text, "illegal") for text in ("It is 2,000", "10/20")),
        ("public_goods", "5 of 20", "ambiguous"),
        ("colonel_blotto", "I choose 3 3 4", "3 3 4"),
        ("colonel_blotto", "I choose 10 0 0 10", "ambiguous"),  # the two overlap
        ("dots_and_boxes", "First a1-b1", "a1-b1"),
        ("dots_and_boxes", "The line a1-b1-c1", "ambiguous"),
    ],
)
def test_part_of_a_number_is_no_action_and_two_that_overlap_are_two(id, text, outcome):
    game = arena_envs.make_game(id)
    got = parse_reply(game, game.initial_state(), text, "bare")
    if isinstance(got, InvalidReply):
        assert got.reason == outcome
    else:
        assert game.action_text(game.initial_state(), got) == outcome


def test_what_is_read_strictly_is_read_tolerantly_alike(walk):
    for text in (
        "<answer>bet</answer>",
        "<answer> PASS</answer>",
        "<answer>x</answer>",
    ):
        strict = parse_reply(KUHN, DEALT, text, parsing="strict")
        tolerant = parse_reply(KUHN, DEALT, text)
        same = isinstance(strict, InvalidReply) and strict.reason == tolerant.reason
        assert same or strict == tolerant


def natural_replies():
    """The replies of `replies.txt`: game, action that is legal, reply, what it is read as."""
    about: tuple[str, ...] = ()
    for line in REPLIES.read_text(encoding="utf-8").splitlines():
        if head := re.fullmatch(r"\[(\S+): ([^]]+)\]", line):
            about = (head[1], head[2])
        elif " => " in line:
            reply, _, read = line.rpartition(" => ")
            yield *about, reply, read


def test_natural_replies_are_read_as_the_table_says():
    rows = list(natural_replies())
    assert len(rows) >= 300
    states, wrong = {}, []
    for id, action, reply, read in rows:
        game = arena_envs.make_game(id)
        if (id, action) not in states:
            states[id, action] = next(
                state
                for seed in range(50)
                for state, player in random_states(game, random.Random(seed))
                if player >= 0 and action in legal_texts(game, state)
            )
        state = states[id, action]
        got = parse_reply(game, state, reply.replace("\\n", "\n"))
        is_bad = isinstance(got, InvalidReply)
        said = got.reason if is_bad else game.action_text(state, got)
        if said != read.replace("\\n", "\n"):
            wrong.append((id, reply, read, said))
    assert wrong == []


def test_the_wrapper_parses_as_it_is_told():
    env = PromptWrapper(arena_envs.make("kuhn_poker"))
    env.reset(seed=0)
    env.step("I bet!")
    assert env.env.actions[-1] == 1
    assert env.prompt_options["parsing"] == "tolerant"
    with pytest.raises(ValueError, match="unknown parsing 'lax'"):
        PromptWrapper(arena_envs.make("kuhn_poker"), parsing="lax")


def test_a_reason_quotes_nothing_of_the_reply():
    got = parse_reply(KUHN, DEALT, "<answer>obey me</answer>")
    assert "obey" not in got.detail


@dataclass(frozen=True)
class Captures(BaseGame[str, int]):
    """As in chess, two legal actions differ in case alone."""

    num_actions = 3
    names = ("bxc3", "Bxc3", "O-O")

    def current_player(self, state):
        return 0

    def legal_actions(self, state):
        return (0, 1, 2)

    def action_text(self, state, action):
        return self.names[action]

    def parse(self, state, text):
        return int(text)  # raises ValueError where it should raise IllegalAction


def test_exact_text_comes_before_folded_text():
    replies = ["bxc3", "Bxc3", " Bxc3 ", "o-o", "2"]
    assert [parse_reply(Captures(), "", r, "bare") for r in replies] == [0, 1, 1, 2, 2]
    assert parse_reply(Captures(), "", "BXC3", "bare").reason == "ambiguous"


@pytest.mark.parametrize("text", ["7", "-1", "x", "9" * 4000])
def test_what_the_game_reads_must_still_be_legal(text):
    assert parse_reply(Captures(), "", text, "bare").reason == "illegal"


def test_a_language_game_reads_free_text(telephone, walk):
    state = next(walk(telephone, 0))
    said = parse_reply(telephone, state, "<answer> I like Cats. </answer>")
    assert telephone.action_text(state, said) == "I like Cats."
    assert parse_reply(telephone, state, "x" * 301, "bare").reason == "illegal"


def test_an_unknown_format_names_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'answer'"):
        parse_reply(KUHN, DEALT, "bet", "anser")


def test_a_reply_among_many_actions_is_read_fast_in_every_new_state():
    """Twenty questions has 180 actions, and another set of them after each turn."""
    game, rng = arena_envs.make_game("twenty_questions"), random.Random(0)
    asked = [(s, p) for s, p in random_states(game, rng) if p >= 0]
    start = time.process_time()
    for state, _ in asked:
        assert parse_reply(game, state, "I would say hello.").reason == "illegal"
    assert len(asked) > 10
    assert time.process_time() - start < 0.05 * len(asked)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"action": "bet", "reason": "pass would be weak"}', 1),
        ('I could pass.\n```json\n{"reason": "pass?", "Action": "BET"}\n```', 1),
        ("{'action': 'bet', 'reason': 'pass would be weak',}", 1),
        ('<answer>{"final_answer": "bet", "alternatives": ["pass"]}</answer>', 1),
        ('{"name": "act", "arguments": {"move": "bet", "why": "pass"}}', 1),
        (r'{"reason": "\"action\": \"pass\"", "action": "bet"}', 1),
        ('{"action": "bet", "action": "pass"}', "ambiguous"),
        ('{"action": "bet", "answer": "pass"}', "ambiguous"),
        ('{"action": "bet"} or {"action": "pass"}', "ambiguous"),
        ('{"action": null, "reason": "bet"}', "format"),
        ('{"action": "raise", "reason": "bet"}', "illegal"),
    ],
)
def test_a_named_field_of_a_json_object_decides(text, outcome):
    read = parse_reply(KUHN, DEALT, text)
    assert getattr(read, "reason", read) == outcome


def test_the_other_fields_of_an_object_are_no_message(walk):
    game = arena_envs.make_game("bargaining")
    state = next(s for s in walk(game, 0) if game.current_player(s) >= 0)
    text = '{"thought": "My value is 10", "action": "offer 40", "message": "Half?"}'
    assert parse_reply(game, state, text, "bare").message == "Half?"
    assert parse_reply(game, state, '{"action": "offer 40", "why": "x"}').message == ""
