"""`GameEnv`, with Kuhn poker and three games that are made to be awkward."""

import copy
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from pettingzoo.test import api_test, render_test, seed_test

import arena_envs
from arena_envs import CHANCE, TERMINAL, BaseGame, GameEnv, IllegalAction, nodes
from arena_envs.games.kuhn_poker import KuhnPoker


class PassingState(NamedTuple):
    turn: int = 0
    paid: tuple[int, ...] = (0, 0, 0)


@dataclass(frozen=True)
class Passing(BaseGame[PassingState, int]):
    """Three seats in turn take 0 to 2 chips from the bank for themselves, and the double
    for the seat before them.
    """

    num_players = 3
    num_actions = 3
    kind = "mixed"
    information = "perfect"
    min_return = -5.0
    max_return = 100.0
    max_turns = 7

    def initial_state(self) -> PassingState:
        return PassingState()

    def current_player(self, state: PassingState) -> int:
        return TERMINAL if state.turn == self.max_turns else state.turn % 3

    def chance_outcomes(self, state: PassingState) -> list[tuple[int, float]]:
        return []

    def legal_actions(self, state: PassingState) -> tuple[int, ...]:
        return () if state.turn == self.max_turns else (0, 1, 2)

    def apply(self, state: PassingState, action: int) -> PassingState:
        paid, seat = list(state.paid), state.turn % 3
        paid[seat] += action
        paid[(seat - 1) % 3] += 2 * action
        return PassingState(state.turn + 1, tuple(paid))

    def returns(self, state: PassingState) -> tuple[int, ...]:
        return state.paid

    def observe(self, state: PassingState, seat: int) -> str:
        return f"player_{seat}: {state}"

    def features(self, state: PassingState, seat: int) -> Any:
        return np.array([state.turn, *state.paid], np.float32)

    def action_text(self, state: PassingState, action: int) -> str:
        return f"take {action}"

    def rules(self, seat: int) -> str:
        return "Take chips."


class HintState(NamedTuple):
    secret: str = ""
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hint(BaseGame[HintState, str]):
    """A language game: player_0 describes a colour, player_1 names it."""

    num_players = 2
    num_actions = None
    kind = "cooperative"
    information = "imperfect"
    min_return = -1.0
    max_return = 1.0
    max_turns = 2

    def initial_state(self) -> HintState:
        return HintState()

    def current_player(self, state: HintState) -> int:
        if not state.secret:
            return CHANCE
        return TERMINAL if len(state.said) == 2 else len(state.said)

    def chance_outcomes(self, state: HintState) -> list[tuple[str, float]]:
        return [("red", 0.5), ("blue", 0.5), ("never", 0.0)]

    def legal_actions(self, state: HintState) -> tuple[str, ...]:
        return ("blue", "red") if self.current_player(state) >= 0 else ()

    def apply(self, state: HintState, action: str) -> HintState:
        if not state.secret:
            return HintState(action)
        return HintState(state.secret, (*state.said, action))

    def returns(self, state: HintState) -> tuple[float, float]:
        won = len(state.said) == 2 and state.said[1] == state.secret
        return (1.0, 1.0) if won else (0.0, 0.0)

    def observe(self, state: HintState, seat: int) -> str:
        secret = f"The colour is {state.secret}. " if seat == 0 else ""
        return f"{secret}Said: {', '.join(state.said) or 'nothing'}."

    def features(self, state: HintState, seat: int) -> Any:
        return np.array([len(state.said)], np.float32)

    def action_text(self, state: HintState, action: str) -> str:
        return action

    def parse(self, state: HintState, text: str) -> str:
        words = text.split()
        if len(words) != 1 or len(text) > 20:
            raise IllegalAction(f"want one word, got {text[:40]!r}")
        return words[0].casefold()

    def rules(self, seat: int) -> str:
        return "One word each."


def kuhn(**options: Any) -> GameEnv:
    return arena_envs.make("kuhn_poker", **options)


def started(env: GameEnv, seed: int = 0, **options: Any) -> GameEnv:
    env.reset(seed=seed, options=options or None)
    return env


def play_randomly(env: GameEnv, rng: random.Random) -> list[Any]:
    """All that an agent can see of the rest of the episode."""
    seen: list[Any] = []
    for agent in env.agent_iter(200):
        observation, reward, terminated, truncated, info = env.last()
        arrays = {k: np.asarray(v).tolist() for k, v in observation.items()}
        seen.append((agent, arrays, reward, terminated, truncated, dict(info)))
        over = terminated or truncated
        env.step(None if over else rng.choice(env.legal_actions()))
    return [*seen, env.actions]


