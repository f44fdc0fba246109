"""Typeset formulas as MathML, which browsers show without the network."""

import re
from xml.etree import ElementTree

from latex2mathml.converter import convert

_NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'
_LEFT = {"~": "\N{TILDE OPERATOR}", r"\{": "{", r"\}": "}", r"\|": "\N{DOUBLE VERTICAL LINE}"}  # \sim; after \big


def typeset(formula: str, display: str = "block") -> str:
    """A LaTeX formula as a MathML element: on a line of its own (``block``) or within one (``inline``).

    Raises:
        ValueError: for LaTeX that the converter does not know.

    >>> typeset("p^2")
    '<math display="block"><mrow><msup><mi>p</mi><mn>2</mn></msup></mrow></math>'
    """
    known = re.sub(r"\\arg(?![A-Za-z])", r"\\operatorname{arg}", formula)
    try:
        root = ElementTree.fromstring(convert(known, display=display).replace(_NAMESPACE, ""))
    except Exception as error:  # the converter's own are many
        raise ValueError(f"{formula} cannot be typeset: {error}") from error
    for element in root.iter():
        if element.text in _LEFT:
            element.text = _LEFT[element.text]
            element.tag = "mo"
    if "\\" in (left := "".join(root.itertext())):
        raise ValueError(f"{formula} cannot be typeset: {left} is left")
    return ElementTree.tostring(root, encoding="unicode")
