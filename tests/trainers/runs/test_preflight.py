"""What `arena train` refuses before it imports torch, and its list of options."""

import os
import subprocess
import sys

import pytest
import yaml

from arena_envs import extras
from arena_trainers.cli.train_help import train_help
from arena_trainers.cli.train_request import read_request
from arena_trainers.options import GROUPS, MAPPINGS, options_of
from arena_trainers.runs.checks import preflight
from arena_trainers.runs.folder import write_config
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train import listed_options as option_list
from arena_trainers.train.config import training_options
from arena_trainers.train.listed_options import installed_versions, listed_options

PLANNER = ["--agent", "planner_worker", "--roles"]
REFUSED = [
    (["--learning_rat", "1"], "did you mean 'learning_rate'?"),
    (["--evaluate_evry", "1"], "did you mean 'evaluate_every'?"),
    (["--seed", "one"], "want an integer as seed, got 'one'"),
    (["--lr_scheduler_type", "liner"], "did you mean 'linear'?"),
    (["kuhn-tyni"], "did you mean 'kuhn-tiny'?"),
    (["--games", "khun_poker"], "did you mean 'kuhn_poker"),
    (["--games", "kuhn_poker,tictactoe"], "did you mean 'tic_tac_toe"),
    (["--opponents", "rndom"], "no policy 'rndom'"),
    (["--opponents", "self,minmax"], "no policy 'minmax'"),
    (["--opponents", "past:run@20"], "past:RUN works in arena eval"),
    (["--opponents", "past_selfs"], "or the matchmaker 'past_selves'"),
    (["--opponents", "self,psro"], "give it alone: --opponents psro"),
    (["--opponents", "{psro: {evry: 1}}"], "did you mean 'every'?"),
    (["--opponents", "psro", "--games", "mini_hanabi"], "zero-sum games of two seats"),
    (["tic-tac-toe-tiny", "--opponents", "mcts:10"], "--games tic_tac_toe"),
    (["tic-tac-toe-tiny", "--opponents", "self,random"], "leave opponents out"),
    (["--credit", "mras"], "did you mean 'mars'?"),
    (["--prompt.reply_format", "bear"], "did you mean 'bare'?"),
    (["--report_to", "wandbb"], "did you mean 'wandb'?"),
    ([""], "want a recipe file, found none at ''"),
    (["--max_steps", "0"], "want max_steps of at least 1"),
    (["--num_generations", "1"], "want num_generations of at least 2"),
    (["--episodes_per_step", "0"], "want episodes_per_step of at least 1, got 0"),
    (["--save_steps", "0"], "want save_steps above 0, got 0"),
    (["--use_vllm", "true", "--top_k", "5"], "use_vllm does not support top_k"),
    (
        ["--lora.r", "4", "--sync_ref_model", "true"],
        "lora_r does not support sync_ref_model",
    ),
    (
        [*PLANNER, "{planner: {}, worker: {}}", "--sync_ref_model", "true"],
        "roles does not support sync_ref_model",
    ),
    (["--beta", "0", "--sync_ref_model", "true"], "give --sync_ref_model false"),
    (
        ["--agent", "planner_worker", "--credit", "gae", "--critic", "exact"],
        "agent 'planner_worker' does not support critic 'exact'",
    ),
    (
        ["--columns", "{value: {reward: no}}", "--agent", "planner_worker"],
        "agent 'planner_worker' does not support columns 'value'",
    ),
    (
        [
            *("--update", "sequential", "--roles", "{0: {}, 1: {}}"),
            *("--num_iterations", "2", "--save_steps", "3"),
        ],
        "want save_steps divisible by 2",
    ),
    (["--credit", "control_variates", "--critic", "exact"], "give a credit that does"),
    (
        ["--credit", "gae", "--critic", "features(hidden_size=0)"],
        "want an integer hidden_size from 1 to 10000, got 0",
    ),
    (
        [*PLANNER, "{planner: {}, worker: {lora_r: 4}}"],
        "roles['planner'] beside adapters; give",
    ),
    ([*PLANNER, "{boss: {lora_r: 4}}"], "the roles planner, worker, got boss"),
    ([*PLANNER, "{planner: 3}"], "got planner"),
    (["--roles", "{planner: {}, worker: {}}"], "roles by name need agent; give it, as"),
    (["--roles", "{0: {lora_r: 4}}"], "want roles for seat 1 of kuhn_poker, which"),
    (
        ["--roles", "{0: {}, 1: {}}", "--use_vllm", "true", "--vllm_mode", "server"],
        "snapshots, or several learners, only where LoRA adapters are trained",
    ),
    (["--roles", "{0: 3}"], "want roles[0] as {lora_r: 8}, an adapter"),
    (["--roles", "{0: {lora_r: 2.5}}"], "an integer roles[0] lora_r from 1 to 4096"),
    (
        [*PLANNER, "{planner: {}, worker: {model: no/model}}"],
        "`hf download no/model`",
    ),
    ([*PLANNER, "{planner: {}, worker: {model: 3}}"], "or as {model: PATH}, a whole"),
    (["--losses", "{kickstart: {teacher: cfrr}}"], "no policy 'cfrr'; did you mean"),
    (["--opponents", "self,human"], "want no person in training, got 'human'"),
    (["--lora.alpha", "4"], "its r is 0; give a rank: --lora r=16"),
    (["--seed", "--prompt.rules", "false"], "option --seed lacks a value"),
    (["-seed", "1"], "options have two hyphens"),
    (["--seed", "1", "kuhn-tiny"], "arena train kuhn-tiny --seed 1"),
    (["--games", "a", "b"], "quote a value that has spaces"),
    (["--model", "no/such/folder"], "got 'no/such/folder', which does not exist"),
    (["--model", "org/absent"], "download it with `hf download org/absent`"),
    (["ppo"], "`hf download Qwen/Qwen3-1.7B --local-dir models/Qwen3-1.7B`"),
    (["--opponents", "self,lm:org/absent"], "`hf download org/absent`"),
    (["--opponents", "self,noisy:0.1(lm:org/absent)"], "`hf download org/absent`"),
    (["--resume", "no/run"], "want a run folder to resume, found none at 'no/run'"),
    (["--resume", "run", "--seed", "1"], "alone or with --max_steps N"),
    (["kuhn-tiny", "--resume", "run"], "got the recipe 'kuhn-tiny' too"),
]