def everything(env: GameEnv) -> Any:
    """The public state of an environment, and what its chance will draw."""
    return snapshot(env), env._chance._rng.getstate(), env._chance.given


def snapshot(env: GameEnv) -> Any:
    """The public state of an environment."""
    return copy.deepcopy(
        (
            env.agents,
            env.agent_selection,
            env.rewards,
            env._cumulative_rewards,
            env.terminations,
            env.truncations,
            env.infos,
            env.actions,
            env.num_turns,
            env.game_state,
            env.returns,
            env.forfeited_by,
        )
    )


GAMES = [KuhnPoker(), KuhnPoker(3), Passing(), Hint()]


# it calls spaces of texts unusual
@pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo.test.api_test")
@pytest.mark.parametrize("game", GAMES, ids=repr)
def test_pettingzoo_accepts_the_environment(game: Any) -> None:
    api_test(GameEnv(game), num_cycles=100)
    seed_test(lambda: GameEnv(game), num_cycles=100)


def test_pettingzoo_accepts_the_rendering(capsys: pytest.CaptureFixture[str]) -> None:
    render_test(kuhn)
    assert "player_0 is to move." in capsys.readouterr().out


class TestObservation:
    def test_it_has_features_mask_and_text(self) -> None:
        env = started(kuhn(), chance=[1, 2])
        observation = env.observe("player_0")
        assert env.observation_space("player_0").contains(observation)
        assert observation["action_mask"].tolist() == [1, 1]
        assert observation["action_mask"].dtype == np.int8
        text = "You are player_0 and hold Q. Actions: none. Your turn."
        assert observation["text"] == text
        features = observation["observation"]
        assert features.dtype == np.float32
        assert features.tolist() == env.game.features(env.game_state, 0).tolist()

    def test_a_language_game_has_no_mask(self) -> None:
        env = started(GameEnv(Hint()))
        assert set(env.observe("player_0")) == {"observation", "text"}
        assert env.action_space("player_0").contains("any text, ÿ too")

    def test_the_mask_is_zero_when_an_agent_may_not_choose(self) -> None:
        env = started(kuhn())
        assert env.observe("player_1")["action_mask"].tolist() == [0, 0]
        env.forfeit("player_0")
        assert env.observe("player_0")["action_mask"].tolist() == [0, 0]
        env = started(kuhn(max_turns=1))
        env.step(0)
        assert env.observe("player_1")["action_mask"].tolist() == [0, 0]

    def test_arrays_are_fresh(self) -> None:
        env = started(kuhn())
        first = env.observe("player_0")
        first["action_mask"][:] = 7
        first["observation"][:] = 7
        second = env.observe("player_0")
        assert second["action_mask"].tolist() == [1, 1]
        assert 7 not in second["observation"]

    def test_it_is_pure_and_works_at_any_time(self) -> None:
        env = kuhn()
        assert env.observe("player_1")["action_mask"].tolist() == [0, 0]
        plain, watched = started(kuhn()), started(env)
        while plain.agents:
            for agent in env.possible_agents:
                before = snapshot(watched)
                assert watched.observation_space(agent).contains(watched.observe(agent))
                assert snapshot(watched) == before
            action = next(iter(plain.legal_actions()), None)
            plain.step(action)
            watched.step(action)
        assert snapshot(watched) == snapshot(plain)
        assert watched.observe("player_0")["action_mask"].tolist() == [0, 0]

    def test_spaces_are_the_same_objects_every_time(self) -> None:
        env = kuhn()
        for agent in env.possible_agents:
            assert env.observation_space(agent) is env.observation_space(agent)
            assert env.action_space(agent) is env.action_space(agent)


