"""The games, a module each.

Importing one of them makes Python put this package in the place of the function
`arena_envs.games`; so the package can be called like it.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self) -> list[Any]:
        from arena_envs import registration

        return registration.games()


sys.modules[__name__].__class__ = _CallablePackage
