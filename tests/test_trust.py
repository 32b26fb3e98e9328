"""What text of strangers may name: registered names, and what an operator named before."""

import sys
import threading

import pytest

from arena_envs import make, make_game, trust
from arena_envs.registry import imported
from arena_envs.trust import NotTrusted, named_only, no_code
from arena_wrappers import make_policy

GAMES = [
    "own_code:Game",
    "os:system(kuhn_poker, command='echo')",
    "disguise:3(own_code:wrap(kuhn_poker))",
    "questions(source='own_code:tasks')",
    "questions(source={own_code:tasks: {}})",
    "questions(source='jsonl:/etc/hostname')",
    "questions(protocol=/etc/own.toml)",
    "codenames(words=/etc/hostname)",
    "goal(kuhn_poker, at=own_code:reached)",
    "start:/etc/hostname@0.5(kuhn_poker)",
]
POLICIES = [
    "own_code:Bot",
    "noisy:0.1(own_code:Bot)",
    "ismcts:999999999",
    "mcts(num_simulations=1e99)",
    "cfr(max_states=999999999)",
    "noisy:0.1(ismcts:999999999)",
    "lm:runs/a/model",
    "api:model@http://127.0.0.1:1/v1",
    "vllm:http://127.0.0.1:1",
    "array:torchrl:actor.pt",
    "best_of:2(random, reward:runs/a)",
    "agent:verify(random)",
    "human",
]


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    monkeypatch.setattr(trust, "_named_by_operators", set())  # of other tests


@pytest.mark.parametrize("game", GAMES)
def test_a_stranger_names_no_code_and_no_file_as_a_game(game):
    with named_only(), pytest.raises(NotTrusted, match="allow-code"):
        make_game(game)
    assert "own_code" not in sys.modules


@pytest.mark.parametrize("policy", POLICIES)
def test_a_stranger_names_no_code_no_model_and_no_endless_search_as_a_policy(policy):
    with named_only(), pytest.raises(NotTrusted, match="allow-code"):
        make_policy(policy)


def test_a_stranger_names_registered_games_and_policies():
    with named_only():
        assert make_game("disguise:3(leduc_poker)").num_players == 2
        assert make("questions(source='arithmetic(largest=9)')").game
        assert make_policy("noisy:0.1(mcts:100)").name == "noisy:0.1(mcts:100)"


def test_the_refusal_names_the_module_and_the_flag():
    with named_only(), pytest.raises(NotTrusted, match=r"module 'os'.*--allow-code"):
        make_game("os:system(kuhn_poker, command='echo')")


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    text = (
        "from arena_envs.games.kuhn_poker import KuhnPoker as Named, KuhnPoker as Other"
    )
    (tmp_path / "own_code.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("own_code", None)


def test_what_an_operator_named_may_be_named_by_files_of_the_same_process(own_code):
    make_game("own_code:Named", num_players=3)
    with named_only():
        assert make_game("own_code:Named").num_players == 2
        with pytest.raises(NotTrusted, match="own_code:Other"):
            make_game("own_code:Other")


def test_the_outermost_block_holds(own_code):
    with named_only(), named_only(allow_code=True), pytest.raises(NotTrusted):
        make_game("own_code:Other")
    with named_only(allow_code=True), named_only():
        assert make_game("own_code:Other")
    with named_only(), pytest.raises(NotTrusted):  # a trusted file is no operator
        make_game("own_code:Other")


def test_without_code_files_may_be_named_and_code_may_not(own_code, tmp_path):
    (tmp_path / "words.txt").write_text("sun\ntea\n")
    with no_code():
        assert make_game("wordle(words=words.txt, num_words=2, max_guesses=2)")
        with pytest.raises(NotTrusted, match="own_code"):
            make_game("own_code:Third")
        with named_only(), pytest.raises(NotTrusted, match="would open a file"):
            make_game("wordle(words=other.txt)")


def test_a_block_ends_with_its_thread_of_control():
    with named_only():
        found = []
        thread = threading.Thread(
            target=lambda: found.append(imported("json:dumps", ""))
        )
        thread.start()
        thread.join()
    assert found


def test_what_lies_in_the_working_directory_is_no_installed_plug_in(own_code, tmp_path):
    info = tmp_path / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[arena.policies]\nevil = own_code:Named\n")
    make_game("own_code:Named")  # puts the directory into the path
    assert str(tmp_path) in sys.path
    with named_only(), pytest.raises(ValueError, match="no policy 'evil'"):
        make_policy("evil")