class TestReset:
    @pytest.mark.parametrize("seed", [-1, 1.5, "x", True, np.float64(1), [1]])
    def test_a_bad_seed_is_named(self, seed: Any) -> None:
        with pytest.raises(ValueError, match="want a non-negative integer as seed"):
            kuhn().reset(seed=seed)

    @pytest.mark.parametrize("seed", [0, np.int64(5), 2**100])
    def test_integers_are_seeds(self, seed: Any) -> None:
        env = started(kuhn(), seed)
        assert snapshot(env) == snapshot(started(kuhn(), int(seed)))

    def test_the_same_seed_gives_the_same_episodes_on_one_object_and_on_two(
        self,
    ) -> None:
        env, other = kuhn(), kuhn()
        rng = random.Random(1)
        other.reset(seed=99)
        play_randomly(other, rng)
        for seed in range(20):
            first = play_randomly(started(env, seed), random.Random(seed))
            again = play_randomly(started(env, seed), random.Random(seed))
            assert first == again
            assert first == play_randomly(started(other, seed), random.Random(seed))

    def test_unseeded_resets_go_on_with_the_generator(self) -> None:
        one, two = started(kuhn(), 3), started(kuhn(), 3)
        deals = set()
        for _ in range(50):
            one.reset()
            two.reset()
            assert one.game_state == two.game_state
            deals.add(one.game_state.cards)
        assert len(deals) == 6

    def test_interleaved_environments_do_not_disturb_each_other(self) -> None:
        alone = [started(kuhn(), seed).game_state for seed in (1, 1, 1)]
        env, other = kuhn(), kuhn()
        together = []
        for _ in alone:
            env.reset(seed=1)
            other.reset()
            together.append(env.game_state)
        assert together == alone

    def test_global_generators_are_neither_read_nor_written(self) -> None:
        random.seed(5)
        np.random.seed(5)
        before = random.getstate(), np.random.get_state()[1].tolist()
        play_randomly(started(kuhn()), random.Random(0))
        kuhn().reset()
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before

    def test_all_chance_outcomes_come_up_as_often_as_they_should(self) -> None:
        env = started(kuhn())
        counts: dict[Any, int] = {}
        for _ in range(6000):
            env.reset()
            cards = env.game_state.cards
            counts[cards] = counts.get(cards, 0) + 1
        assert len(counts) == 6
        assert all(abs(count - 1000) < 150 for count in counts.values())  # 5 sigma

    def test_given_chance_outcomes_come_first(self) -> None:
        env = started(kuhn(num_players=3), chance=[3, 0])
        assert env.game_state.cards[:2] == (3, 0)
        assert env.actions == list(env.game_state.cards)
        env.reset(options={"chance": (np.int64(1), 2, 3)})
        assert env.actions == [1, 2, 3]
        assert all(type(card) is int for card in env.actions)

    def test_given_chance_outcomes_end_with_the_episode(self) -> None:
        env = started(GameEnv(LateChance()), chance=[2, 1])
        env.reset(seed=0)
        env.step(0)
        other = started(GameEnv(LateChance()), 0)
        other.step(0)
        assert env.game_state == other.game_state

    @pytest.mark.parametrize(
        ("game", "outcomes"),
        [(KuhnPoker(), [3]), (KuhnPoker(), [1, 1]), (Hint(), ["never"])],
    )
    def test_an_impossible_chance_outcome_is_refused(
        self, game: Any, outcomes: list[Any]
    ) -> None:
        env = started(GameEnv(game), 0)
        before = everything(env)
        with pytest.raises(ValueError, match=r"want a chance outcome among \["):
            env.reset(seed=1, options={"chance": outcomes})
        assert everything(env) == before

    @pytest.mark.parametrize("outcomes", [5, "12", {0: 1}, None, {1, 2}])
    def test_chance_outcomes_that_are_no_list_are_refused(self, outcomes: Any) -> None:
        env = started(kuhn(), 0)
        before = everything(env)
        with pytest.raises(ValueError, match=r"want options\['chance'\] as a list"):
            env.reset(seed=1, options={"chance": outcomes})
        assert everything(env) == before
        twin = started(kuhn(), 0)
        for other in (env, twin):
            other.step(0)
            other.reset()
        assert env.game_state == twin.game_state  # the generator went on as it was

    @pytest.mark.parametrize(
        ("id", "outcomes", "most"),
        [
            ("kuhn_poker", [2, 1, 0], 2),
            ("leduc_poker", [0, 1, 2, 3], 3),
            ("tic_tac_toe", [0], 0),
            ("chess", [0, 1], 0),
            ("limit_holdem", [*range(10)], 9),
            ("mini_hanabi", [0, 0, 0, 1, 2, 2, 2, 3, 1], 8),
        ],
    )
    def test_chance_outcomes_that_can_never_be_drawn_are_refused(
        self, id: str, outcomes: list[int], most: int
    ) -> None:
        env = started(arena_envs.make(id), 0)
        before = everything(env)
        wanted = f"want at most {most} chance outcomes, got {len(outcomes)}"
        with pytest.raises(ValueError, match=wanted):
            env.reset(options={"chance": outcomes})
        assert everything(env) == before
        env.step(env.legal_actions()[0])

    def test_outcomes_of_a_late_chance_node_in_a_large_game_are_taken(self) -> None:
        env = started(GameEnv(Countdown(5_000)), chance=["done"])
        for _ in range(5_000):
            env.step(0)
        assert env.actions[-1] == "done"

    def test_surplus_in_a_small_game_that_tells_no_limit_is_refused(self) -> None:
        with pytest.raises(ValueError, match="want at most 1 chance outcomes, got 2"):
            started(GameEnv(Countdown(50)), chance=["done", "done"])

    def test_outcomes_that_a_short_episode_leaves_over_are_taken(self) -> None:
        env = started(arena_envs.make("leduc_poker"), chance=[0, 2, 4])
        assert env.actions == [0, 2]

    def test_other_options_are_ignored(self) -> None:
        env = started(kuhn(), 0, what=1)
        assert env.game_state == started(kuhn(), 0).game_state