def test_names_types_and_recipes_are_refused_in_two_cpu_seconds(tmp_path):
    """In a process of its own, by whose end torch has not been imported."""
    code = f"""
import contextlib, io, json, sys, time
from arena_trainers.cli import main as cli
for arguments, message in {REFUSED!r}:
    began = time.process_time() if arguments != {REFUSED[0][0]!r} else 0.0
    sys.argv = ["arena", "train", *arguments]
    error = io.StringIO()
    with contextlib.redirect_stderr(error):
        try:
            cli.main()
        except SystemExit as stopped:
            assert stopped.code == 2, arguments
    assert message in error.getvalue(), (arguments, error.getvalue())
    assert error.getvalue().count("\\n") == 1, error.getvalue()
    assert time.process_time() - began < 2
assert not {{"torch", "transformers", "trl"}} & sys.modules.keys()
"""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True
    )
    assert list(tmp_path.iterdir()) == []


def test_models_of_roles_of_another_size_are_refused_before_the_start(model_folder):
    roles = {"planner": {}, "worker": {"model": str(model_folder)}}
    given = {"agent": "planner_worker", "roles": roles}
    with pytest.raises(ValueError, match="with hidden_size 16 instead of 64"):
        preflight.check_sizes(*preflight.read_options(given))


def test_the_list_of_options_is_that_of_the_installed_trl():
    """Out of date: python docs/build_trl_options.py --write."""
    listed, real = listed_options(), training_options()
    own = {name: o for name, o in real.items() if o.source == "arena"}
    assert {name: o for name, o in listed.items() if o.source == "arena"} == own
    if option_list.is_of_installed_versions():
        assert listed == real


def test_an_option_of_a_newer_trl_is_left_to_its_own_config(monkeypatch, tmp_path):
    newer = {**installed_versions(), "trl": "1.99.0"}
    monkeypatch.setattr(option_list, "installed_versions", lambda: newer)
    preflight.check({"new_in_trl": 1, "epsilon": "text"}, tmp_path / "a", resume=False)
    with pytest.raises(ValueError, match="want an integer as hidden_size"):
        preflight.check({"hidden_size": "text"}, tmp_path / "a", resume=False)


