"""Ids, presets, plug-ins and the two registries."""

import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium
import pettingzoo
import pytest

import arena_envs
from arena_envs import GameEnv
from arena_envs.games.kuhn_poker import KuhnPoker

has_registry = pytest.mark.skipif(
    not hasattr(pettingzoo, "make"), reason="PettingZoo has a registry since 1.27"
)


def run(code: str, *folders: Path) -> str:
    """What a fresh interpreter prints; `folders` are on its path."""
    lines = [f"import sys; sys.path[:0] = {[str(folder) for folder in folders]}"]
    command = [sys.executable, "-c", "\n".join([*lines, textwrap.dedent(code)])]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


class TestMake:
    @pytest.mark.parametrize("id", ["kuhn_poker-v0", "kuhn_poker", "arena/kuhn_poker"])
    def test_every_spelling_of_an_id_makes_the_game(self, id: str) -> None:
        env = arena_envs.make(id)
        assert isinstance(env, GameEnv)
        assert env.id == "kuhn_poker-v0"
        assert env.game == arena_envs.make_game(id) == KuhnPoker()

    def test_parameters_reach_the_game_and_options_the_environment(self) -> None:
        env = arena_envs.make(
            "kuhn_poker", num_players=3, max_turns=4, render_mode="ansi"
        )
        assert env.game == KuhnPoker(3)
        assert (env.max_turns, env.render_mode) == (4, "ansi")
        assert arena_envs.make_game("kuhn_poker", num_players=4) == KuhnPoker(4)

    @pytest.mark.parametrize(
        ("id", "advice"),
        [
            ("khun_poker", "did you mean 'kuhn_poker-v0'?"),
            ("arena/kuhn-poker-v0", "did you mean 'kuhn_poker-v0'?"),
            ("kuhn_poker-v7", "did you mean 'kuhn_poker-v0'?"),
            ("zzz", "known are "),
        ],
    )
    def test_an_unknown_id_gets_advice(self, id: str, advice: str) -> None:
        for function in (arena_envs.make, arena_envs.make_game):
            with pytest.raises(ValueError, match="unknown game") as caught:
                function(id)
            assert repr(id) in str(caught.value)
            assert advice in str(caught.value)

    def test_a_class_without_an_id_is_named_by_its_module(self) -> None:
        name = "arena_envs.games.kuhn_poker:KuhnPoker"
        env = arena_envs.make(name, num_players=3)
        assert (env.id, env.game) == (name, KuhnPoker(3))
        with pytest.raises(ValueError, match="did you mean 'num_players'"):
            arena_envs.make(name, num_player=3)

    @pytest.mark.parametrize(
        ("name", "advice"),
        [
            ("arena_envs.games.kuhn_poker:KunhPoker", "did you mean 'KuhnPoker'"),
            ("no_such_module:Game", "there is no module 'no_such_module' in the work"),
            ("arena_envs.gmaes.kuhn:Kuhn", "there is no module 'arena_envs.gmaes'"),
            (":Game", "want a game as 'module:Class', got ':Game'"),
            ("..games:Game", "want a game as 'module:Class'"),
        ],
    )
    def test_a_class_that_is_not_there_gets_advice(
        self, name: str, advice: str
    ) -> None:
        with pytest.raises(ValueError, match=advice):
            arena_envs.make(name)

    @pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "os:getcwd"])
    def test_what_is_no_game_is_not_called(self, name: str) -> None:
        with pytest.raises(ValueError, match="no game"):
            arena_envs.make(name)

    def test_a_module_that_fails_is_named_with_its_line(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "failing_game.py").write_text("\n1 / 0\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(
            ImportError, match=r"ZeroDivisionError: .* \(failing_game.py:2\)"
        ):
            arena_envs.make("failing_game:Game")

    def test_an_unknown_parameter_gets_advice(self) -> None:
        with pytest.raises(ValueError, match="has no parameter 'num_player'") as caught:
            arena_envs.make("kuhn_poker", num_player=3)
        assert "did you mean 'num_players'?" in str(caught.value)

    def test_a_parameter_out_of_range_is_refused_by_the_game(self) -> None:
        with pytest.raises(ValueError, match="num_players from 2 to 4, got 9"):
            arena_envs.make("kuhn_poker", num_players=9)