class TestStep:
    @pytest.mark.parametrize(
        "action", [-1, 2, "bet", None, 0.0, True, np.bool_(True), np.float32(1), [0]]
    )
    def test_an_illegal_action_is_named_and_changes_nothing(self, action: Any) -> None:
        env = started(kuhn())
        before = snapshot(env)
        with pytest.raises(
            ValueError, match=r"player_0 played .*legal are \[0, 1\]"
        ) as e:
            env.step(action)
        assert type(action).__name__ in str(e.value)
        assert snapshot(env) == before

    @pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8])
    def test_numpy_integers_are_actions(self, kind: Any) -> None:
        env = started(kuhn())
        env.step(kind(1))
        assert env.actions[-1] == 1
        assert type(env.actions[-1]) is int

    def test_before_the_first_reset_and_after_the_end_it_asks_for_a_reset(self) -> None:
        env = kuhn()
        with pytest.raises(ValueError, match=r"call reset\(\)"):
            env.step(0)
        with pytest.raises(ValueError, match=r"call reset\(\)"):
            env.last()
        assert env.legal_actions() == ()
        play_randomly(started(env), random.Random(0))
        assert env.agents == []
        assert env.legal_actions() == ()
        with pytest.raises(ValueError, match=r"call reset\(\)"):
            env.step(None)

    @pytest.mark.parametrize("options", [5, [0], "chance"])
    def test_options_that_are_no_mapping_are_refused(self, options: Any) -> None:
        with pytest.raises(ValueError, match="want options as a mapping such as"):
            kuhn().reset(options=options)

    def test_a_misspelt_option_is_refused_and_one_of_a_test_kit_ignored(self) -> None:
        with pytest.raises(ValueError, match=r"'chanse' .*; did you mean 'chance'\?"):
            kuhn().reset(options={"chanse": [0, 1]})
        with pytest.raises(ValueError, match="'sample' of reset is one of SeatEnv"):
            kuhn().reset(seed=0, options={"sample": 1})
        kuhn().reset(options={"options": 1})

    def test_agents_whose_episode_is_over_leave_with_none(self) -> None:
        env = started(kuhn())
        env.step(0)
        env.step(0)
        assert env.legal_actions() == ()
        for agent in ("player_0", "player_1"):
            assert env.agent_selection == agent
            with pytest.raises(ValueError, match=rf"{agent} .* can only play None"):
                env.step(0)
            env.step(None)
            assert agent not in env.agents
        assert env.agents == []
        assert [env.terminations, env.rewards, env.infos] == [{}, {}, {}]

    @pytest.mark.parametrize("game", GAMES, ids=repr)
    def test_the_dicts_always_have_the_keys_of_agents(self, game: Any) -> None:
        env = started(GameEnv(game))
        while env.agents:
            for values in (
                env.rewards,
                env._cumulative_rewards,
                env.terminations,
                env.truncations,
                env.infos,
            ):
                assert list(values) == env.agents
            env.step(next(iter(env.legal_actions()), None))

    def test_a_failing_chance_outcome_in_mid_game_changes_nothing(self) -> None:
        env = started(GameEnv(LateChance()), chance=["no such card"])
        before = snapshot(env)
        with pytest.raises(ValueError, match="want a chance outcome among"):
            env.step(0)
        assert snapshot(env) == before

    def test_a_step_that_fails_keeps_the_outcomes_that_were_given(self) -> None:
        env = started(GameEnv(LateChance(3)), chance=[2, 1, 1])
        before = everything(env)
        with pytest.raises(ValueError, match="want a chance outcome among"):
            env.step(0)
        assert everything(env) == before


