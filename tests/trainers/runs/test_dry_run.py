"""`arena train RECIPE --dry-run`: its arithmetic, its refusals, and that it writes nothing."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import yaml
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import deepspeed

from arena_trainers.lm import adapters, lora_config
from arena_trainers.lm.adapters import count_weights
from arena_trainers.runs import load_recipe, recipes
from arena_trainers.runs.checks import dry_run, memory
from arena_trainers.runs.checks.dry_run import (
    check_patience,
    known_config,
    plan_lines,
)
from arena_trainers.runs.checks.machine import GPUS, Machine, machine_of
from arena_trainers.runs.checks.preflight import check_machine, read_options
from arena_trainers.runs.checks.step_size import StepSize
from arena_trainers.runs.recipe import FRONT

DOCS = Path(__file__).parents[3] / "docs" / "one-gpu.md"
SHOWN = ("marshal", "smollm2", "at-grpo-roles", "marft", "advevo", "kuhn-tiny")
FAST = (*SHOWN, "archer", "poad", "ppo")
STEP = StepSize(8, 1.0, 8, 4.0, 5, 32, 110.0, 140, 100.0, 120, 20)
A100 = next(gpu for gpu in GPUS if (gpu.name, gpu.gib) == ("A100", 80))


@cache
def plan_of(recipe):
    """The plan of a recipe as it stands; two tests read it."""
    return lines(recipe)


@pytest.fixture(scope="module", autouse=True)
def each_model_is_counted_once():
    """Counting builds the model with its adapter, which several recipes share."""
    found = {}

    def counted(config, *adapter):
        key = config.to_json_string(), str(adapter)
        if key not in found:
            found[key] = count_weights(config, *adapter)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapters, "count_weights", counted)
        yield


def lines(recipe, **overrides):
    return plan_lines(load_recipe(recipe) | overrides, Path("no/such/run"))[0]


def method(**changes):
    config = known_config("Qwen/Qwen3-0.6B", None)
    weights, _ = count_weights(config)
    given = {"adapter": 0, "weight_bytes": 2, "has_start": False, "reference": False}
    given |= {
        "autocast": False,
        "checkpointing": False,
        "engine": False,
        "rescored": False,
    }
    given |= {"max_tokens": None, "on_cpu": False, "served": False}
    return memory.Method(config, weights, **(given | changes))


def test_weights_are_counted_whole_under_zero_3(monkeypatch):
    class Zero3:  # what transformers holds while DeepSpeed splits weights
        is_zero3 = staticmethod(lambda: True)

    config = known_config("Qwen/Qwen3-0.6B", None)
    name = "_hf_deepspeed_config_weak_ref"
    monkeypatch.setattr(deepspeed, name, Zero3)
    assert count_weights(config) == (596_049_920, 0)
    assert getattr(deepspeed, name) is Zero3


def test_the_figures_of_qwen3_are_those_worked_by_hand():
    config = known_config("Qwen/Qwen3-0.6B", None)
    adapter = lora_config(16, None, ["all-linear"])
    # the first is 0.6B on its model card
    assert count_weights(config, adapter) == (596_049_920, 10_092_544)
    # keys and values, 28 layers, 8 heads of 128 numbers of 2 bytes
    assert method().kv_bytes == 2 * 28 * 8 * 128 * 2 == 114_688
    lora = memory.play_memory(method(adapter=1000))
    full = memory.play_memory(method(weight_bytes=4, autocast=True))
    assert lora["weights"] == 2 * 596_049_920  # 1.11 GiB
    assert full["weights"] == 2 * lora["weights"]
    assert full["gradients and AdamW"] == 3 * full["weights"]
    assert full["weights in half precision"] == lora["weights"]
    assert "weights in half precision" not in lora
    assert lora["gradients and AdamW"] == 12 * 1000
    assert memory.start_memory(method())["weights"] == 4 * 596_049_920


def test_hours_count_the_passes_over_the_weights():
    """32 rows of 110 tokens; 2 FLOP per weight forward, 4 or 2 backward."""
    flop = 596_049_920 * 32 * 110 / (A100.flops * memory.UTILISATION) / 3600
    assert memory.hours(method(), STEP, 10, A100)[1] == pytest.approx(10 * 6 * flop)
    adapted = method(adapter=1, checkpointing=True, rescored=True)
    assert memory.hours(adapted, STEP, 10, A100)[1] == pytest.approx(10 * 8 * flop)
    four = method(machine=Machine(gpus=4))
    assert memory.hours(four, STEP, 10, A100)[1] == pytest.approx(10 * 6 / 4 * flop)


def test_replies_wait_for_each_other_with_transformers_alone():
    """Replies of at most 20 tokens, 10 on average, of which half fit at once."""
    batch, half = STEP.batch, STEP.batch // 2
    rounds, turns = STEP.rounds, STEP.turns
    waits = memory.decoding_steps(method(), STEP, half)
    assert waits == 2 * rounds * STEP.longest_reply
    mean = STEP.reply_tokens
    chain = (rounds - 1) * mean + STEP.longest_reply
    goes_on = memory.decoding_steps(method(engine=True), STEP, half)
    assert goes_on == max(chain, batch * turns * mean / half) < waits
    assert memory.decoding_steps(method(served=True), STEP, 1) == batch * turns * mean


def test_a_larger_gpu_runs_more_tokens_and_one_that_is_too_small_none():
    found = [memory.gpu_settings(method(engine=True), STEP, gib) for gib in (4, 16, 80)]
    assert found[0].tokens == 0 < found[1].tokens < found[2].tokens
    assert memory.gpu_settings(method(has_start=True), STEP, 10).tokens == 0
    for fit in found[1:]:
        used = (
            sum(memory.play_memory(method()).values())
            + fit.share * fit.gib * memory.GIB
        )
        used += method(engine=True).activations(fit.tokens)
        assert used <= memory.USABLE * fit.gib * memory.GIB


@pytest.mark.parametrize(
    "name",
    [
        name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
        for name in recipes()
        if "rounds" not in load_recipe(name)
    ],
)
def test_every_recipe_has_a_plan_of_at_most_80_columns(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = plan_of(name)
    assert max(map(len, text)) <= 80
    assert "refused on this machine" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["agentflow", "epo", "rema"])
def test_recipes_of_agents_have_a_plan_with_the_tiny_model(name):
    tiny = {"model": "tiny", "rules": False, "reply_format": "bare", "use_cpu": True}
    text = lines(name, **tiny, bf16=False)
    assert any("LoRA, rank 32 and" in line for line in text)
    assert text[-1] == "- nothing"


@pytest.mark.parametrize("name", [r for r in recipes() if "machine" in load_recipe(r)])
def test_a_recipe_fits_the_machine_that_it_names(name):
    text = " ".join("\n".join(plan_of(name)).split())
    assert "on each that trains (fits; calculated)" in text
    assert "on a GPU of the machine" not in text


def test_the_front_recipes_name_their_machines():
    machines = {name: load_recipe(name).get("machine") for name in FRONT}
    assert {m["memory"] for m in machines.values() if m} == {80}
    assert machines["marshal"]["gpus"] == 8
    assert machines["qwen3-4b"]["gpus"] == 1


def test_a_machine_that_is_too_small_is_refused():
    given = {"machine": {"gpus": 1, "memory": 24}}
    text = " ".join(" ".join(lines("qwen3-4b", **given)).split())
    assert "(does not fit; calculated)" in text
    assert "want at most 22.08 GiB on a GPU of the machine, got" in text


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ({"gpu": 1}, "machine has no option 'gpu'; did you mean 'gpus'"),
        ({"gpus": 0}, "want an integer gpus in machine from 1 to 8, got 0"),
        ({"gpus": 2, "server": 2}, "want an integer server in machine from 0 to 1"),
        ({"split": "fsdp"}, "want split in machine true or false, got 'fsdp'"),
    ],
)
def test_a_machine_of_another_form_is_refused(machine, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        machine_of(machine)


@pytest.mark.parametrize(
    ("machine", "changes", "message"),
    [
        ({"server": 1}, {}, "give --use_vllm true --vllm_mode server"),
        ({"split": True}, {}, "want no vLLM in the processes with split"),
        ({"split": True}, {"use_vllm": False}, "give --warm_start steps=0"),
    ],
)
def test_a_machine_that_the_run_does_not_suit_is_refused(machine, changes, message):
    given = {"machine": {"gpus": 4, "memory": 80} | machine} | changes
    job, args = read_options(load_recipe("qwen3-4b") | given)
    with pytest.raises(ValueError, match=message):
        check_machine(job, args)


def test_play_that_outlasts_the_patience_of_processes_is_refused():
    given = {"machine": {"gpus": 2, "memory": 80}, "ddp_timeout": 5}
    text = " ".join(" ".join(lines("qwen3-0.6b", **given)).split())
    assert "as play of a batch takes about" in text
    assert "give --ddp_timeout" in text
    one = {"machine": {"gpus": 1, "memory": 80}, "ddp_timeout": 5}
    assert "as play of a batch" not in " ".join(lines("qwen3-0.6b", **one))


def test_a_run_of_several_processes_plans_their_waits_before_it_begins(monkeypatch):
    settings = load_recipe("qwen3-0.6b") | {"ddp_timeout": 5}
    check_patience(settings)  # one process
    monkeypatch.setenv("WORLD_SIZE", "2")  # of a recipe for one GPU
    with pytest.raises(ValueError, match="want ddp_timeout of at least"):
        check_patience(settings)
    check_patience(settings | {"ddp_timeout": 100_000})
    text = "\n".join(lines("qwen3-0.6b", output_dir="run"))
    assert "machine     2 GPUs of 80 GiB" in text
    assert "on 2 GPUs that train" in text


def test_rows_of_conversations_hold_all_replies_of_their_seat():
    """Kuhn poker: a seat replies once or twice; 1,000 tokens each, as far as random play is shorter."""
    given = {"layout": "trajectory", "history": "transcript", "games": ["kuhn_poker"]}
    given |= {"max_completion_length": 1000, "use_cpu": True, "bf16": False}
    text = "\n".join(lines("kuhn-tiny", **given))
    mean, longest = map(
        int, re.search(r"^rows +(\d+) .* (\d+) at", text, re.M).groups()
    )
    assert 500 < mean < 1000 < 2000 < longest < 2100


def test_the_page_shows_what_the_command_prints():
    shown = DOCS.read_text().split("arena train qwen3-0.6b --dry-run\n")[1]
    block = shown.split("```text\n")[1].split("```")[0]
    printed = iter(plan_of("qwen3-0.6b"))  # shown: some of these lines, in their order
    assert len(block.splitlines()) > 5
    assert all(line in printed for line in block.splitlines())


def test_what_is_refused_here_stands_below_the_plan(monkeypatch):
    text = " ".join(lines("kuhn-tiny", lora_r=4, report_to="wandbb", games="nim"))
    assert "did you mean 'wandb'?" in text
    assert "lora_r does not support sync_ref_model" in text
    assert "nim" in text
    columns = {"rewards.judge": {"reward": "./absent"}}
    judged = " ".join(lines("kuhn-tiny", credit="adca", columns=columns))
    assert "their memory and time are not counted" in judged
    assert "want a folder with a saved model, got './absent'" in judged
    assert lines("kuhn-tiny")[-1] == "- nothing"
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    text = " ".join(lines("qwen3-0.6b"))
    assert "no GPU was found" in text
    assert "'Qwen/Qwen3-0.6B' is not on this machine" in text


def test_the_options_that_a_dry_run_advises_without_a_gpu_are_not_refused(monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    (advice,) = re.findall(r"a CPU with (--.*)", " ".join(lines("marshal")))
    words = shlex.split(advice.partition(" - ")[0])
    assert "--vllm_mode" in words
    values = {
        name[2:]: yaml.safe_load(value)
        for name, value in zip(words[::2], words[1::2], strict=True)
    }
    text = " ".join(lines("marshal", **values, model="tiny"))
    assert text.endswith("refused on this machine - nothing")


def test_passes_that_the_learners_cannot_share_are_refused_as_in_the_run():
    text = " ".join(lines("marft", num_iterations=3))
    assert "want update sequential with num_iterations divisible by 2" in text
    assert "update sequential" not in " ".join(lines("marft"))


def test_the_plan_counts_the_adapters_of_all_roles():
    one, two = (
        next(
            line
            for line in lines("kuhn-tiny", sync_ref_model=False, **given)
            if "trained:" in line
        )
        for given in ({"lora_r": 4}, {"roles": {0: {"lora_r": 4}, 1: {"lora_r": 4}}})
    )
    (single,), (both,) = (
        re.findall(r"trained: ([\d,]+) \(LoRA", t) for t in (one, two)
    )
    assert int(both.replace(",", "")) == 2 * int(single.replace(",", ""))
    assert "rank 4 and 4" in two


def test_the_plan_counts_whole_models_of_roles_and_what_is_free(monkeypatch):
    monkeypatch.setattr(dry_run, "free_memory", lambda device: 2**30)
    told = {"use_cpu": True, "bf16": False, "sync_ref_model": False}
    roles = {0: {"beta": 0.1}, 1: {}}
    text = "\n".join(lines("kuhn-tiny", roles=roles, **told))
    one = "\n".join(lines("kuhn-tiny", **told))
    size, both = (
        float(re.search(r"^weights .* ([\d.]+)$", t, re.MULTILINE)[1])
        for t in (one, text)
    )
    assert both == pytest.approx(2 * size, rel=0.05)
    assert "a whole model for each of seat_0, seat_1" in text
    assert re.search(r"^reference models .*\d", text, re.MULTILINE)
    assert "free on this machine: 1.00 GiB" in text
    assert text.endswith("- nothing")
    monkeypatch.setattr(dry_run, "free_memory", lambda device: 0)
    text = " ".join(lines("kuhn-tiny", roles=roles, **told))
    assert "got 0 free; give each role" in text


def test_the_command_takes_options_and_says_what_is_wrong(arena_here, tmp_path):
    done = arena_here("train", "--dry-run", "--tiny.num_layers", "1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "38,752; trained: all" in done.stdout
    other = [*("train", "qwen3-0.6b", "--dry-run"), "--max_steps", "7"]
    done = arena_here(*other, cwd=tmp_path)
    assert "hours: of 7 steps" in " ".join(done.stdout.split())
    assert done.returncode == 2  # its model is not on this machine
    assert "--dry-run" in arena_here("train", "--help").stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kuhn-tyni", "--dry-run"], "want a recipe file, found none at 'kuhn-tyni'"),
        (["--dry-run", "true"], "want --dry-run without a value, got 'true'"),
        (["--dry-run=1"], "want --dry-run without a value, got '1'"),
        (["--dry-run", "kuhn-tiny"], "arena train RECIPE --dry-run"),
        (["--model", "org/absent", "--dry-run"], "a model whose sizes are known, got"),
        (["--games", "khun_poker", "--dry-run"], "did you mean 'kuhn_poker"),
        (["--learning_rat", "1", "--dry-run"], "did you mean 'learning_rate'?"),
        (["spiral", "--num_iterations", "0", "--dry-run"], "num_iterations of at least 1"),
        (["qwen3-4b", "--lora.target_modules", "fc", "--dry-run"], "{'fc'} not found in"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(arguments, message, arena_here, tmp_path):
    done = arena_here("train", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_models_of_any_kind_have_a_plan(tmp_path):
    config = AutoConfig.for_model("gpt2", n_layer=1)
    config.save_pretrained(tmp_path)
    text = "\n".join(lines("spiral", model=str(tmp_path), use_cpu=True))
    real = AutoModelForCausalLM.from_config(config)
    assert f"{real.num_parameters():,}; trained: all" in text


def test_a_game_that_is_listed_again_shows_who_plays():
    shown = " ".join("\n".join(lines("tic-tac-toe-tiny")).split())
    bot = "noisy:0.5(minimax)"
    assert f"tic_tac_toe (self, {bot}), tic_tac_toe ({bot}, self)" in shown


def test_a_run_on_several_games_of_the_suite_shows_the_table_to_fill():
    text = plan_of("marshal")
    command = "arena compare lm:models/Qwen3-4B lm:RUN/model --suite mars"
    assert command in " ".join(text)
    rows = [line.split() for line in text if line.endswith("-        -")]
    assert ["kuhn_poker", "cfr", "trained", "2,000", "-", "-"] in rows
    assert ["simple_hanabi", "self", "held", "out", "1,000", "-", "-"] in rows
    assert len(rows) == 8
    assert "--suite mars" not in " ".join(plan_of("kuhn-tiny"))


def test_settings_that_asynchronous_play_refuses_are_listed():
    given = {"asynchronous": {"max_staleness": 1}, "credit": "gae", "critic": "exact"}
    text = " ".join("\n".join(lines("kuhn-tiny", **given)).split())
    assert "asynchronous does not support critic 'exact'" in text


def test_a_limit_that_cuts_legal_replies_is_refused_as_the_run_refuses_it():
    text = " ".join(" ".join(lines("kuhn-tiny", reply_format="boxed")).split())
    assert "want max_completion_length of at least 6" in text