class TestRegistries:
    @has_registry
    @pytest.mark.parametrize("id", ["arena/kuhn_poker-v0", "arena/kuhn_poker"])
    def test_pettingzoo_makes_it(self, id: str) -> None:
        env = pettingzoo.make("aec", id, num_players=3, max_turns=2)
        assert isinstance(env, GameEnv)
        assert env.game == KuhnPoker(3)
        assert env.max_turns == 2

    @has_registry
    @pytest.mark.parametrize("id", [info.id for info in arena_envs.game_infos()])
    def test_every_game_is_in_pettingzoos_registry(self, id: str) -> None:
        env = pettingzoo.make("aec", f"arena/{id}")
        assert isinstance(env, GameEnv)
        (info,) = (info for info in arena_envs.game_infos() if info.id == id)
        assert (env.id, len(env.possible_agents)) == (id, info.num_players)

    def test_every_game_has_a_gymnasium_id(self) -> None:
        for info in arena_envs.game_infos():
            name, version = info.id.split("-")
            for spelling in (info.id, f"{name.title().replace('_', '')}-{version}"):
                spec = gymnasium.spec(f"arena/{spelling}")
                assert spec.kwargs == {"game": info.id}

    def test_gymnasium_makes_one_seat(self) -> None:
        pytest.importorskip("arena_wrappers")
        env = gymnasium.make("arena/KuhnPoker-v0", seat=1, observation="text")
        observation, _ = env.reset(seed=0)
        assert observation.startswith("You are player_1")

    def test_gymnasium_imports_the_games_by_the_prefix(self) -> None:
        pytest.importorskip("arena_wrappers")
        found = run(
            """
            import gymnasium
            env = gymnasium.make("arena_envs:arena/TicTacToe-v0")
            print(sorted(env.reset(seed=0)[0]))
            """
        )
        assert found == "['action_mask', 'observation']"


class TestGames:
    def test_they_are_listed_by_id_with_their_facts(self) -> None:
        infos = arena_envs.game_infos()
        assert [info.id for info in infos] == sorted(info.id for info in infos)
        (kuhn,) = (info for info in infos if info.id == "kuhn_poker-v0")
        assert kuhn == arena_envs.GameInfo(
            id="kuhn_poker-v0",
            kind="competitive",
            num_players=2,
            information="imperfect",
            split="train",
            extra=None,
        )


class TestRegister:
    def test_the_newest_version_is_the_highest_number(self) -> None:
        found = run(
            """
            import arena_envs
            for version in (2, 10, 9):
                target = "arena_envs.games.kuhn_poker:KuhnPoker"
                arena_envs.register(f"cards-v{version}", target, num_players=3)
            print(arena_envs.make("cards").id, arena_envs.make("cards").game)
            print(arena_envs.make("cards-v9", num_players=4).game)
            """
        )
        assert found == "cards-v10 KuhnPoker(num_players=3)\nKuhnPoker(num_players=4)"

    @pytest.mark.parametrize("id", ["Kuhn-v0", "kuhn", "kuhn-v", "arena/kuhn-v0", ""])
    def test_a_malformed_id_is_refused(self, id: str) -> None:
        with pytest.raises(ValueError, match="want a game id such as 'my_game-v0'"):
            arena_envs.register(id, "module:Class")

    def test_a_taken_id_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"'kuhn_poker-v0' is taken by arena_envs"):
            arena_envs.register("kuhn_poker-v0", "module:Class")

    def test_a_missing_extra_is_named(self) -> None:
        found = run(
            """
            import arena_envs
            facts = ("mixed", 5, "imperfect")
            arena_envs.register(
                "far-v0", "no_such_module:Far", extra="far", facts=facts
            )
            try:
                arena_envs.make("far")
            except ImportError as error:
                print(error)
            print([info for info in arena_envs.game_infos() if info.extra == "far"])
            """
        )
        assert "pip install '.[far]'" in found
        assert "No module named 'no_such_module'" in found
        assert (
            "[GameInfo(id='far-v0', kind='mixed', num_players=5, "
            "information='imperfect', split='train', extra='far')]"
        ) in found

    def test_a_game_with_an_extra_states_its_facts(self) -> None:
        with pytest.raises(ValueError, match="want facts of game 'far-v0'"):
            arena_envs.register("far-v0", "no_such_module:Far", extra="far")

    def test_chess_without_its_package_is_listed_and_says_what_to_install(self) -> None:
        found = run(
            """
            sys.modules["chess"] = None  # as if it were not installed
            import arena_envs
            print([info.id for info in arena_envs.game_infos() if info.extra == "chess"])
            try:
                arena_envs.make("chess")
            except ImportError as error:
                print(error)
            """
        )
        assert found.startswith("['chess-v0']\ngame 'chess-v0' cannot be loaded from")
        assert found.endswith(
            "install it in a clone of arena-envs: pip install '.[chess]'"
        )


