"""Checks of texts and features, and of what `parse` reads."""

import json
import random
import re

import numpy as np

from arena_envs.game import (
    MAX_TEXT,
    AnyAction,
    AnyGame,
    AnyState,
    IllegalAction,
)
from arena_envs.testing.sample import Sample, demand

MAX_RULES = 100_000  # characters
UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
MAX_READ = 20  # actions of a state whose texts are read back
MARKS = "<>[]{},"
MARKUP = ("<|im_start|>", "<turn|>", "[|user|]", "[INST]", "</think>", "/no_think")
ARABIC = str.maketrans("0123456789", "".join(chr(0x660 + n) for n in range(10)))
HOSTILE = (
    "",
    " ",
    "no such action",
    "x" * 100_000,
    "9" * 5_000,
    "-1",
    "1e999",
    "nan",
    "\0\ud800\N{ZERO WIDTH SPACE}",
    "{0.__class__}",
    "%s%n",
    "\\",
    "[]",
    "(" * 1_000,
    "\N{ARABIC-INDIC DIGIT ONE}",
    "\N{SUPERSCRIPT TWO}",
    "\n\n",
    "'; DROP TABLE",
    "None",
)


def check_texts(sample: Sample) -> None:
    """Observed texts are ASCII of bounded length; features are finite float32 of one shape."""
    game = sample.game
    shape = game.features(game.initial_state(), 0).shape
    for seat in range(game.num_players):
        rules = game.rules(seat)
        demand(bool(rules.strip()), "rules has a text for every seat", rules)
        rule = "rules hold no control characters and no half surrogate pairs"
        demand(not UNPRINTED.search(rules), rule, rules)
        rule = f"rules have at most {MAX_RULES} characters"
        demand(len(rules) <= MAX_RULES, rule, len(rules))
        demand(
            rules == game.rules(seat),
            "rules are the same at every call",
            rules,
            fix="Compute rules from the seat and the parameters alone.",
        )
    for state in sample.states():
        for seat in range(game.num_players):
            _check_text(game.observe(state, seat))
            features = game.features(state, seat)
            demand(features.dtype == np.float32, "features are float32", features.dtype)
            constant = features.shape == shape and features.ndim == 1
            demand(constant, "features are vectors of one length", features.shape)
            finite = bool(np.isfinite(features).all())
            demand(finite, "features are finite", features)


def _check_text(text: str) -> None:
    demand(
        text.strip() == text != "",
        "a text is not empty, and no blanks surround it",
        text,
    )
    demand(text.isascii(), "a text is ASCII", text)
    rule = f"a text has at most {MAX_TEXT} characters"
    demand(
        len(text) <= MAX_TEXT,
        rule,
        len(text),
        fix="Shorten the text, such as by leaving out the oldest turns.",
    )


def check_parse(sample: Sample) -> None:
    """Texts of actions are distinct, and are read back whatever their white space."""
    game, rng = sample.game, random.Random(0)
    for state in sample.states():
        legal = game.legal_actions(state)
        texts = [game.action_text(state, action) for action in legal]
        folded = {text.casefold() for text in texts}
        pairs = list(zip(legal, texts, strict=True))
        if len(pairs) > MAX_READ:
            pairs = rng.sample(pairs, MAX_READ)
        for action, text in pairs:
            rule = "action_text is ASCII on one line, with single blanks"
            demand(
                text == " ".join(text.split()) != "" and text.isascii(),
                rule,
                text,
                fix="Write action texts such as 'take 1 from pile 2'.",
            )
            rule = (
                f"action_text has none of {MARKS}, which lists and replies are made of"
            )
            demand(not set(MARKS) & set(text), rule, text)
            for spelling in (text, f"\n {text.replace(' ', '   ')}\t"):
                _check_reading(game, state, spelling, action)
            if len(folded) == len(texts):  # in chess bxc3 is not Bxc3
                _check_reading(game, state, text.upper(), action)
        demand(
            len(set(texts)) == len(texts), "no two legal actions have one text", texts
        )


def _check_reading(
    game: AnyGame, state: AnyState, text: str, action: AnyAction
) -> None:
    rule = f"parse returns action {action!r} for its text"
    try:
        parsed = game.parse(state, text)
    except IllegalAction as error:
        fix = "Accept the text in any case and with any white space, as BaseGame.parse does."
        demand(False, f"{rule}: {text!r}", error, fix=fix)
    else:
        is_same = parsed == action and type(parsed) is type(action)
        fix = "Return the legal action itself, as an int."
        demand(is_same, f"{rule}: {text!r}", parsed, fix=fix)


def check_strictness(sample: Sample) -> None:
    """A text that names two actions, denies one or has odd digits is no action."""
    game = sample.game
    if game.num_actions is None:  # where words around an action may be a message
        return
    for state in sample.states(5):
        texts = [
            game.action_text(state, action) for action in game.legal_actions(state)
        ]
        for text, next_text in zip(texts, texts[1:][:5], strict=False):
            for reply in (
                f"{text} or {next_text}",
                f"not {text}",
                f"{text} {next_text} {text}",
            ):
                _check_refused(game, state, reply)
        for text in texts[:5]:
            for reply in _with_odd_digits(text):
                _check_refused(game, state, reply)


def _with_odd_digits(text: str) -> set[str]:
    """The text with numbers that `int` reads, though not all of it is ASCII digits."""
    last = re.sub("[0-9](?=[^0-9]*$)", lambda digit: digit[0].translate(ARABIC), text)
    grouped = re.sub("[0-9]+", r"0_\g<0>", text)
    return {text.translate(ARABIC), last, grouped} - {text}


