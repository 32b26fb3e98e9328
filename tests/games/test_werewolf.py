"""Werewolf: its rules, who knows what, its known values, and scripted players."""

import random
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import arena_envs
from arena_envs import CHANCE, TERMINAL, IllegalAction
from arena_envs.bots import make_bot
from arena_envs.game import sample_chance
from arena_envs.games.werewolf import State, Werewolf
from arena_envs.solvers import (
    expected_returns,
    information_states,
    nash_conv,
    uniform_table,
)
from arena_envs.testing import draw_sample

game = Werewolf()
ROLES = ("wolf", "villager", "seer", "wolf", "doctor", "villager")
NIGHT = (  # player_5 dies
    *("Take 1!\nkill player_1", "sleep", "see player_0", "kill player_5"),
    *("save player_1", "sleep"),
)


def plain(num_players: int, **params: Any) -> Werewolf:
    """One wolf among villagers, without talk."""
    defaults = {"num_wolves": 1, "seer": False, "doctor": False, "num_statements": 0}
    return Werewolf(num_players=num_players, **{**defaults, **params})


def play(
    texts: Sequence[str], roles: Sequence[str] = ROLES, rules: Werewolf = game
) -> State:
    """The state after these roles and texts."""
    state = rules.initial_state()
    for role in roles:
        state = rules.apply(state, role)
    for text in texts:
        state = rules.apply(state, rules.parse(state, text))
    return state


def village_share(rules: Werewolf, village: str, wolves: str, number: int) -> float:
    """How often the village wins if all of a team play in one style."""
    bots = {True: make_bot(f"werewolf_player:{wolves}")}
    bots[False] = make_bot(f"werewolf_player:{village}")
    won = 0.0
    for seed in range(number):
        state, rng = rules.initial_state(), random.Random(seed)
        while (player := rules.current_player(state)) != TERMINAL:
            if player == CHANCE:
                said: Any = sample_chance(rules, state, rng)
            else:
                said = bots[state.roles[player] == "wolf"](rules, state, rng)
                assert rules.parse(state, rules.action_text(state, said)) == said
            state = rules.apply(state, said)
        won += rules.measures(state)["village_win"]
    return won / number


def random_play(num_wolves: int, num_others: int, doctor: int) -> Fraction:
    """How often the village wins if all play at random: each player is as likely to be out."""

    @cache
    def night(w: int, o: int, d: int) -> Fraction:
        saved = Fraction(d, w + o)
        killed = Fraction(d, o) * day(w, o - 1, 0) + Fraction(o - d, o) * day(
            w, o - 1, d
        )
        return saved * day(w, o, d) + (1 - saved) * killed

    @cache
    def day(w: int, o: int, d: int) -> Fraction:
        if w >= o or not w:
            return Fraction(not w)
        wolf = w * (night(w - 1, o, d) if w > 1 else Fraction(1))
        if w >= o - 1:
            return wolf / (w + o)
        return (wolf + d * night(w, o - 1, 0) + (o - d) * night(w, o - 1, d)) / (w + o)

    return night(num_wolves, num_others, doctor)


def test_other_settings_keep_the_contract(check_contract: Any) -> None:
    check_contract(plain(4, num_statements=2, messages=False, seer=True))


def test_the_text_is_bounded_in_the_longest_game() -> None:
    rules = Werewolf(num_players=9, num_wolves=2, num_statements=2, max_message=300)
    state, num_turns = rules.initial_state(), 0
    words = "\U000e0041" * 300
    for role in (*("villager",) * 4, "wolf", "seer", "villager", "wolf", "doctor"):
        state = rules.apply(state, role)
    while (player := rules.current_player(state)) != TERMINAL:
        alive = state.living
        if player == CHANCE:
            state = rules.apply(state, 4 if 4 in alive else alive[0])
            continue
        said = rules.legal_actions(state)[0]
        if said.move in ("kill", "save"):  # saved in every night
            said = said._replace(values=(rules.legal_actions(state)[0].values[0],))
        if said.move == "vote":
            out = 4 if 4 in alive else alive[0] if len(alive) > 3 else 7
            said = said._replace(values=(out if player != out else alive[-1],))
        text = rules.action_text(state, said)
        if said.move in ("kill", "accuse"):
            text = f"{words}\n{text}"
        state, num_turns = rules.apply(state, rules.parse(state, text)), num_turns + 1
        if num_turns % 25 == 0:
            assert max(len(rules.observe(state, seat)) for seat in range(9)) < 17_000
    assert 120 < num_turns <= rules.max_turns


