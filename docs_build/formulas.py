"""Typeset formulas as MathML: those in the text of pages, and those that the registry of estimators writes plainly."""

import html
import re

from paper_checks.formula import typeset

# What pymdownx.arithmatex makes of $...$ and $$...$$ in a page.
_IN_PAGE = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_GREEK = ("alpha", "beta", "gamma", "delta", "kappa", "lambda", "tau", "eps", "pi")
_TOKEN = re.compile(r"sqrt\(|\^\(|a(?= [a-z]{2})|[A-Za-z]+(?:_[A-Za-z@0-9]+)*|\d+(?:\.\d+)?|<=|>=|\s+|.")
_SIGNS = {"<=": r"\le ", ">=": r"\ge ", "*": r"\cdot ", "|": "|"}
_BRACKETS = {"(": ")", "[": "]"}


def typeset_all(page: str, name: str) -> str:
    """The HTML of a page with its formulas as MathML.

    Raises:
        ValueError: for a formula that cannot be typeset, with the page's name.
    """

    def typeset_one(match: re.Match[str]) -> str:
        try:
            return typeset(html.unescape(match[2]), "inline" if match[1] == "span" else "block")
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    return _IN_PAGE.sub(typeset_one, page)


def in_tex(formula: str) -> str:
    """A formula as the registry writes it, in TeX: letters and functions are mathematics, other words are words.

    >>> in_tex("(1 - p)^gamma A_base")
    '(1 - p)^{\\\\gamma} A_{\\\\mathrm{base}}'
    >>> in_tex("p q/sqrt(p q), where p <= 1/2")
    'p q/\\\\sqrt{p q}, \\\\text{where } p \\\\le  1/2'
    """
    tokens, closing, parts = _TOKEN.findall(formula), [], []
    for place, token in enumerate(tokens):
        if token in ("sqrt(", "^("):
            parts.append(r"\sqrt{" if token == "sqrt(" else "^{")
            closing.append("}")
        elif token in _BRACKETS:
            parts.append(token)
            closing.append(_BRACKETS[token])
        elif closing and token in ")]":
            parts.append(closing.pop())
        elif token[0].isalpha():
            raised = parts and parts[-1] == "^"
            after = "".join(tokens[place + 1 : place + 3])
            word = _word(token, called=after[:1] == "(", article=bool(re.match(" [a-z]{2}", after)))
            parts.append(f"{{{word}}}" if raised else word)
        else:
            parts.append(_SIGNS.get(token, token))
    return re.sub(r"(?<=.)\\text\{", r"\\text{ ", re.sub(r" \} *\\text\{", " ", "".join(parts)))


def _word(token: str, called: bool, article: bool) -> str:
    name, *below = token.split("_")
    if called and len(name) > 1 and not below:
        return rf"\operatorname{{{name}}}"
    if (len(name) > 1 and name not in _GREEK and not below) or (name == "a" and article):
        return rf"\text{{{name} }}"
    shown = {"eps": r"\epsilon"}.get(name, rf"\{name}") if name in _GREEK else name
    shown = shown if len(name) == 1 or name in _GREEK else rf"\mathrm{{{name}}}"
    return shown + "".join(f"_{{{_index(one)}}}" for one in below[:1])


def _index(name: str) -> str:
    if name in _GREEK:
        return rf"\{name}"
    return name if len(name) <= 2 else rf"\mathrm{{{name}}}"
