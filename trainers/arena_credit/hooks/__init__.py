"""Hooks: the estimators of this package in other trainers, one file per framework.

No other part of this package imports a framework. `rows` has the shared part: an estimator applied
to trajectories of turn rewards.

| File | Framework | Use |
|---|---|---|
| `verl` | verl | set `algorithm.adv_estimator=arena_mars_loo` |
| `skyrl` | SkyRL | `register("mars_loo")`, `stepwise(RayPPOTrainer, "mars_loo")` |
| `trl` | TRL | `with_credit(GRPOTrainer, "mars_loo")`, `use_async("mars_loo")` |
| `openrlhf` | OpenRLHF | a setup hook of Ray's workers, and `ARENA_CREDIT=mars_loo` |
| `comlrl` | CoMLRL | `with_credit(MAGRPOTrainer, "mars_loo")` |
| `verifiers` | verifiers | `annotate(episodes, "mars_loo")` |
| `prime_rl` | prime-rl | `use("mars_loo")` |

`docs/credit/hooks.md` shows the lines for each framework, and the bias of its own credit.
"""