@dataclass(frozen=True)
class Countdown(BaseGame[int, Any]):
    """Counts down to a chance node; it does not tell how many of these there are."""

    num_turns: int

    num_players, num_actions = 1, 1
    kind = "competitive"
    information = "perfect"
    min_return, max_return = 0.0, 0.0

    @property
    def max_turns(self) -> int:
        return self.num_turns

    def initial_state(self) -> int:
        return self.num_turns

    def current_player(self, state: int) -> int:
        return 0 if state > 0 else CHANCE if state == 0 else TERMINAL

    def chance_outcomes(self, state: int) -> list[tuple[str, float]]:
        return [("done", 1.0)] if state == 0 else []

    def legal_actions(self, state: int) -> list[int]:
        return [0] if state > 0 else []

    def apply(self, state: int, action: Any) -> int:
        return state - 1

    def returns(self, state: int) -> tuple[float]:
        return (0.0,)

    def observe(self, state: int, seat: int) -> str:
        return f"{state} left."

    def information_state(self, state: int, seat: int) -> int:
        return state

    def features(self, state: int, seat: int) -> Any:
        return np.array([state], np.float32)

    def action_text(self, state: int, action: Any) -> str:
        return "count"

    def rules(self, seat: int) -> str:
        return "Count down."


@dataclass(frozen=True)
class LateChance(KuhnPoker):
    """Kuhn poker in which player_0 bets or passes before the last card is dealt."""

    def current_player(self, state: Any) -> int:
        if not state.cards and not state.bets:
            return 0
        return super().current_player(state)

    def legal_actions(self, state: Any) -> Any:
        return (0, 1) if self.current_player(state) >= 0 else ()

    def apply(self, state: Any, action: int) -> Any:
        if not state.cards and not state.bets:
            return state._replace(bets=(action,))
        return super().apply(state, action)


class TestRewards:
    def test_last_reports_all_that_was_paid_since_the_agents_own_last_action(
        self,
    ) -> None:
        env = started(GameEnv(Passing()))
        rng = random.Random(2)
        acted: dict[str, float] = {}  # returns when the agent last acted
        for agent in env.agent_iter():
            _, reward, terminated, _, _ = env.last()
            seat = env.possible_agents.index(agent)
            assert reward == env.returns[seat] - acted.get(agent, 0)
            assert isinstance(reward, float)
            acted[agent] = env.returns[seat]
            env.step(None if terminated else rng.choice(env.legal_actions()))
        assert list(acted.values()) == list(env.returns)

    def test_rewards_are_those_of_the_last_step_and_sum_to_the_returns(self) -> None:
        env = started(GameEnv(Passing()))
        sums = dict.fromkeys(env.agents, 0.0)
        for action in (2, 0, 1, 0, 0, 2, 1):
            seat = env.possible_agents.index(env.agent_selection)
            env.step(action)
            expected = [0.0, 0.0, 0.0]
            expected[seat] += action
            expected[seat - 1] += 2 * action
            assert list(env.rewards.values()) == expected
            for agent, reward in env.rewards.items():
                sums[agent] += reward
        assert tuple(sums.values()) == env.returns
        assert env.returns == env.game.returns(env.game_state)


class TestTruncation:
    def test_max_turns_truncates_and_pays_what_was_earned(self) -> None:
        env = started(GameEnv(Passing(), max_turns=2))
        env.step(1)
        assert not any(env.truncations.values())
        env.step(1)
        assert all(env.truncations.values())
        assert not any(env.terminations.values())
        assert env.returns == (3, 1, 2)
        assert env.last()[1] == 3.0  # 1 by its own action, 2 by the next
        play_randomly(env, random.Random(0))
        assert env.agents == []

    def test_an_episode_that_ends_with_its_last_turn_is_terminated(self) -> None:
        env = started(kuhn(max_turns=2))
        env.step(0)
        env.step(0)
        assert all(env.terminations.values())
        assert not any(env.truncations.values())

    @pytest.mark.parametrize("max_turns", [0, -1])
    def test_less_than_one_turn_is_refused(self, max_turns: int) -> None:
        with pytest.raises(
            ValueError, match="want max_turns as an integer above 0, got"
        ):
            kuhn(max_turns=max_turns)


