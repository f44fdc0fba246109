"""Render the chat template of a tokenizer with jinja2's sandbox, as ``transformers`` does.

``transformers`` also offers tools, documents and a clock (``strftime_now``). They are missing here: a prompt depends on
the template and the messages alone, so that a run that goes on tomorrow trains on the prompts of today. Templates that
ask whether there is a clock, such as Llama 3's, then use the date that is written in them.
"""

import functools
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simlab.errors import InputError
from simlab.llm.extra import package
from simlab.reading import reason

TIME_LIMIT = 5.0  # seconds for one prompt; a template takes well under a millisecond


class Message(NamedTuple):
    """One turn of a conversation.

    Attributes:
        role: system, user or assistant, in most templates.
        content: the text.
    """

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

    def check(self) -> None:
        """Raise ``InputError`` for a template that cannot be read, and without the package that reads it."""
        _ = self._template

    def render(self, messages: Sequence[Message]) -> str:
        """Return the prompt: the messages, and the beginning of the assistant's answer.

        Raises:
            InputError: for a template that cannot be read, that takes longer than ``TIME_LIMIT``, or that refuses these
                messages.
        """
        template, outcome = self._template, list[str | Exception]()
        variables = {
            **self.special,
            "messages": [message._asdict() for message in messages],
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
        }

        def render() -> None:
            try:
                outcome.append(template.render(variables))
            except Exception as error:  # a template can make jinja2 raise anything
                outcome.append(error)

        # Python cannot stop a thread. One that takes too long is left behind, and ends with the process.
        thread = threading.Thread(target=render, daemon=True)
        thread.start()
        thread.join(TIME_LIMIT)
        if not outcome:
            raise InputError(f"the chat template takes more than {TIME_LIMIT:g} seconds")
        if isinstance(outcome[0], Exception):
            raise InputError(f"the chat template is refused: {reason(outcome[0])}")
        return outcome[0]

    @functools.cached_property
    def _template(self) -> Any:
        sandbox = package("jinja2.sandbox")
        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation_extension()]
        )
        environment.filters["tojson"] = _as_json
        environment.globals["raise_exception"] = _raise_exception
        try:
            return environment.from_string(self.source)
        except Exception as error:  # a text that is no template can make the package raise anything
            raise InputError(f"the chat template cannot be read: {reason(error)}") from None


def _as_json(value: Any, **options: Any) -> str:
    """Write JSON; jinja2's own filter would escape characters of HTML."""
    return json.dumps(value, **{"ensure_ascii": False, **options})


def _raise_exception(message: str) -> None:
    raise ValueError(message)


def _generation_extension() -> Any:
    """Return the extension for ``{% generation %}``, which marks what the assistant says; the mark prints nothing."""

    class Generation(package("jinja2.ext").Extension):  # type: ignore[misc]
        tags = frozenset({"generation"})

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return Generation
