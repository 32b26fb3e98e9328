"""What verl imports when it starts: the module of the entry point `verl.plugins`."""

from arena_credit.hooks.verl import register

register()