class TestForfeit:
    @pytest.mark.parametrize("agent", ["player_0", "player_1"])
    def test_the_offender_falls_to_the_lowest_return(self, agent: str) -> None:
        env = started(kuhn())
        env.forfeit(agent)
        assert all(env.terminations.values())
        assert env.forfeited_by == env.possible_agents.index(agent)
        rewards = {agent: env._cumulative_rewards[agent] for agent in env.agents}
        assert rewards == {"player_0": 2.0, "player_1": 2.0} | {agent: -2.0}
        play_randomly(env, random.Random(0))

    def test_in_larger_games_a_default_action_is_played_and_costs_the_offender(
        self,
    ) -> None:
        env = started(GameEnv(Passing()))
        env.step(2)
        env.forfeit("player_1")
        assert env.returns == (2, -10.5, 4)  # a tenth of the range
        assert env.rewards == {"player_0": 0.0, "player_1": -10.5, "player_2": 0.0}
        assert env._cumulative_rewards["player_2"] == 4.0
        assert (env.agent_selection, env.actions) == ("player_2", [2, 0])
        with pytest.raises(ValueError, match="'player_0' is not to move"):
            env.forfeit("player_0")

    def test_in_a_larger_zero_sum_game_the_others_share_the_penalty(self) -> None:
        env = started(arena_envs.make("kuhn_poker", num_players=3))
        env.forfeit("player_0")
        assert env.returns == pytest.approx((-0.6, 0.3, 0.3))  # of -2 to 4
        play_randomly(env, random.Random(0))
        assert sum(env.returns) == pytest.approx(0)

    @pytest.mark.parametrize("offender", ["player_0", "player_1", "player_2"])
    def test_last_pays_once_whoever_forfeits(self, offender: str) -> None:
        env = started(GameEnv(Passing()))
        totals = dict.fromkeys(env.possible_agents, 0.0)
        for agent in env.agent_iter():
            _, reward, termination, truncation, _ = env.last()
            totals[agent] += reward
            if termination or truncation:
                env.step(None)
            elif agent == offender:
                env.forfeit(offender)
            else:
                env.step(2)
        assert tuple(totals.values()) == env.returns

    def test_only_agents_that_play_can_forfeit(self) -> None:
        env = kuhn()
        with pytest.raises(ValueError, match="'player_0' is not playing"):
            env.forfeit("player_0")
        env.reset()
        with pytest.raises(ValueError, match="'player_9' is not playing"):
            env.forfeit("player_9")
        env.forfeit("player_1")
        with pytest.raises(ValueError, match="'player_1' is not playing"):
            env.forfeit("player_1")

    def test_the_next_episode_starts_clean(self) -> None:
        env = started(kuhn())
        env.forfeit("player_0")
        env.reset()
        assert env.forfeited_by is None
        assert env.returns == (0.0, 0.0)


class TestLanguageGame:
    def test_words_beyond_the_finite_core_are_played(self) -> None:
        env = started(GameEnv(Hint()), chance=["blue"])
        env.step("  Sky ")
        assert env.observe("player_1")["text"] == "Said: sky."
        env.step("BLUE")
        assert env.actions == ["blue", "sky", "blue"]
        assert env.returns == (1.0, 1.0)

    @pytest.mark.parametrize(
        "text", ["", "two words", "x" * 10**6, "\ud800 \x00", "🂡 1"]
    )
    def test_a_text_that_cannot_be_read_is_a_forfeit(self, text: str) -> None:
        env = started(GameEnv(Hint()))
        env.step(text)
        assert env.forfeited_by == 0
        assert all(env.terminations.values())
        assert env.returns == (-1.0, -1.0)  # both are one team

    def test_what_is_no_text_is_refused(self) -> None:
        env = started(GameEnv(Hint()))
        before = snapshot(env)
        with pytest.raises(ValueError, match=r"want a text as action, got 0 \(int\)"):
            env.step(0)
        assert snapshot(env) == before

    def test_the_actions_that_it_lists_are_played_as_their_texts(self) -> None:
        env = started(arena_envs.make("bargaining"), chance=[0.9, 0.86])
        env.step("A good day to you! offer 30")
        said = env.actions[2]
        assert said == ("offer", (3000,), "A good day to you!", ())
        accept, _ = env.legal_actions()
        for other in (None, tuple(accept), said, np.zeros(3), b"accept"):
            with pytest.raises(ValueError, match="want a text as action"):
                env.step(other)
        env.step(accept)
        assert env.returns == (0.7, 0.3)


