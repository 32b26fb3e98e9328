"""Adapters to other frameworks: one module each, which imports its framework.

A module whose framework is missing raises an ImportError that says what to install. Frameworks
that take PettingZoo's or Gymnasium's interface have no module; `docs/adapters.md` shows how to
use them.
"""
