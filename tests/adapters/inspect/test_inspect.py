"""Inspect's own command and mock model play the example."""

import gc
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default", "ignore::ResourceWarning")

import anyio
from inspect_ai import eval
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, get_model

from arena_wrappers.adapters.inspect import game_task

OFFLINE = str(Path(__file__).with_name("offline.py"))
runpy.run_path(OFFLINE)
EXAMPLE = Path(__file__).with_name("example.py")
tasks = runpy.run_path(str(EXAMPLE))


def first_legal(messages, *_) -> ModelOutput:
    actions = re.findall(r"Legal actions: (.*)\.", messages[-1].text)[-1].split(", ")
    return ModelOutput.from_content("mock", f"<answer>{actions[0]}</answer>")


def mock(answer):
    return get_model("mockllm/model", custom_outputs=answer, memoize=False)


def play(task, folder, answer=first_legal, status="success", **options):
    """The log of an evaluation by a mock model."""
    roles = {name: mock(said) for name, said in options.pop("roles", {}).items()}
    given = {"log_dir": str(folder), "display": "none", "model_roles": roles, **options}
    (log,) = eval(task, model=mock(answer), **given)
    gc.collect()  # Inspect leaves streams open: they are to warn here, where it is ignored
    assert log.status == status, log.error
    return log


def returns_of(log) -> list[dict[str, float]]:
    return [sample.scores["game_returns"].value for sample in log.samples]


def test_their_command_runs_the_example(tmp_path) -> None:
    command = [
        *(sys.executable, OFFLINE, "eval"),
        *(f"{EXAMPLE.name}@self_play", "--model", "mockllm/model"),
        *("--model-role", "player_1=mockllm/other", "-T", "num_episodes=3"),
        *("--log-dir", str(tmp_path), "--display", "none", "--log-format", "json"),
    ]
    done = subprocess.run(
        command, cwd=EXAMPLE.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    log = read_eval_log(str(next(tmp_path.glob("*.json"))))
    assert log.status == "success"
    for sample in log.samples:  # the mock model's default reply is no action
        score = sample.scores["game_returns"]
        assert score.value == {"player_0": -2.0, "player_1": 2.0}
        assert score.metadata["forfeit_reason"].startswith("illegal: ")


def test_each_seat_has_its_role(tmp_path, record_property) -> None:
    def bets(messages, *_) -> ModelOutput:
        return ModelOutput.from_content("mock", "<answer>bet</answer>")

    log = play(tasks["self_play"](), tmp_path, roles={"player_1": bets})
    said = [m for m in log.samples[0].messages if m.role == "assistant"]
    assert [m.metadata["agent"] for m in said] == ["player_0", "player_1", "player_0"]
    assert [m.text[8:-9] for m in said] == ["pass", "bet", "pass"]
    returns = returns_of(log)
    assert returns == [{"player_0": -1.0, "player_1": 1.0}] * 20
    metadata = log.samples[0].scores["game_returns"].metadata
    assert metadata["turn_rewards"] == {"player_0": [0.0, -1.0], "player_1": [1.0]}
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means == {"player_0": -1.0, "player_1": 1.0}
    record_property("learned", f"mean return by seat {means}")


def test_epochs_share_the_deal_and_differ_in_choices(tmp_path) -> None:
    log = play(tasks["against_cfr"](12), tmp_path, epochs=4)
    played: dict[int, set[str]] = {}
    for sample in log.samples:
        texts = " ".join(message.text for message in sample.messages)
        played.setdefault(sample.id, set()).add(texts)
    for versions in played.values():
        assert len({re.findall(r"hold (.)", text)[0] for text in versions}) == 1
    assert any(len(versions) > 1 for versions in played.values())


async def stalls(*_) -> ModelOutput:
    await anyio.sleep(60)
    return ModelOutput.from_content("mock", "")


def raises(*_) -> ModelOutput:
    raise RuntimeError("connection cut")


def cut(*_) -> ModelOutput:
    output = ModelOutput.from_content("mock", "<answer>bet</answer>")
    output.choices[0].stop_reason = "max_tokens"
    return output


def with_kings(fault):
    """A model with this fault where its prompt shows a king."""

    def some(messages, *rest):
        has_king = "hold K" in messages[-1].text
        return (fault if has_king else first_legal)(messages, *rest)

    return some


def filtered(*_) -> ModelOutput:
    return ModelOutput.from_content("mock", "", stop_reason="content_filter")


@pytest.mark.parametrize(
    ("fault", "reason"), [(cut, "overlong: "), (filtered, "content_filter: ")]
)
def test_a_reply_without_an_action_forfeits_its_seat_alone(
    tmp_path, fault, reason
) -> None:
    task = game_task("kuhn_poker", num_episodes=6)
    log = play(task, tmp_path, with_kings(fault))
    found = [sample.scores["game_returns"] for sample in log.samples]
    bad = [score for score in found if score.metadata["forfeited_by"] is not None]
    assert 0 < len(bad) < 6
    for score in bad:
        assert score.metadata["forfeit_reason"].startswith(reason)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(stalls, "no reply within 0.5 s"), (raises, "connection cut")],
)
def test_a_model_that_fails_is_an_error_without_a_score(
    tmp_path, fault, reason
) -> None:
    task = game_task("kuhn_poker", num_episodes=6, timeout=0.5)
    options = {"fail_on_error": False, "retry_on_error": 0}
    log = play(task, tmp_path, with_kings(fault), **options)
    lost = [sample for sample in log.samples if sample.error is not None]
    assert 0 < len(lost) < 6
    for sample in lost:
        assert reason in sample.error.message
        assert not sample.scores
    log = play(task, tmp_path / "default", with_kings(fault), status="error")
    assert reason in log.error.message


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="want num_episodes of at least 1, got 0"):
        game_task("kuhn_poker", num_episodes=0)
    with pytest.raises(ValueError, match="want 2 policies, one per seat, got 1"):
        game_task("kuhn_poker", ["model"])


def test_a_limit_of_inspects_leaves_a_sample_without_a_score(tmp_path) -> None:
    def some(messages, *rest):
        return (stalls if "hold K" in messages[-1].text else first_legal)(
            messages, *rest
        )

    log = play(game_task("kuhn_poker", num_episodes=6), tmp_path, some, time_limit=2)
    scores = [sample.scores["game_returns"] for sample in log.samples]
    assert 0 < sum(score.metadata is None for score in scores) < 6
    assert {score.name for score in log.results.scores} == {"player_0", "player_1"}
