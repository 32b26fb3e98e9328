"""What `use_vllm` refuses; what it does is in tests/engine."""

import pytest

from arena_envs.extras import is_installed
from arena_trainers import TurnGRPOConfig
from arena_trainers.engines import check_installed


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts an empty vLLM of a version where it can be found."""

    def put(version):
        (tmp_path / "vllm").mkdir()
        (tmp_path / "vllm" / "__init__.py").write_text("")
        info = tmp_path / f"vllm-{version}.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
        (info / "METADATA").write_text(text)
        (info / "top_level.txt").write_text("vllm\n")
        monkeypatch.syspath_prepend(tmp_path)

    return put


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"vllm_tensor_parallel_size": 2}, "tensor_parallel_size above 1: processes"),
        ({"vllm_enable_sleep_mode": True}, "vllm_enable_sleep_mode: its rollouts"),
        ({"vllm_structured_outputs_regex": "a"}, "vllm_structured_outputs_regex"),
        ({"top_k": 5}, "top_k with vllm_importance_sampling_correction: sampled"),
        ({"top_p": 0.9}, "top_p with vllm_importance_sampling_correction"),
        ({"min_p": 0.1}, "min_p with vllm_importance_sampling_correction"),
        ({"repetition_penalty": 1.1}, "repetition_penalty with vllm_importance"),
    ],
)
def test_settings_that_the_engine_does_not_take_are_refused(
    settings, overrides, message
):
    with pytest.raises(ValueError, match=message):
        TurnGRPOConfig(**settings, use_vllm=True, **overrides)
    TurnGRPOConfig(**settings, **overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"vllm_mode": "server"}, "vllm_mode 'server' needs --use_vllm true"),
        (
            {"vllm_server_base_url": "http://localhost:8000"},
            "vllm_server_base_url needs --use_vllm true",
        ),
    ],
)
def test_a_server_that_would_generate_nothing_is_refused(settings, overrides, message):
    with pytest.raises(ValueError, match=message):
        TurnGRPOConfig(**settings, **overrides)


@pytest.mark.skipif(is_installed("vllm"), reason="vLLM is installed")
def test_a_missing_engine_is_refused(settings, arena_here, tmp_path):
    message = r"needs the package 'vllm'; .* pip install '\.\[vllm\]'"
    with pytest.raises(ModuleNotFoundError, match=message):
        TurnGRPOConfig(**settings, use_vllm=True)
    folder = tmp_path / "run"
    done = arena_here("train", "--use_vllm", "true", "--output_dir", folder)
    assert done.returncode == 2
    assert "needs the package 'vllm'" in done.stderr
    assert not folder.exists()


@pytest.mark.parametrize("version", ["0.21.9", "0.34.0"])
def test_an_engine_of_another_version_is_refused(install, version):
    install(version)
    with pytest.raises(
        ValueError, match=f"vLLM from 0.22 to below 0.34, got {version}"
    ):
        check_installed()


@pytest.mark.parametrize("version", ["0.22.0", "0.33.0+cu129"])
def test_engines_that_the_trainer_knows_are_taken(install, version):
    install(version)
    check_installed()


def test_token_ratios_are_truncated_where_a_row_holds_several_turns(settings):
    turn = TurnGRPOConfig(**settings)
    assert turn.vllm_importance_sampling_mode == "sequence_mask"
    whole = {**settings, "layout": "trajectory", "history": "transcript"}
    trajectory = TurnGRPOConfig(**whole)
    assert trajectory.vllm_importance_sampling_mode == "token_truncate"
    given = TurnGRPOConfig(**whole, vllm_importance_sampling_mode="sequence_mask")
    assert given.vllm_importance_sampling_mode == "sequence_mask"
