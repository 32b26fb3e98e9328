"""Which ways of sharding are refused; `tests/scale` trains with the others."""

from types import SimpleNamespace

import pytest

from arena_trainers.runs import build_configs
from arena_trainers.train.score.sharding import check_sharding


def accelerator(fsdp=None, zero=None):
    if fsdp is not None:
        whole = {"fsdp_version": 2, "state_dict_type": "FULL_STATE_DICT"}
        whole["cpu_ram_efficient_loading"] = False
        fsdp = SimpleNamespace(**{**whole, **fsdp})
    if zero is not None:
        zero = SimpleNamespace(
            zero_stage=3, deepspeed_config={"zero_optimization": zero}
        )
    state = SimpleNamespace(deepspeed_plugin=zero, fsdp_plugin=fsdp)
    return SimpleNamespace(state=state)


@pytest.mark.parametrize(
    ("fsdp", "zero", "wanted"),
    [
        ({"fsdp_version": 1}, None, "set fsdp_version: 2"),
        ({"state_dict_type": "SHARDED_STATE_DICT"}, None, "FULL_STATE_DICT"),
        ({"cpu_ram_efficient_loading": True}, None, "beta to 0"),
        (None, {}, "set zero3_save_16bit_model: true"),
    ],
)
def test_what_gives_wrong_or_partial_weights_is_refused(fsdp, zero, wanted):
    with pytest.raises(ValueError, match=wanted):
        check_sharding(accelerator(fsdp, zero), has_reference=True)


def test_the_rest_is_taken():
    check_sharding(accelerator(), has_reference=True)
    check_sharding(accelerator(fsdp={}), has_reference=True)
    loading = {"cpu_ram_efficient_loading": True}
    check_sharding(accelerator(fsdp=loading), has_reference=False)
    whole = {"stage3_gather_16bit_weights_on_model_save": True}
    check_sharding(accelerator(zero=whole), has_reference=True)


def test_a_supervised_start_is_refused_under_fsdp(monkeypatch, tmp_path):
    build_configs({"warm_start_steps": 1}, str(tmp_path))
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ValueError, match="want warm_start_steps 0 under FSDP"):
        build_configs({"warm_start_steps": 1}, str(tmp_path))