class TestKnownValues:
    @pytest.mark.parametrize("num_players", [4, 5])
    def test_uniform_play_earns_the_value_with_one_wolf(self, num_players: int) -> None:
        rules = plain(num_players)
        value = {4: Fraction(1, 3), 5: Fraction(1, 4)}[num_players]
        assert rules.known_value == f"the village wins with probability {value}"
        wolf = 1 - 2 * float(value)
        paid = (wolf - (num_players - 1) * wolf) / num_players  # of a random role
        returns = expected_returns(rules, uniform_table(rules))
        assert returns == pytest.approx([paid] * num_players)

    def test_nobody_gains_by_leaving_uniform_play(self) -> None:
        rules = plain(4)
        assert nash_conv(rules, uniform_table(rules)) == pytest.approx(0, abs=1e-9)

    @pytest.mark.parametrize("seed", range(3))
    def test_a_wolf_that_mimics_villagers_holds_any_village_to_the_value(
        self, seed: int
    ) -> None:
        rules, rng = plain(4), random.Random(seed)
        table: dict[Any, list[float]] = {}
        votes: dict[Any, list[float]] = {}  # of a villager at this seat
        for (seat, known), state in information_states(rules).items():
            number = len(rules.legal_actions(state))
            if state.phase == "vote":
                public = (seat, known[2])
                weights = votes.setdefault(public, [rng.random() for _ in range(2)])
                table[seat, known] = [weight / sum(weights) for weight in weights]
            else:
                table[seat, known] = [1 / number] * number
        total = sum(expected_returns(rules, table))  # 2 if the village wins, else -2
        assert total == pytest.approx(2 * (1 / 3 - 2 / 3))

    @pytest.mark.parametrize(
        ("num_players", "fraction"), [(6, "7/15"), (7, "3/8"), (8, "19/35")]
    )
    def test_the_closed_form_is_the_recursion(
        self, num_players: int, fraction: str
    ) -> None:
        known = plain(num_players, num_statements=1).known_value
        assert known == f"the village wins with probability {fraction}"
        assert Fraction(fraction) == random_play(1, num_players - 1, 0)

    def test_random_play_of_the_default(self) -> None:
        value = f"{float(random_play(2, 4, 1)):.6f}".lstrip("0")
        assert game.known_value == (
            f"random play: the village wins with probability {value}"
        )
        assert village_share(game, "silent", "silent", 400) == pytest.approx(
            float(value), abs=0.04
        )