def clone(env: GameEnv) -> GameEnv:
    return env.clone()


def test_a_copy_from_a_seed_draws_chance_of_its_own() -> None:
    """The last card is dealt after player_0 has moved; the first two are alike."""
    env = started(GameEnv(LateChance()), 7)
    deals = []
    for seed in [None, None, *range(8)]:
        twin = env.clone(seed)
        again = env.clone(seed)
        twin.step(0)
        again.step(0)
        assert twin.actions == again.actions
        deals.append(tuple(twin.actions))
    assert deals[0] == deals[1]
    assert len(set(deals)) > 2
    with pytest.raises(ValueError, match="want"):
        env.clone(-1)


def pickled(env: GameEnv) -> GameEnv:
    copied: GameEnv = pickle.loads(pickle.dumps(env))
    return copied


COPIES = [clone, copy.copy, copy.deepcopy, pickled]


@pytest.mark.parametrize("copied", COPIES)
class TestCopies:
    @pytest.mark.parametrize("game", [*GAMES, LateChance()], ids=repr)
    def test_a_copy_continues_identically_from_every_turn(
        self, game: Any, copied: Callable[[GameEnv], GameEnv]
    ) -> None:
        env, rng = started(GameEnv(game), 7), random.Random(7)
        while env.agents:
            twin, again = copied(env), copied(env)
            assert snapshot(twin) == snapshot(env)
            assert play_randomly(twin, random.Random(1)) == play_randomly(
                again, random.Random(1)
            )
            twin.reset()
            again.reset()
            assert snapshot(twin) == snapshot(again)
            legal = env.legal_actions()
            env.step(rng.choice(legal) if legal else None)

    def test_playing_a_copy_does_not_touch_the_original(
        self, copied: Callable[[GameEnv], GameEnv]
    ) -> None:
        env = started(kuhn(), 3)
        before = snapshot(env)
        twin = copied(env)
        play_randomly(twin, random.Random(0))
        for _ in range(5):
            twin.reset()
        twin.infos["player_0"]["note"] = 1
        assert snapshot(env) == before
        other = started(kuhn(), 3)
        for _ in range(5):  # the generator is untouched too
            env.reset()
            other.reset()
            assert env.game_state == other.game_state

    def test_playing_the_original_does_not_touch_a_copy(
        self, copied: Callable[[GameEnv], GameEnv]
    ) -> None:
        env, other = started(kuhn(), 3), started(kuhn(), 3)
        twin, third = copied(env), copied(copied(env))
        deals = []
        for _ in range(5):
            env.reset()
            deals.append(env.game_state)
        for mirror in (twin, third, other):
            found = []
            for _ in range(5):
                mirror.reset()
                found.append(mirror.game_state)
            assert found == deals

    def test_chance_outcomes_to_come_are_copied(
        self, copied: Callable[[GameEnv], GameEnv]
    ) -> None:
        env = started(GameEnv(LateChance()), chance=[2, 0])
        twin = copied(env)
        env.step(1)
        twin.step(1)
        assert env.game_state.cards == twin.game_state.cards == (2, 0)

    def test_an_environment_can_be_copied_before_its_first_reset(
        self, copied: Callable[[GameEnv], GameEnv]
    ) -> None:
        env = kuhn()
        twin = copied(env)
        assert twin.agents == []
        env.reset()
        twin.reset()
        assert env.game_state == twin.game_state


