"""Deprecations that libraries print of each other are hidden in commands; others are shown."""

import warnings

import pytest

from arena_envs.extras import hide_library_warnings


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
        hide_library_warnings()
        for category in (FutureWarning, DeprecationWarning):
            text = "`past_key_values` is deprecated"
            warnings.warn_explicit(text, category, "module.py", 1, module=module)
    assert len(shown) == 2 * is_shown


def test_what_peft_says_of_tied_embeddings_is_hidden():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        hide_library_warnings()
        warnings.warn("Model has `tie_word_embeddings=True` and a", stacklevel=1)
        warnings.warn("a game of yours", stacklevel=1)
    assert [str(x.message) for x in shown] == ["a game of yours"]