def _check_refused(game: AnyGame, state: AnyState, reply: str) -> None:
    try:
        parsed = game.parse(state, reply)
    except IllegalAction:
        return
    demand(
        False,
        f"parse refuses {reply!r:.80}",
        parsed,
        fix="Compare the whole text with the texts of legal actions, as BaseGame.parse does.",
    )


NUM_READ_BACK = 8  # states in which odd texts are read back
NUM_MIXED = 60  # texts of random words that are read back in each of them
WORDS = (
    r': = . , * " - is not the nothing say say: Hello I 42 ... \boxed{ } <answer> ####'
)
UNSEEN = "\n \r\n \t \u2028 \x85 \x1c \u00a0 \ufeff \u212a \u0130 \ufb01 \ud83d \ude00"
ODD = (*WORDS.split(" "), *UNSEEN.split(" "))  # of which odd texts are made
AROUND = (  # noqa: SIM905 # {text} is that of an action, {move} its first word
    "{move}|{move}:|{move}: is|{move} is|{move}: .|{move}: {move}|{move} {text}|{move}: {text}"
    "|{text}: {text}|{text}\n{text}|{text}. {text}|{text}:|{text}: :|**{text}**|{text}!"
    '|"{text}"|Hello:: {text}|Hello!!{text}|Hello\n\n{text}\n\n|{text}: Hello\n{text}'
    "|Hello\u2028there\n{text}|a\r\nb\x1cc\n{text}|{text}\u00a0|\ud83d\n{text}"
    "|\ud83d\ude00: {text}|{text}: \x00|{move} =\n{text}|{text} is {move}"
).split("|")


def check_read_back(sample: Sample) -> None:
    """What a game reads of any text, it reads again of the text that a record has of it."""
    game, rng = sample.game, random.Random(0)
    states = [s for s in sample.states() if game.legal_actions(s)]
    for state in rng.sample(states, min(len(states), NUM_READ_BACK)):
        legal = game.legal_actions(state)
        actions = {0: legal[0], 1: legal[-1], 2: rng.choice(legal)}
        for text in (game.action_text(state, action) for action in actions.values()):
            move = text.split()[0]
            odd = (*ODD, text, move, *text.split())
            mixed = (
                rng.choice(("", " ")).join(rng.choices(odd, k=rng.randint(2, 6)))
                for _ in range(NUM_MIXED)
            )
            for reply in (
                *(each.format(text=text, move=move) for each in AROUND),
                *mixed,
            ):
                _check_read_back(game, state, reply)


def _check_read_back(game: AnyGame, state: AnyState, reply: str) -> None:
    try:
        action = game.parse(state, reply)
    except IllegalAction:
        return
    record = json.loads(json.dumps(game.action_text(state, action)))
    try:
        reread = game.parse(state, record)
    except IllegalAction as error:
        reread = error
    rule = "parse reads back the text of what it has read, as a replay does"
    demand(
        reread == action,
        rule,
        reply,
        record,
        action,
        reread,
        fix="Make action_text write all that parse reads.",
    )


def check_hostile_texts(sample: Sample) -> None:
    """A text that names no legal action raises IllegalAction and nothing else."""
    game = sample.game
    for state in sample.states(2):
        for text in HOSTILE:
            check_refusal(game, state, text)
        if game.num_actions is None:
            for action in game.legal_actions(state)[:1]:
                for text in HOSTILE:
                    reply = f"{text[:100]}\n{game.action_text(state, action)}"
                    check_refusal(game, state, reply)
                for markup in MARKUP:
                    for reply in (
                        markup,
                        f"{markup}\n{game.action_text(state, action)}",
                    ):
                        _check_markup(game, state, reply, markup)


def _check_markup(game: AnyGame, state: AnyState, reply: str, markup: str) -> None:
    """Checks that the words of a seat reach the other seats without their markup."""
    speaker = game.current_player(state)
    try:
        after = game.apply(state, game.parse(state, reply))
    except IllegalAction:
        return
    for seat in set(range(game.num_players)) - {speaker}:
        observation = game.observe(after, seat)
        rule = f"observe breaks {markup!r} in what another seat wrote"
        demand(
            markup not in observation,
            rule,
            observation,
            fix="Show the words of another seat by arena_envs.hostile.quoted.",
        )


def check_refusal(game: AnyGame, state: AnyState, text: str) -> None:
    """`parse` answers a text with a legal action or raises `IllegalAction`."""
    legal = list(game.legal_actions(state))
    texts = [game.action_text(state, action) for action in legal]
    try:
        action = game.parse(state, text)
    except IllegalAction:
        demand(
            text not in texts,
            "parse reads the text of a legal action",
            text,
            fix="Accept the texts of all legal actions.",
        )
        return
    if game.num_actions is None:
        rule = "parse gives a hashable action, and none when nobody is to move"
        demand(
            bool(legal) and isinstance(hash(action), int),
            rule,
            action,
            fix="Return an immutable value, and raise IllegalAction if nobody is to move.",
        )
        rule = "parse reads back the text of what it has read, as a replay does"
        demand(
            game.parse(state, game.action_text(state, action)) == action,
            rule,
            text,
            fix="Make action_text write all that parse reads.",
        )
        after = game.apply(state, action)
        for seat in range(game.num_players):
            game.observe(after, seat).encode()
        return
    rule = f"parse gives a legal action or raises IllegalAction for {text[:80]!r}"
    demand(
        action in legal, rule, action, fix="Raise IllegalAction for every other text."
    )
    rule = "parse refuses a text that names no action"
    demand(text not in ("", " ", "no such action", "x" * 100_000), rule, text)
