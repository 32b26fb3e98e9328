"""A policy with a text in the prompts of its own seats only."""

from arena_wrappers import Policy
from arena_wrappers.policies.prompted import PromptPolicy, with_prompt
from arena_wrappers.policies.protocol import own_prompt


def with_text(policy: Policy, text: str, name: str | None = None) -> PromptPolicy:
    """The policy with a text as the `persona` at the beginning of its prompts.

    Args:
        policy: its other prompt options stay.
        text: the persona.
        name: name in records.

    Raises:
        ValueError: the policy's template of the system message has no {persona}.

    >>> from arena_wrappers import make_policy
    >>> with_text(make_policy("random"), "Stand from 17.").prompt.persona
    'Stand from 17.'
    """
    options = own_prompt(policy)
    check_shows_persona(options.system if options else None)
    player = with_prompt(policy, {"persona": text}, {})
    player.name = name or policy.name
    return player


def check_shows_persona(template: str | None) -> None:
    """Raises ValueError if a template of the system message leaves the persona out."""
    if template is not None and "{persona}" not in template:
        raise ValueError(
            f"want {{persona}} in the template of the system message, where the text goes, got "
            f"{template!r:.80}; add it"
        )
