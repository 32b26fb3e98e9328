"""Checks of texts, features, messages and pictures, and of what seats know.

Nothing hidden shows, and nothing that a seat knew is forgotten.
"""

import json
import random
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np

from arena_envs.game import (
    CHANCE,
    MAX_TEXT,
    TERMINAL,
    AnyGame,
    IllegalAction,
    possible_actions,
)
from arena_envs.scenes import (
    Cards,
    Grid,
    Scene,
    Table,
    Talk,
    Track,
    scene_of,
    svg,
    text_of,
)
from arena_envs.scenes.shapes import TONES
from arena_envs.testing.sample import (
    Episode,
    Sample,
    demand,
    difference,
    random_episode,
    view,
)

MAX_RULES = 100_000  # characters
UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
MAX_READ = 20  # actions of a state whose texts are read back
MARKS = "<>[]{},"
MARKUP = ("<|im_start|>", "<turn|>", "[|user|]", "[INST]", "</think>", "/no_think")
ARABIC = str.maketrans("0123456789", "".join(chr(0x660 + n) for n in range(10)))
HOSTILE = (
    *("", " ", "no such action", "x" * 100_000, "9" * 5_000, "-1", "1e999", "nan"),
    *("\0\ud800\N{ZERO WIDTH SPACE}", "{0.__class__}", "%s%n", "\\", "[]", "(" * 1_000),
    *(
        "\N{ARABIC-INDIC DIGIT ONE}",
        "\N{SUPERSCRIPT TWO}",
        "\n\n",
        "'; DROP TABLE",
        "None",
    ),
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
        demand(rules == game.rules(seat), "rules are the same at every call", rules)
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
    demand(len(text) <= MAX_TEXT, rule, len(text))


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
            demand(text == " ".join(text.split()) != "" and text.isascii(), rule, text)
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


def _check_reading(game: AnyGame, state: object, text: str, action: object) -> None:
    rule = f"parse returns action {action!r} for its text"
    try:
        found = game.parse(state, text)
    except IllegalAction as error:
        fix = "Accept the text in any case and with any white space, as BaseGame.parse does."
        demand(False, f"{rule}: {text!r}", error, fix=fix)
    else:
        is_same = found == action and type(found) is type(action)
        fix = "Return the legal action itself, as an int."
        demand(is_same, f"{rule}: {text!r}", found, fix=fix)


def check_strictness(sample: Sample) -> None:
    """A text that names two actions, denies one or has odd digits is no action."""
    game = sample.game
    if game.num_actions is None:  # where words around an action may be a message
        return
    for state in sample.states(5):
        texts = [
            game.action_text(state, action) for action in game.legal_actions(state)
        ]
        for text, other in zip(texts, texts[1:][:5], strict=False):
            for said in (f"{text} or {other}", f"not {text}", f"{text} {other} {text}"):
                _check_refused(game, state, said)
        for text in texts[:5]:
            for said in _with_odd_digits(text):
                _check_refused(game, state, said)


def _with_odd_digits(text: str) -> set[str]:
    """The text with numbers that `int` reads, though not all of it is ASCII digits."""
    last = re.sub("[0-9](?=[^0-9]*$)", lambda digit: digit[0].translate(ARABIC), text)
    grouped = re.sub("[0-9]+", r"0_\g<0>", text)
    return {text.translate(ARABIC), last, grouped} - {text}


def _check_refused(game: AnyGame, state: object, said: str) -> None:
    try:
        found = game.parse(state, said)
    except IllegalAction:
        return
    demand(False, f"parse refuses {said!r:.80}", found)


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
            for said in (
                *(each.format(text=text, move=move) for each in AROUND),
                *mixed,
            ):
                _check_read_back(game, state, said)


def _check_read_back(game: AnyGame, state: object, said: str) -> None:
    try:
        action = game.parse(state, said)
    except IllegalAction:
        return
    record = json.loads(json.dumps(game.action_text(state, action)))
    try:
        again = game.parse(state, record)
    except IllegalAction as error:
        again = error
    rule = "parse reads back the text of what it has read, as a replay does"
    demand(again == action, rule, said, record, action, again)


def check_hostile_texts(sample: Sample) -> None:
    """A text that names no legal action raises IllegalAction and nothing else."""
    game = sample.game
    for state in sample.states(2):
        for text in HOSTILE:
            check_refusal(game, state, text)
        if game.num_actions is None:
            for action in game.legal_actions(state)[:1]:
                for text in HOSTILE:
                    said = f"{text[:100]}\n{game.action_text(state, action)}"
                    check_refusal(game, state, said)
                for markup in MARKUP:
                    for said in (
                        markup,
                        f"{markup}\n{game.action_text(state, action)}",
                    ):
                        _check_markup(game, state, said, markup)


def _check_markup(game: AnyGame, state: object, said: str, markup: str) -> None:
    """Checks that the words of a seat reach the other seats without their markup."""
    speaker = game.current_player(state)
    try:
        after = game.apply(state, game.parse(state, said))
    except IllegalAction:
        return
    for seat in set(range(game.num_players)) - {speaker}:
        shown = game.observe(after, seat)
        rule = f"observe breaks {markup!r} in what another seat wrote"
        demand(markup not in shown, rule, shown)


def check_refusal(game: AnyGame, state: object, text: str) -> None:
    """`parse` answers a text with a legal action or raises `IllegalAction`."""
    legal = list(game.legal_actions(state))
    texts = [game.action_text(state, action) for action in legal]
    try:
        action = game.parse(state, text)
    except IllegalAction:
        demand(text not in texts, "parse reads the text of a legal action", text)
        return
    if game.num_actions is None:
        rule = "parse gives a hashable action, and none when nobody is to move"
        demand(bool(legal) and isinstance(hash(action), int), rule, action)
        rule = "parse reads back the text of what it has read, as a replay does"
        demand(game.parse(state, game.action_text(state, action)) == action, rule, text)
        after = game.apply(state, action)
        for seat in range(game.num_players):
            game.observe(after, seat).encode()
        return
    rule = f"parse gives a legal action or raises IllegalAction for {text[:80]!r}"
    demand(action in legal, rule, action)
    rule = "parse refuses a text that names no action"
    demand(text not in ("", " ", "no such action", "x" * 100_000), rule, text)


MAX_EXCHANGES = 40  # messages that are exchanged for others
MAX_FOLLOWED = 8  # states after an exchange that are compared
MAX_MESSAGE = 4_096  # characters of the longest message that is tried
MESSAGES = (
    "Quince and saffron.",
    "A rather longer remark about walnuts, with 0 1 2 3 4 5 6 7 8 9 for games of numbers!",
)
LONG = "\U000e0041"  # `quoted` shows it as 12 characters


def check_messages(sample: Sample) -> None:
    """Only its audience learns of a message, and no legal action has the words of a message.

    Exchanges one message of an episode for another.
    """
    game, rng = sample.game, random.Random(0)
    if game.num_actions is not None:
        return
    places = [
        (episode, index)
        for episode in sample.episodes
        for index, (state, _) in enumerate(episode)
        if game.current_player(state) >= 0
    ]
    for episode, index in rng.sample(places, min(len(places), MAX_EXCHANGES)):
        state, action = episode[index]
        said = [_with_message(game, state, action, words) for words in MESSAGES]
        if None in said or said[0] == said[1]:
            continue
        outside: set[int] = set()
        if audience := getattr(said[0], "audience", ()):
            seats = set(range(game.num_players))
            outside = seats - {game.current_player(state), *audience}
        one, other = (game.apply(state, each) for each in said)
        _follow(game, one, other, outside, episode[index + 1 :], rng)


def _follow(
    game: AnyGame,
    one: Any,
    other: Any,
    outside: set[int],
    rest: Episode,
    rng: random.Random,
) -> None:
    """Compares what seats are shown after two messages, while both episodes go on alike."""
    for step in range(MAX_FOLLOWED):
        player = game.current_player(one)
        if game.current_player(other) != player:  # words may end a game, as in taboo
            return
        if player != CHANCE:
            for seat in outside:
                _compare_heard(game, one, other, seat)
        for action in game.legal_actions(one):
            text = game.action_text(one, action)
            demand(
                not any(words in text for words in MESSAGES),
                "no legal action has the words of a message",
                text,
            )
        if player == TERMINAL:
            return
        actions = possible_actions(game, one)
        action = rest[step][1] if step < len(rest) else None
        if action not in actions:
            action = rng.choice(actions)
        if action not in possible_actions(game, other):
            return
        one, other = game.apply(one, action), game.apply(other, action)


def _compare_heard(game: AnyGame, one: Any, other: Any, seat: int) -> None:
    if game.current_player(one) == TERMINAL and game.returns(one) != game.returns(
        other
    ):
        return  # the words decided how the game ended, which a seat may be told
    keys = [game.information_state(state, seat) for state in (one, other)]
    rule = "a message is in no information state of a seat outside its audience"
    demand(keys[0] == keys[1], rule, *keys)
    shown, again = view(game, one, seat), view(game, other, seat)
    rule = "a message shows in no text, features or mask of a seat outside its audience"
    demand(shown == again, f"{rule}; got {difference(shown, again)}")
    alike = scene_of(game, one, seat) == scene_of(game, other, seat)
    rule = "a message shows in no scene of a seat outside its audience"
    demand(alike, rule, seat)


def check_long_talk(sample: Sample) -> None:
    """A text keeps its limit when all players say as much as they can.

    Plays the longest episode of the sample again, each utterance with the longest message.
    """
    game, rng = sample.game, random.Random(0)
    if game.num_actions is not None:
        return
    state = game.initial_state()
    for _, played in max(sample.episodes, key=len):
        if game.current_player(state) == TERMINAL:
            return
        actions = possible_actions(game, state)
        action = played if played in actions else rng.choice(actions)
        if game.current_player(state) >= 0:
            action = _at_length(game, state, action)
        state = game.apply(state, action)
        for seat in range(game.num_players):
            length = len(game.observe(state, seat))
            rule = (
                f"a text has at most {MAX_TEXT} characters after the longest messages"
            )
            fix = "Show fewer of the latest messages, or make the longest one shorter."
            demand(length <= MAX_TEXT, rule, length, fix=fix)


def _at_length(game: AnyGame, state: Any, action: Any) -> Any:
    """The action with the longest message that the game reads, if it reads any."""

    def is_refused(length: int) -> bool:
        return _with_message(game, state, action, LONG * length) is None

    most = bisect_left(range(1, MAX_MESSAGE + 1), True, key=is_refused)
    return _with_message(game, state, action, LONG * most) if most else action


def _with_message(game: AnyGame, state: Any, action: Any, words: str) -> Any:
    """The action with these words as its message; None where the game reads none."""
    text = game.action_text(state, action)
    for said in (f"{words}\n{text}", f"{text}: {words}"):
        try:
            return game.parse(state, said)
        except IllegalAction:
            continue
    return None


MAX_CHANGES = 40  # actions of an episode that are exchanged for others
MAX_DRAWS = 200  # calls of resample, one of which has to draw another state


def check_complete(sample: Sample) -> None:
    """The game has the methods that hidden information needs."""
    for state in sample.states(1):
        for seat in range(sample.game.num_players):
            sample.game.information_state(state, seat)
            sample.game.resample(state, seat, random.Random(0))


def check_knowledge(sample: Sample) -> None:
    """The information state determines the view and, with perfect recall, the past."""
    game = sample.game
    seen: dict[Any, Any] = {}
    for episode in sample.episodes:
        pasts: list[tuple[Any, ...]] = [()] * game.num_players
        for state, action in episode:
            player = game.current_player(state)
            if player == CHANCE:  # no seat observes a chance node
                continue
            for seat in range(game.num_players):
                key = game.information_state(state, seat)
                shown = view(game, state, seat)
                known = seen.setdefault((seat, key), shown)
                demand(
                    known == shown,
                    "states with one information state have the same text, features and legal actions; "
                    f"got {difference(known, shown)}",
                )
            if player >= 0:
                _check_features(game, state, player, seen)
                if game.information == "imperfect":
                    _check_past(game, state, player, pasts[player], seen)
                    key = game.information_state(state, player)
                    pasts[player] = (key, action)  # the key stands for the earlier past


def _check_features(game: AnyGame, state: Any, seat: int, seen: dict[Any, Any]) -> None:
    text, features, _ = view(game, state, seat)
    known = seen.setdefault((seat, features, "text"), text)
    demand(
        known == text,
        "features tell apart what the text tells the seat to move; "
        f"got {difference((known,), (text,))}",
    )


def _check_past(
    game: AnyGame, state: Any, seat: int, past: Any, seen: dict[Any, Any]
) -> None:
    key = game.information_state(state, seat)
    demand(
        seen.setdefault((seat, key, "past"), past) == past,
        "one information state has one past of the seat (perfect recall)",
        key,
    )


def check_resampling(sample: Sample) -> None:
    """States that a seat cannot tell apart look alike to it, and can be played on."""
    game, rng = sample.game, random.Random(0)
    for state in sample.states():
        for seat in range(game.num_players):
            drawn = game.resample(state, seat, rng)
            if drawn is not state:
                _check_draw(game, state, seat, drawn)
    if game.information == "perfect":
        return
    for state in sample.states(5):
        for seat in range(game.num_players):
            drawn = game.resample(state, seat, random.Random(1))
            again = game.resample(state, seat, random.Random(1))
            demand(
                drawn == again, "resample draws from the given generator alone", again
            )
            random_episode(game, drawn, random.Random(2))


def _check_draw(game: AnyGame, state: Any, seat: int, drawn: Any) -> None:
    rule = "resample does not change the seat to move"
    alike = game.current_player(drawn) == game.current_player(state)
    demand(alike, rule, drawn)
    key, found = (game.information_state(s, seat) for s in (state, drawn))
    rule = "resample keeps the information state of the seat"
    demand(found == key, rule, found, key)
    shown, again = view(game, state, seat), view(game, drawn, seat)
    rule = "resample keeps the text, features and mask of the seat; got "
    demand(shown == again, rule + difference(shown, again))
    demand(
        drawn == state or game.information == "imperfect",
        "a perfect-information game has nothing to resample",
        drawn,
    )


def check_hidden(sample: Sample) -> None:
    """Checks that hidden facts do not show, and that `resample` draws them anew.

    Exchanges one action of an episode for another, so it does not depend on `resample`.
    """
    game, rng = sample.game, random.Random(0)
    hidden = hidden_twins(sample, rng)
    for state, twin, seat in hidden[:1000]:
        demand(
            game.information == "imperfect",
            "in a perfect-information game each state has its own information state",
            *(state, twin),
        )
        shown, again = view(game, state, seat), view(game, twin, seat)
        demand(
            shown == again,
            "what a seat cannot know shows in no text, features or mask; got "
            + difference(shown, again),
        )
    for state, twin, seat in hidden[:20]:
        draws = (game.resample(state, seat, rng) for _ in range(MAX_DRAWS))
        demand(
            any(drawn != state for drawn in draws),
            "resample also draws other states that the seat cannot tell from this one",
            *(state, twin),
        )


def hidden_twins(
    sample: Sample, rng: random.Random, num_episodes: int = 5
) -> list[tuple[Any, Any, int]]:
    """Pairs of different states of episodes, each with a seat that cannot tell them apart."""
    game, hidden = sample.game, []
    for episode in sample.episodes[:num_episodes]:
        indices = range(len(episode) - 1)
        for index in rng.sample(indices, min(len(indices), MAX_CHANGES)):
            for state, twin in _twins(game, episode, index, rng):
                for seat in range(game.num_players):
                    keys = [game.information_state(s, seat) for s in (state, twin)]
                    if keys[0] == keys[1]:
                        hidden.append((state, twin, seat))
    return hidden


def _twins(
    game: AnyGame, episode: Episode, index: int, rng: random.Random
) -> Iterator[tuple[Any, Any]]:
    """Pairs of decision states: of an episode, and after another action at `index`."""
    twin, played = episode[index]
    others = [action for action in possible_actions(game, twin) if action != played]
    if not others:
        return
    twin = game.apply(twin, rng.choice(others))
    for state, action in episode[index + 1 :]:
        player = game.current_player(state)
        if game.current_player(twin) != player:
            return
        if player >= 0 and twin != state:
            yield state, twin
        if action not in possible_actions(game, twin):
            return
        twin = game.apply(twin, action)


MAX_PAIRS = 200  # of states with the same text
MAX_ACTIONS = 40  # of a pair
MAX_OUTCOMES = 6  # of a chance node, followed
MAX_DEPTH = 3  # chance nodes in a row, followed


def check_sufficiency(sample: Sample) -> None:
    """The text tells the seat to move what it can do and what can follow.

    In every game, states with the same text have the same legal actions. Returns and
    successors are compared in games of perfect information only. With imperfect information
    they also depend on what is hidden, and a text may leave out the seat's past, which
    `information_state` keeps (see `check_knowledge`). So in these games the check does not
    find a text without a public fact, such as the size of the pot.
    """
    game, num_pairs = sample.game, 0
    seen: dict[tuple[int, str], Any] = {}
    for state in sample.states():
        seat = game.current_player(state)
        if seat < 0:
            continue
        text = game.observe(state, seat)
        known = seen.setdefault((seat, text), state)
        if known == state or num_pairs == MAX_PAIRS:
            continue
        num_pairs += 1
        legal, again = list(game.legal_actions(known)), list(game.legal_actions(state))
        demand(
            legal == again,
            "one text at a seat's turn has one set of legal actions",
            *(text, legal, again),
        )
        if game.information == "perfect":
            _check_same_play(game, text, known, state)


def _check_same_play(game: AnyGame, text: str, one: Any, other: Any) -> None:
    """Two states with one text have the same returns, and so have their successors."""
    paid = [game.returns(state) for state in (one, other)]
    demand(
        paid[0] == paid[1],
        "one text of a perfect-information game has one return of each seat",
        *(text, *paid),
    )
    for action in list(game.legal_actions(one))[:MAX_ACTIONS]:
        follow = [_following(game, game.apply(s, action)) for s in (one, other)]
        demand(
            follow[0] == follow[1],
            "one text of a perfect-information game, and one action, lead to the same "
            "returns and texts",
            *(text, *_unequal(*follow)),
        )


def _following(game: AnyGame, state: Any, depth: int = 0) -> list[Any]:
    """All that seats are shown and paid next, chance outcomes with their probabilities."""
    if game.current_player(state) != CHANCE:
        seats = range(game.num_players)
        return [game.returns(state), *(game.observe(state, seat) for seat in seats)]
    follow: list[Any] = []
    for outcome, probability in game.chance_outcomes(state)[:MAX_OUTCOMES]:
        follow += [outcome, probability]
        if depth < MAX_DEPTH:
            follow += _following(game, game.apply(state, outcome), depth + 1)
    return follow


def _unequal(one: list[Any], other: list[Any], default: Any = ("", "")) -> Any:
    """The first entries that differ."""
    pairs = zip(one, other, strict=False)
    return next((pair for pair in pairs if pair[0] != pair[1]), default)


NUM_STATES, NUM_DRAWN = 60, 4  # states whose scenes are compared, and that are drawn


def check_scenes(sample: Sample) -> None:
    """Scenes of states that a seat cannot tell apart are the same for this seat."""
    game, rng = sample.game, random.Random(0)
    states = [s for s in sample.states() if game.current_player(s) != CHANCE]
    for state in rng.sample(states, min(len(states), NUM_STATES)):
        for seat in range(game.num_players):
            _compare(game, state, game.resample(state, seat, rng), seat)
    for state, twin, seat in hidden_twins(sample, rng, 2)[:NUM_STATES]:
        _compare(game, state, twin, seat)
    for state in (*rng.sample(states, min(len(states), NUM_DRAWN)), states[-1]):
        for viewer in (None, *range(game.num_players)):
            scene = scene_of(game, state, viewer)
            _check_tones(scene)
            for drawn in (svg(scene), text_of(scene)):
                demand(bool(drawn), "a scene can be drawn", scene)


def _compare(game: AnyGame, state: Any, twin: Any, seat: int) -> None:
    if game.current_player(state) == TERMINAL:
        own = [game.returns(each)[seat] for each in (state, twin)]
        if own[0] != own[1]:
            return  # the seat is paid, so it can tell them apart
    one, other = (scene_of(game, each, seat) for each in (state, twin))
    demand(
        one == other,
        "what a seat cannot know shows in no scene of the seat",
        *_unequal(text_of(one).split("\n"), text_of(other).split("\n"), (one, other)),
    )


def _check_tones(scene: Scene) -> None:
    """Every color of a scene is known to the renderers."""
    tones: list[str] = []
    for shape in scene.shapes:
        rule = "a scene is made of the shapes of arena_envs.scenes"
        demand(isinstance(shape, Grid | Cards | Table | Track | Talk), rule, shape)
        if isinstance(shape, Grid | Table):
            tones += [cell.tone for row in shape.rows for cell in row]
        elif isinstance(shape, Track):
            tones += [cell.tone for cell in shape.items]
        elif isinstance(shape, Cards):
            tones += [card.tone for card in shape.cards]
    for tone in tones:
        rule = f"a tone is one of {', '.join(filter(None, TONES))}"
        demand(tone in TONES, rule, tone)
