"""Deprecations that libraries print of each other are hidden in commands; others are shown."""

import warnings

import pytest

from arena_trainers.extras import hide_deprecations


@pytest.mark.parametrize(
    ("module", "is_shown"),
    [
        ("torch.nn.modules.module", False),
        ("transformers.utils.generic", False),
        ("trl.trainer.grpo_trainer", False),
        ("transformers_of_mine", True),
        ("my_game", True),
    ],
)
def test_deprecations_are_hidden_where_libraries_call_deprecated_names(
    module, is_shown
):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        hide_deprecations()
        for category in (FutureWarning, DeprecationWarning):
            text = "`past_key_values` is deprecated"
            warnings.warn_explicit(text, category, "module.py", 1, module=module)
    assert len(shown) == 2 * is_shown