def test_report_to_names_what_to_install(monkeypatch):
    monkeypatch.setattr(extras, "is_installed", lambda module: False)
    with pytest.raises(ValueError, match="pip install wandb"):
        preflight.check_reporters(["wandb"])
    with pytest.raises(ValueError, match=r"pip install '\.\[track\]'"):
        preflight.check_reporters(["trackio"])
    preflight.check_reporters("none")


def test_a_folder_that_wandb_left_behind_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "left_behind").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not extras.is_installed("left_behind")


def test_a_missing_package_is_named_before_anything_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "matplotlib")
    with pytest.raises(ModuleNotFoundError, match=r"'matplotlib'.*'\.\[train\]'"):
        preflight.check({}, tmp_path / "run", resume=False)


def test_options_beside_resume_name_a_model_that_a_new_run_can_start_from(tmp_path):
    """`model/` of a run with roles holds a folder for each adapter, and no model."""

    def advice():
        with pytest.raises(ValueError, match="for a new run from its") as found:
            read_request(["--resume", str(tmp_path), "--update", "joint"])
        return str(found.value).partition("from its ")[2]

    settings = {"model": "path/to/model"}
    write_config(tmp_path, yaml.safe_dump(settings))
    assert advice() == f"weights give --model {tmp_path / 'model'}"
    roles = {0: {"lora_r": 4}, 1: {"lora_r": 4}}
    write_config(tmp_path, yaml.safe_dump({**settings, "roles": roles}))
    assert advice() == "base model, with new learners, give --model path/to/model"
    (tmp_path / "start").mkdir()
    assert f"--model {tmp_path / 'start'} --warm_start steps=0" in advice()


