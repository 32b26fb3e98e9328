r"""Kuhn poker for verifiers. Save it as my_kuhn.py; in its folder, run:

PYTHONPATH=. vf-eval my_kuhn -n 20 --no-push --model MODEL --client.base-url URL \
    --client.api-key-var OPENAI_API_KEY
"""

from arena_wrappers.adapters.verifiers import environment

KuhnEnv, KuhnTaskset, KuhnHarness = environment("kuhn_poker")

__all__ = ["KuhnEnv", "KuhnHarness", "KuhnTaskset"]
