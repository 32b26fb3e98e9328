"""Imports that wait: of optional packages, whose errors name what to install, and of own modules."""

import ast
import re
import warnings
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from arena_envs.registry import import_extra as import_extra
from arena_envs.registry import missing_extra

# whose deprecations are for us to mend, and not for who runs a command
LIBRARIES = (
    "accelerate",
    "datasets",
    "huggingface_hub",
    "peft",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "trl",
)


# of peft, of adapters on embeddings, which `arena data export` writes apart
_OF_EMBEDDINGS = (
    "Setting `save_embedding_layers`",
    "Model has `tie_word_embeddings=True`",
)


def hide_library_warnings() -> None:
    """Hides, in this process, what libraries say that who runs a command cannot change."""
    pattern = rf"({'|'.join(LIBRARIES)})(\.|$)"
    for category in (FutureWarning, DeprecationWarning, PendingDeprecationWarning):
        warnings.filterwarnings("ignore", category=category, module=pattern)
    for message in _OF_EMBEDDINGS:
        warnings.filterwarnings("ignore", re.escape(message))


def is_installed(module: str) -> bool:
    """Whether a module can be found; imports its parent packages only.

    A folder without `__init__.py` does not count: W&B leaves a folder `wandb` beside runs.
    """
    try:
        spec = find_spec(module)
        return spec is not None and spec.origin is not None
    except (ImportError, ValueError):  # the parent is missing or no package
        return False


def require(modules: Iterable[str], extra: str) -> None:
    """Checks that packages are installed, without importing them.

    Raises:
        ModuleNotFoundError: one is missing; names the extra to install.
    """
    for name in modules:
        if not is_installed(name):
            raise missing_extra(ModuleNotFoundError(name=name), extra)


def lazy_names(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports a module when its name is first used.

    Args:
        package: name of the package.
        file: its `__init__.py`, whose imports under TYPE_CHECKING say where the names are.
    """
    homes = {
        alias.name: str(node.module)
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(package)
        for alias in node.names
    }

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_extra(homes[name], "train"), name)

    return find
