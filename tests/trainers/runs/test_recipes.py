"""The recipes of papers: each is taken as it is, and trains three steps of a tiny model."""

import json
import sys

import pytest
from rich.console import Console

from arena_envs import extras
from arena_trainers.cli import main as cli
from arena_trainers.engines import settings as engines
from arena_trainers.runs import SelfPlayRun, build_configs, load_recipe, recipes
from arena_trainers.runs.mappings import typed_words
from arena_trainers.runs.recipe import FRONT

ONE_GPU = [name for name in recipes() if name.startswith("qwen3-")]
NEW = [n for n in recipes() if n.endswith("-tiny") or n == "marshal-small"]
LOOPS = [name for name in recipes() if "rounds" in load_recipe(name)]
PAPER_LOOPS = [name for name in LOOPS if name != "kuhn-dagger"]
OF_NO_PAPER = {"pretrained", "smollm2", *NEW, *ONE_GPU, *LOOPS}
PAPERS = [name for name in recipes() if name not in OF_NO_PAPER]
TINY = {
    "model": "tiny",
    "hidden_size": 16,
    "num_layers": 1,
    "warm_start_steps": 10,
    "warm_start_episodes": 20,
    "rules": "false",
    "reply_format": "bare",
    "max_completion_length": 9,
    "per_device_train_batch_size": 2,
    "max_steps": 3,
    "logging_steps": 1,
    "save_steps": 100,
    "eval_episodes": 1,
    "saved_episodes": 1,
    "num_starts": 4,
    "bf16": "false",
    "gradient_checkpointing": "false",
    "use_cpu": "true",
}


def test_the_recipes_of_papers_are_embedded():
    assert {"at-grpo", "marshal", "matpo", "spiral"} <= set(PAPERS)
    assert {"agentevol", "optima", "sirius"} <= set(PAPER_LOOPS)
    assert set(recipes()) > OF_NO_PAPER


@pytest.mark.parametrize("name", [*PAPERS, *NEW, *ONE_GPU, "smollm2"])
def test_a_recipe_is_a_configuration_as_it_stands(name, tmp_path, monkeypatch):
    """For a graphics card: bfloat16 and checkpoints, which a check without one leaves out."""
    monkeypatch.setattr(engines, "check_installed", lambda: None)
    settings = load_recipe(name) | {"bf16": False}
    _, args = build_configs(settings, str(tmp_path))
    updates = args.steps_per_generation * args.num_iterations
    assert args.max_steps % updates == args.save_steps % updates == 0


def test_the_recipes_for_one_gpu_are_six_and_share_their_groups_among_processes():
    sizes = ("0.6b", "1.7b", "4b")
    assert {f"qwen3-{s}{t}" for s in sizes for t in ("", "-thinking")} == set(ONE_GPU)
    for name in ONE_GPU:
        recipe = load_recipe(name)
        assert 256 <= recipe["episodes_per_step"] <= 512
        assert recipe["episodes_per_step"] % (8 * recipe["num_generations"]) == 0
        assert (recipe["epsilon"], recipe["epsilon_high"]) == (0.2, 0.28)


@pytest.mark.parametrize("name", ONE_GPU)
def test_vllm_is_wanted_before_anything_is_written(name, arena_here, tmp_path):
    if extras.is_installed("vllm"):
        pytest.skip("vllm is installed")
    done = arena_here("train", name, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "needs the package 'vllm'; install it in a clone" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.filterwarnings(
    "ignore:sampled and trained"
)  # papers cut sampling by top_k
@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAPERS, "qwen3-0.6b"])
def test_a_recipe_trains_three_steps_of_a_tiny_model(name, tmp_path, monkeypatch):
    options = dict(TINY)
    recipe = load_recipe(name)
    if name == "marshal":  # on a CPU, in one process
        options |= {"machine": "{}", "use_vllm": "false", "vllm_mode": "colocate"}
        options["num_starts"] = 8
    if "steps_per_generation" in recipe:
        options["steps_per_generation"] = 2
    if len(recipe["games"]) > 1:
        options["games"] = "[kuhn_poker, tic_tac_toe]"
    if recipe.get("critic") == "utterances":
        options["critic_args"] = "{num_steps: 2}"
    if "agent" in recipe:
        params = "{num_numbers: 4, max_guesses: 2}"
        options["games"] = f"[{{id: guess_number, params: {params}}}]"
        options["num_generations"] = 2
    if recipe["games"] == ["secret_keeper"]:
        options["games"] = "[{id: secret_keeper, params: {num_rounds: 1}}]"
        options["num_generations"] = 2
    if "branch" in recipe:
        options["branch"] = "{num_candidates: 2, turns: [0, 1], follow: best}"
    if "episodes_per_step" in recipe:
        options["episodes_per_step"] = 8
        del options["per_device_train_batch_size"]
    if name in ONE_GPU:  # with LoRA and activations computed again
        options |= {"use_vllm": "false", "save_steps": 20, "model_init_kwargs": "{}"}
        options |= {"gradient_checkpointing": "true", "warm_start_steps": 2}
        options |= {"lora_r": 2, "lora_alpha": 4}
    folder = tmp_path / "run"
    arguments = [word for pair in options.items() for word in typed_words(*pair)]
    command = ["arena", "train", name, *map(str, arguments), "--output-dir", folder]
    monkeypatch.setattr(sys, "argv", list(map(str, command)))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    assert [s["step"] for s in steps if "loss" in s] == [1, 2, 3]
    assert (folder / "results.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_a_tiny_recipe_learns_from_random_legal_play_and_trains(name, tmp_path):
    """Two steps, at full size but for the number of episodes: nothing else is overridden."""
    recipe = load_recipe(name)
    assert recipe["model"] == "tiny"
    assert "warm_start_teacher" not in recipe
    assert (recipe["rules"], recipe["reply_format"]) == (False, "bare")
    fewer = {"episodes_per_step": 32, "warm_start_steps": 20, "eval_episodes": 20}
    settings = recipe | fewer | {"max_steps": 2, "logging_steps": 2}
    job = SelfPlayRun(settings, tmp_path / "run", Console(quiet=True))
    job.prepare()
    results = job.run()
    assert results["games"]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    assert [s["step"] for s in steps if "loss" in s] == [2]


def test_help_names_the_front_recipes_and_a_list_has_all(arena_here):
    usage = arena_here("train", "--help").stdout.partition("The default")[0]
    assert all(name in usage for name in FRONT)
    assert "spiral" not in usage
    listed = arena_here("train", "--recipes").stdout
    assert all(f"  {name} " in listed for name in recipes())
    assert listed.index("tiny model:") < listed.index("  spiral")
