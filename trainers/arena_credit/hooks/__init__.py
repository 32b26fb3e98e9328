"""Hooks: the estimators of this package in the trainers of others, one file a framework.

Each file imports its framework, and nothing else of this package does. `rows` has what they
share: an estimator applied to trajectories of turn rewards.

| File | Framework | Use |
|---|---|---|
| `verl` | verl | an entry point: set `algorithm.adv_estimator=arena_mars_loo` |
| `skyrl` | SkyRL | `register("mars_loo")`, `stepwise(RayPPOTrainer, "mars_loo")` |
| `trl` | TRL | `with_credit(GRPOTrainer, "mars_loo")`, `use_async("mars_loo")` |
| `openrlhf` | OpenRLHF | a setup hook of Ray's workers, and `ARENA_CREDIT=mars_loo` |
| `comlrl` | CoMLRL | `with_credit(MAGRPOTrainer, "mars_loo")` |
| `verifiers` | verifiers | `annotate(episodes, "mars_loo")` |
| `prime_rl` | prime-rl | `use("mars_loo")` |

`docs/credit/hooks.md` shows the lines of each, and how each framework's own credit is biased.
"""