class TestRules:
    def test_the_last_wolf_decides_and_all_learn_the_role(self) -> None:
        state = play(NIGHT)
        assert state.living == (0, 1, 2, 3, 4)
        assert "Night 1: player_5, a villager, died." in game.observe(state, 1)

    def test_the_doctor_saves_the_victim(self) -> None:
        state = play([*NIGHT[:4], "save player_5", "sleep"])
        assert state.living == tuple(range(6))
        assert "Night 1: nobody died." in game.observe(state, 1)

    def test_the_village_wins_when_no_wolf_lives(self) -> None:
        rules = plain(4)
        roles = ("wolf", *["villager"] * 3)
        night = ["kill player_1", *["sleep"] * 3]
        state = play([*night, "vote player_2", *["vote player_0"] * 2], roles, rules)
        assert rules.returns(state) == (-1, 1, 1, 1)
        assert rules.measures(state) == {
            "village_win": 1.0,
            "wolves_found": 1.0,
            "vote_accuracy": 1.0,
            "claim_truth": 1.0,
        }
        assert rules.observe(state, 1).startswith(
            "You are player_1, a villager and dead. The game is over: the village wins."
        )
        votes = ["vote player_2", "vote player_3", "vote player_2"]
        state = play([*night, *votes], roles, rules)
        assert rules.returns(state) == (1, -1, -1, -1)

    def test_chance_chooses_among_the_tied(self) -> None:
        rules = plain(4)
        texts = ["kill player_3", *["sleep"] * 3]
        texts += ["vote player_1", "vote player_2", "vote player_0"]
        state = play(texts, ("wolf", *["villager"] * 3), rules)
        outcomes, chances = zip(*rules.chance_outcomes(state), strict=True)
        assert outcomes == (0, 1, 2)
        assert chances == pytest.approx([1 / 3] * 3)
        assert rules.returns(rules.apply(state, 0)) == (-1, 1, 1, 1)

    def test_claims_are_measured(self) -> None:
        speeches = ["accuse player_1", "clear player_3", "accuse player_0", "pass"]
        measures = game.measures(play([*NIGHT, *speeches]))
        assert measures["claim_truth"] == pytest.approx(1 / 3)

    @pytest.mark.parametrize(
        ("texts", "text", "wanted"),
        [
            ([], "kill player_3", "want a kill that names player_1 or player_2"),
            (NIGHT[:2], "Hm.\nsee player_0", "want no message with the action"),
            (NIGHT, "accuse player_5", "want an accuse that names player_1 or"),
            (NIGHT, "vote player_1", 'such as "accuse player_1"'),
        ],
    )
    def test_moves_out_of_place_are_refused(
        self, texts: list[str], text: str, wanted: str
    ) -> None:
        with pytest.raises(IllegalAction, match=wanted):
            game.parse(play(texts), text)

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"num_players": 10}, "integer num_players from 4 to 9, got 10"),
            ({"num_wolves": 3}, "integer num_wolves from 1 to 2, got 3"),
            ({"seer": 1}, "want seer True or False, got 1"),
            ({"num_statements": 3}, "integer num_statements from 0 to 2, got 3"),
        ],
    )
    def test_impossible_parameters_are_refused(
        self, params: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            Werewolf(**params)


class TestWhoKnowsWhat:
    def test_the_rules_say_what_wolves_know(self) -> None:
        alone, pack = plain(5).rules(0), game.rules(0)
        assert "and 4 villagers. Everybody knows only its own role." in alone
        assert "Nobody sees the moves." in alone
        assert "Everybody else knows only its own role." in pack
        assert "Wolves see the moves of wolves;" in pack

    def test_wolves_talk_among_themselves_at_night(self) -> None:
        state = play(NIGHT[:3])
        line = 'Night 1: player_0 named player_1 to kill, and said: "Take 1!"'
        assert game.observe(state, 3).endswith(line)
        for seat in (1, 2, 4, 5):
            assert "Take" not in repr(game.information_state(state, seat))
            assert "kill" not in game.observe(state, seat)

    def test_only_the_seer_learns_what_it_saw(self) -> None:
        state = play(NIGHT)
        found = "You have seen that player_0 is a wolf."
        readers = [seat for seat in range(6) if found in game.observe(state, seat)]
        assert readers == [2]

    def test_votes_are_shown_when_all_have_voted(self) -> None:
        state = play([*NIGHT, *["pass"] * 5, "vote player_1", "vote player_0"])
        assert "Day 1: you voted for player_1." in game.observe(state, 0)
        assert "voted" not in game.observe(state, 2)
        rest = ["vote player_0", "vote player_0", "vote player_0"]
        for text in rest:
            state = game.apply(state, game.parse(state, text))
        assert (
            "Day 1 votes: player_0 for player_1, player_1 for player_0, player_2 for player_0, "
            "player_3 for player_0, player_4 for player_0. player_0, a wolf, was voted out."
        ) in game.observe(state, 5)

    def test_a_drawn_state_can_be_reached_and_other_roles_come_up(self) -> None:
        rng, found = random.Random(0), set()
        for episode in draw_sample(game, 3, seed=5).episodes:
            for state, _ in episode[6::4]:
                for seat in range(6):
                    drawn = game.resample(state, seat, rng)
                    found.add((state.roles, seat, drawn.roles))
                    self.check_reached(drawn)
        assert len(found) > 60

    def check_reached(self, drawn: State) -> None:
        state = game.initial_state()
        for role in drawn.roles:
            state = game.apply(state, role)
        for each in drawn.past:
            if game.current_player(state) == CHANCE:
                (out,) = [d.seat for d in drawn.deaths if d[:2] == (state.day, "vote")]
                state = game.apply(state, out)
            assert each.said._replace(message="", audience=()) in game.legal_actions(
                state
            )
            state = game.apply(state, each.said)
        if state.phase == "tie" != drawn.phase:
            state = game.apply(state, drawn.deaths[-1].seat)
        assert state == drawn

    def test_the_core_has_no_messages(self) -> None:
        state = play(NIGHT[:3])
        said = game.core_state(state).past[0].said
        assert said == game.legal_actions(play([]))[0]


class TestScriptedPlayers:
    def test_words_of_the_seer_help_and_lies_hurt(self) -> None:
        told = village_share(game, "honest", "honest", 150)
        untold = village_share(Werewolf(messages=False), "honest", "honest", 150)
        lied_to = village_share(game, "honest", "greedy", 150)
        wary = village_share(game, "greedy", "greedy", 150)
        assert told > untold + 0.1
        assert lied_to < wary < told
        assert lied_to < untold

    def test_silent_players_earn_the_value(self) -> None:
        won = village_share(plain(4), "silent", "silent", 400)
        assert won == pytest.approx(1 / 3, abs=0.06)

    def test_another_style_or_game_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want a style among greedy, honest"):
            make_bot("werewolf_player:kind")


def test_nonsense_costs_its_speaker_a_tenth_of_the_range_and_no_one_else() -> None:
    for seed in range(10):
        rng, env = random.Random(seed), arena_envs.make("werewolf")
        env.reset(seed=seed)
        for _ in range(rng.randrange(15)):  # up to one death before the end
            if env.legal_actions():
                env.step(rng.choice(env.legal_actions()))
        if not env.legal_actions():
            continue
        seat = env.possible_agents.index(env.agent_selection)
        quiet = env.clone()
        quiet.play(env.game.default_action(env.game_state))
        env.step("nonsense")
        while env.legal_actions():
            assert env.game_state == quiet.game_state
            env.step(env.legal_actions()[0])
            quiet.step(quiet.legal_actions()[0])
        lost = [a - b for a, b in zip(quiet.returns, env.returns, strict=True)]
        assert lost == pytest.approx([0.2 * (s == seat) for s in range(6)])
