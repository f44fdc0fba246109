"""The chat template of a tokenizer: messages in, one prompt out."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simlab.errors import InputError
from simlab.llm.chat.expressions import Scope
from simlab.llm.chat.statements import Statements
from simlab.llm.extra import package
from simlab.reading import reason

LONGEST_TEMPLATE = 2**16  # characters


class Message(NamedTuple):
    """What one side of a conversation says.

    Attributes:
        role: system, user or assistant, in most templates.
        content: the text.
    """

    role: str
    content: str


class ChatTemplate:
    """A template as it stands in a tokenizer's files.

    Args:
        source: its text, in the language of jinja2.
        special: texts that it may name, such as ``bos_token``.
    """

    def __init__(self, source: str, special: Mapping[str, str]):
        self.source, self.special = source, dict(special)

    @functools.cached_property
    def _body(self) -> Any:
        jinja2 = package("jinja2", "llm")
        if len(self.source) > LONGEST_TEMPLATE:
            raise InputError(f"the chat template has {len(self.source)} characters; allowed: {LONGEST_TEMPLATE}")
        environment = jinja2.Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _marked_generation()]
        )
        try:
            return environment.parse(self.source).body
        except Exception as error:  # a text that is no template can make the package raise anything
            raise InputError(f"the chat template cannot be read: {reason(error)}") from None

    def check(self) -> None:
        """Raise ``InputError`` for a template that cannot be read, and without the package that reads it."""
        _ = self._body

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt: the messages, and the beginning of the assistant's answer.

        Raises:
            InputError: for a template that cannot be read, that does more than is allowed, or that refuses these
                messages.
        """
        given = {
            **self.special,
            "messages": [message._asdict() for message in messages],
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
        }
        statements, body = Statements(), self._body
        try:
            statements.run(body, Scope(given))
        except RecursionError:
            raise InputError("the chat template is refused: it is nested too deep") from None
        except InputError as error:
            raise InputError(f"the chat template is refused: {error}") from None
        return "".join(statements.printed)


def _marked_generation() -> Any:
    """The extension of ``transformers`` that marks what the assistant says; the mark is left out here."""

    class Generation(package("jinja2.ext", "llm").Extension):  # type: ignore[misc]
        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return Generation
