"""Engines of the model that learns: transformers, vLLM in the process, a server of vLLM or SGLang.

`ENGINES` has an entry for each: a check of its settings and a maker of its backend. This package
imports neither TRL nor torch; `engines.weights`, which sends weights to a server, does.
"""

from arena_trainers.engines.adapters import with_adapters as with_adapters
from arena_trainers.engines.precision import training_dtype as training_dtype
from arena_trainers.engines.settings import ENGINES as ENGINES
from arena_trainers.engines.settings import Engine as Engine
from arena_trainers.engines.settings import by_server as by_server
from arena_trainers.engines.settings import changes_draws as changes_draws
from arena_trainers.engines.settings import check_engine as check_engine
from arena_trainers.engines.settings import check_installed as check_installed
from arena_trainers.engines.settings import correction_mode as correction_mode
from arena_trainers.engines.settings import engine_backend as engine_backend
from arena_trainers.engines.settings import without_client as without_client
