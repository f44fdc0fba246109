"""Chat templates of tokenizers, rendered by walking through them: no code is made of them, and none is run.

The package jinja2 reads a template into a tree, and ``simlab.llm.chat.statements`` walks through that. jinja2's own way
makes a Python program of the tree, and its sandbox then tries to keep the program from harm; neither the time nor
the memory that the program takes has a bound. Here a template has texts, numbers, lists and mappings, the methods,
filters and tests that ``simlab.llm.chat.values`` lists, and so many steps; anything else is refused by name. Limits are
counted, not timed, so that a prompt is the same on every machine.

Differences from ``transformers``: there are no tools and documents, and the clock (``strftime_now``) is not there, so
that a prompt depends on nothing but the template and the messages. Templates that ask whether they have a clock, as
Llama 3's, then use the date that is written in them.
"""

from simlab.llm.chat.template import ChatTemplate, Message

__all__ = ["ChatTemplate", "Message"]