class TestPlugins:
    @pytest.fixture
    def site(self, tmp_path: Path) -> Path:
        """A folder with an installed distribution that brings five games."""
        info = tmp_path / "strange_games-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: strange-games\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(
            "[arena.games]\n"
            "big_kuhn = strange_games:BigKuhn\n"
            "absent = strange_games:Absent\n"
            "exploding-v3 = strange_explosion:Game\n"
            "unmakeable = strange_games:Unmakeable\n"
            "kuhn_poker-v0 = strange_games:BigKuhn\n"
        )
        (tmp_path / "strange_games.py").write_text(
            textwrap.dedent(
                """
                from dataclasses import dataclass
                from arena_envs.games.kuhn_poker import KuhnPoker

                @dataclass(frozen=True)
                class BigKuhn(KuhnPoker):
                    num_players: int = 4

                class Unmakeable:
                    def __init__(self):
                        raise RuntimeError("not today")
                """
            )
        )
        (tmp_path / "strange_explosion.py").write_text("1 / 0\n")
        return tmp_path

    def test_its_game_is_made_like_any_other(self, site: Path) -> None:
        found = run(
            """
            import warnings
            warnings.simplefilter("ignore")
            import arena_envs
            print("strange_games" in sys.modules)
            print(arena_envs.make("big_kuhn").id, arena_envs.make_game("big_kuhn"))
            print(arena_envs.make_game("big_kuhn-v0", num_players=3))
            print(arena_envs.make_game("kuhn_poker"))
            """,
            site,
        )
        assert found.splitlines() == [
            "False",
            "big_kuhn-v0 BigKuhn(num_players=4)",
            "BigKuhn(num_players=3)",
            "KuhnPoker(num_players=2)",
        ]

    def test_broken_ones_are_named_and_do_not_break_the_rest(self, site: Path) -> None:
        found = run(
            """
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                import arena_envs
                ids = [info.id for info in arena_envs.game_infos()]
            print(" ".join(ids))
            messages = [w.message for w in caught if w.category is UserWarning]
            for message in messages:
                print("*", message)
            """,
            site,
        )
        ids, *messages = found.splitlines()
        assert {"big_kuhn-v0", "kuhn_poker-v0"} <= set(ids.split())
        assert not {"absent-v0", "exploding-v3", "unmakeable-v0"} & set(ids.split())
        assert len(messages) == 4
        for message, name, reason in zip(
            messages,
            ["kuhn_poker-v0", "absent-v0", "exploding-v3", "unmakeable-v0"],
            ["is taken", "no attribute 'Absent'", "ZeroDivisionError", "not today"],
            strict=True,
        ):
            assert repr(name) in message
            assert "strange-games" in message
            assert reason in message

    def test_a_skipped_one_is_warned_about_in_one_line(self, site: Path) -> None:
        found = run(
            """
            sys.stderr = sys.stdout
            import arena_envs
            """,
            site,
        )
        assert found == (
            "<plug-in strange-games>:1: UserWarning: game 'kuhn_poker-v0' of "
            "strange-games is skipped: game id 'kuhn_poker-v0' is taken by "
            "arena_envs.games.kuhn_poker:KuhnPoker"
        )

    def test_making_a_broken_one_names_it(self, site: Path) -> None:
        found = run(
            """
            import warnings
            warnings.simplefilter("ignore")
            import arena_envs
            try:
                arena_envs.make("exploding")
            except ImportError as error:
                print(error)
            """,
            site,
        )
        assert found == (
            "game 'exploding-v3' of plug-in 'strange-games' cannot be loaded from "
            "'strange_explosion:Game': ZeroDivisionError: division by zero"
        )


def test_importing_the_package_imports_no_game_and_no_training_library() -> None:
    found = run(
        """
        import arena_envs
        heavy = ("torch", "transformers", "trl", "pygame", "arena_wrappers", "rich")
        games = [name for name in sys.modules if name.startswith("arena_envs.games")]
        print(sorted(set(heavy) & set(sys.modules)), games)
        """
    )
    assert found == "[] []"


def test_games_with_simultaneous_choices_have_parallel_environments() -> None:
    env = pettingzoo.make("parallel", "arena/goofspiel-v0")
    env.reset(seed=0)
    assert len(env.agents) == 2
    with pytest.raises(
        ValueError, match=r'write pettingzoo.make\("aec", "arena/kuhn_po'
    ):
        pettingzoo.make("parallel", "arena/kuhn_poker-v0")