class TestRendering:
    def test_ansi_returns_what_the_agent_to_move_sees(self) -> None:
        env = started(kuhn(render_mode="ansi"), chance=[0, 1])
        env.step(1)
        text = env.render()
        assert "player_0:\n  [?]\nplayer_1:\n  [Q]\nactions:\n  player_0 bet\n" in text

    def test_human_prints_each_turn(self, capsys: pytest.CaptureFixture[str]) -> None:
        env = started(kuhn(render_mode="human"), chance=[0, 1])
        env.step(1)
        printed = capsys.readouterr().out
        assert printed.count("is to move") == 2
        assert printed.index("[J]") < printed.index("[Q]")

    def test_a_text_is_returned_and_nothing_printed_by_default(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        env = started(kuhn(), chance=[0, 1])
        assert env.render() == started(kuhn(render_mode="ansi"), chance=[0, 1]).render()
        env.close()
        assert capsys.readouterr().out == ""

    def test_it_works_before_and_after_an_episode(self) -> None:
        env = kuhn(render_mode="ansi")
        assert isinstance(env.render(), str)
        play_randomly(started(env), random.Random(0))
        assert isinstance(env.render(), str)

    def test_an_unknown_mode_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"want render_mode .* got 'video'"):
            kuhn(render_mode="video")


class TestMetadata:
    def test_the_name_is_the_id(self) -> None:
        assert str(kuhn()) == "kuhn_poker_v0"
        assert str(GameEnv(Passing())) == "Passing"

    def test_agents_are_players_by_seat(self) -> None:
        env = kuhn(num_players=3)
        assert env.possible_agents == ["player_0", "player_1", "player_2"]
        assert env.metadata["is_parallelizable"] is False


class TestRememberedStates:
    def test_environments_of_equal_games_share_them(self) -> None:
        env = started(GameEnv(KuhnPoker(4)))
        assert nodes.graph_of(KuhnPoker(4)) is env._graph
        assert nodes.graph_of(KuhnPoker(3)) is not env._graph

    def test_a_game_that_cannot_be_hashed_is_played_too(self) -> None:
        @dataclass(frozen=True)
        class Listed(KuhnPoker):
            names: Any = ()

        play_randomly(started(GameEnv(Listed(names=["a"]))), random.Random(0))

    def test_forgetting_them_changes_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def episodes(game: Any) -> list[Any]:
            env = GameEnv(game)
            return [
                play_randomly(started(env, seed), random.Random(seed))
                for seed in range(20)
            ]

        expected = episodes(KuhnPoker(3))
        monkeypatch.setattr(nodes, "MAX_NODES", 3)
        graph = nodes.Graph(KuhnPoker(3))
        monkeypatch.setattr("arena_envs.env.graph_of", lambda game: graph)
        assert episodes(KuhnPoker(3)) == expected
        assert len(graph._nodes) <= 3

    def test_what_follows_is_kept_from_the_second_time_on(self) -> None:
        graph = nodes.Graph(KuhnPoker(3))
        first = graph.child(graph.root, 0)
        second, third = graph.child(graph.root, 0), graph.child(graph.root, 0)
        assert first is not second
        assert second is third
        assert first.state == second.state
        assert len(graph._nodes) == 2

    def test_states_with_the_same_legal_actions_do_not_share_a_mask_to_write_to(
        self,
    ) -> None:
        env = started(kuhn())
        env.observe(env.agent_selection)["action_mask"][:] = 7
        assert set(env.observe(env.agent_selection)["action_mask"]) == {1}
        env.step(0)
        assert set(env.observe(env.agent_selection)["action_mask"]) == {1}

    def test_a_held_environment_does_not_keep_what_was_played_below_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(nodes, "MAX_NODES", 50)
        held = started(kuhn(num_players=4))
        for seed in range(200):
            play_randomly(held.clone(), random.Random(seed))
        reached, stack = set(), [held._node]
        while stack:
            node = stack.pop()
            if id(node) not in reached:
                reached.add(id(node))
                stack += node.children.values()
        assert len(reached) <= 60

    def test_equal_games_that_read_differently_do_not_share_them(self) -> None:
        @dataclass(frozen=True)
        class Styled(KuhnPoker):
            style: str = field(default="a", compare=False)

            def observe(self, state: Any, seat: int) -> str:
                return self.style

        texts = [
            started(GameEnv(Styled(style=style))).observe("player_0")["text"]
            for style in "ab"
        ]
        assert texts == ["a", "b"]


def test_an_agent_and_an_action_that_are_none_are_refused() -> None:
    env = arena_envs.make("kuhn_poker")
    env.reset(seed=0)
    for function in (env.observe, env.observation_space, env.action_space):
        with pytest.raises(
            ValueError, match="want an agent among player_0, player_1, got 0"
        ):
            function(0)
    with pytest.raises(
        ValueError, match=r"legal are \[0, 1\]; PromptWrapper\(env\) takes"
    ):
        env.step("bet")