@pytest.mark.parametrize(
    ("text", "games"),
    [("kuhn_poker", ["kuhn_poker"]), ("kuhn_poker,nim", ["kuhn_poker", "nim"])],
)
def test_a_string_stands_for_a_list_of_games_in_recipes_too(text, games, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(yaml.safe_dump({"games": text, "opponents": "self, random"}))
    settings = read_request([str(recipe)]).settings
    preflight.check(settings, tmp_path / "run", resume=False)
    assert listed_options()["games"].converted(settings["games"]) == games
    assert read_request(["--games", text]).settings["games"] == text


def test_a_recipe_may_name_its_run_folder(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("output-dir: runs/mine\nseed: 3\n")
    request = read_request([str(recipe)])
    assert (str(request.folder), request.settings) == ("runs/mine", {"seed": 3})


def test_the_first_page_of_help_has_at_most_40_options_in_80_columns():
    lines = train_help("kuhn-tiny").splitlines()
    assert max(map(len, lines)) <= 80
    options = [line.split()[0] for line in lines if line.startswith("  --")]
    assert len(options) == len({*options}) <= 40
    assert {f"--{name}" for name in MAPPINGS} < {*options}
    assert any("Optimizer steps. [400]" in line for line in lines)
    assert "steps [100]" in " ".join(lines)  # of warm_start


def test_every_option_of_ours_has_a_group_in_the_help():
    own = {n for n, o in listed_options().items() if o.source == "arena"}
    assert all(listed_options()[name].group in GROUPS for name in own)


def test_help_shows_the_defaults_of_the_recipe_that_is_named():
    assert "Optimizer steps. [800]" in train_help("spiral")


def test_help_all_has_every_option():
    page = train_help("kuhn-tiny", all_options=True)
    heads = [" ".join(line.split()[:2]) for line in page.splitlines()]
    missing = [
        name
        for name, option in {**options_of(JobConfig), **listed_options()}.items()
        if not any(head.startswith(option.typed_name) for head in heads)
    ]
    assert missing == ["resume_from_checkpoint"]


def test_help_takes_less_than_two_cpu_seconds():
    code = (
        "import sys, time; from arena_trainers.cli import main as cli\n"
        "sys.argv = ['arena', 'train', 'spiral', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and time.process_time() < 2\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "setting",
    [{"model": "no/such/folder"}, {"opponents": "rndom"}, {"learning_rat": 1}],
)
def test_code_that_a_recipe_names_does_not_run_where_the_rest_is_refused(
    setting, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "named_by_a_recipe.py").write_text("raise SystemExit('it ran')")
    columns = {"stratum": "named_by_a_recipe:function"}
    with pytest.raises(ValueError, match=r"no/such/folder|rndom|learning_rat"):
        preflight.check({**setting, "columns": columns}, tmp_path / "run", resume=False)


def test_episodes_that_make_no_whole_groups_are_refused_by_our_own_names(arena_here):
    done = arena_here("train", "--episodes_per_step", "100")
    assert done.returncode == 2
    assert "got 100; give --episodes_per_step 96 or 104" in (done.stderr)


def test_a_saved_models_prompt_options_are_the_defaults_of_its_training(tmp_path):
    from arena_trainers.cli.train_request import read_request

    text = '{"reply_format": "bare", "rules": false, "max_new_tokens": 2}'
    (tmp_path / "arena_prompt.json").write_text(text)
    settings = read_request(
        ["--model", str(tmp_path), "--prompt.rules", "true"]
    ).settings
    assert (settings["reply_format"], settings["rules"]) == ("bare", True)
    assert settings["max_completion_length"] == 2


def test_other_games_of_the_tiny_model_find_their_own_reply_length():
    from arena_trainers.cli.train_request import read_request

    assert read_request([]).settings["max_completion_length"] == 2
    assert (
        "max_completion_length" not in read_request(["--games", "mini_hanabi"]).settings
    )
    given = ["--games", "mini_hanabi", "--max_completion_length", "9"]
    assert read_request(given).settings["max_completion_length"] == 9


@pytest.mark.parametrize(
    ("credit", "args", "told"),
    [
        ("mars", {"pool": ["game", "seat"], "discount": 1.0}, ""),
        ("mars(discount=0.9)", {"pool": ["game", "seat"]}, ""),
        ("rae", None, "--credit_args '{discount: 1.0, pool: [game, seat]}'"),
    ],
)
def test_another_estimator_leaves_out_options_of_the_recipe_and_says_so(
    credit, args, told
):
    request = read_request(["marshal", "--credit", credit])
    assert request.settings.get("credit_args") == args
    assert request.note.endswith(told)
    assert bool(request.note) == bool(told)


@pytest.mark.parametrize(
    ("arguments", "changed", "note"),
    [
        (
            ["--beta", "0"],
            {"sync_ref_model": None},
            "--beta leaves out the recipe's sync",
        ),
        (["--lora.r", "2"], {"sync_ref_model": None}, "--lora r leaves out"),
        (
            ["--roles", "{0: {}, 1: {}}"],
            {"ref_model_sync_steps": None},
            "--roles leaves",
        ),
        (
            ["--num_generations", "6", "--num_iterations", "3"],
            {"episodes_per_step": 126, "save_steps": 201},
            "episodes_per_step 128 becomes 126",
        ),
        (["ppo", "--credit", "mars"], {"critic": None}, "--credit leaves out"),
        (["--prompt.reply_format", "boxed"], {"max_completion_length": None}, ""),
        (["--beta", "0.1"], {"sync_ref_model": True}, ""),
        (["--beta", "0", "--sync_ref_model", "true"], {"sync_ref_model": True}, ""),
    ],
)
def test_what_a_recipe_only_defaults_yields_to_the_command_line(
    arguments, changed, note
):
    request = read_request(arguments)
    assert {name: request.settings.get(name) for name in changed} == changed
    assert note in request.note
    assert bool(request.note) == bool(note)


@pytest.mark.parametrize(
    ("critic", "args", "told"),
    [
        (
            "utterances",
            None,
            "keep what it has, too: --critic_args '{hidden_size: 1024, learning_rate: 3.0e-06}'",
        ),
        (
            "tokens(clip=0.3)",
            {"hidden_size", "learning_rate", "loss_weight", "shared"},
            "",
        ),
        ("null", None, ""),
    ],
)
def test_another_critic_leaves_out_options_of_the_recipe_and_says_so(
    critic, args, told
):
    request = read_request(["ppo", "--critic", critic])
    left = request.settings.get("critic_args")
    assert (left if left is None else {*left}) == args
    assert told in request.note
    assert bool(request.note) == bool(told)
