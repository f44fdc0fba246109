"""Render the chat template of a tokenizer with jinja2's sandbox, as ``transformers`` does.

``transformers`` also offers tools, documents and a clock (``strftime_now``). They are missing here: a prompt depends on
the template and the messages alone, so that a run that goes on tomorrow trains on the prompts of today. Templates that
ask whether there is a clock, such as Llama 3's, then use the date that is written in them.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simlab.errors import InputError
from simlab.llm.extra import package
from simlab.reading import reason


class Message(NamedTuple):
    """One turn of a conversation; the role is system, user or assistant, in most templates."""

    role: str
    content: str


class ChatTemplate:
    """The chat template in a tokenizer's files.

    Args:
        source: its text, in the language of jinja2.
        special: texts that the template may name, such as ``bos_token``.
    """

    def __init__(self, source: str, special: Mapping[str, str]):
        self.source, self.special = source, dict(special)

    def render(self, messages: Sequence[Message]) -> str:
        """Return the prompt: the messages, and the beginning of the assistant's answer.

        Raises: InputError: for a template that cannot be read, or that refuses these messages.
        """
        template = self.template
        try:
            prompt: str = template.render(
                **self.special,
                messages=[message._asdict() for message in messages],
                add_generation_prompt=True,
                tools=None,
                documents=None,
            )
        except Exception as error:  # a template can make jinja2 raise anything
            raise InputError(f"the chat template is refused: {reason(error)}") from None
        return prompt

    @functools.cached_property
    def template(self) -> Any:
        """The template as jinja2 reads it; ``InputError`` if it cannot, and without jinja2."""
        extension, sandbox = package("jinja2.ext").Extension, package("jinja2.sandbox")

        class Generation(extension):  # type: ignore[misc, valid-type]
            """``{% generation %}`` marks the assistant's own words; the mark prints nothing."""

            tags = frozenset({"generation"})

            def parse(self, parser: Any) -> Any:
                next(parser.stream)
                return parser.parse_statements(("name:endgeneration",), drop_needle=True)

        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
        )
        # jinja2's own filter would escape characters of HTML.
        environment.filters["tojson"] = functools.partial(json.dumps, ensure_ascii=False)
        environment.globals["raise_exception"] = _raise_exception
        try:
            return environment.from_string(self.source)
        except Exception as error:  # a text that is no template can make the package raise anything
            raise InputError(f"the chat template cannot be read: {reason(error)}") from None


def _raise_exception(message: str) -> None:
    raise ValueError(message)
