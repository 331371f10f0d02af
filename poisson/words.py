# SPDX-License-Identifier: MIT
"""Words of messages that follow from others: plurals and articles."""

_AN, _A = ("a", "e", "i", "o", "u", "ndarray", "mpi"), ("uf", "ui", "uni", "us", "one")
"""How words begin that take "an", and those of them that take "a" because they are spoken with another sound."""


def quantity(number: int, noun: str) -> str:
    """A number with its noun, such as "1 thread", "2 threads" or "3 processes"."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """A noun for more than one, or none: the regular plural, or the field's own."""
    if noun.endswith("axis"):
        return f"{noun[:-2]}es"
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"


def article(noun: str) -> str:
    """A noun, often the name of a type, with the article before it, such as "an int" or "a float"."""
    name = noun.lower()
    return f"an {noun}" if name.startswith(_AN) and not name.startswith(_A) else f"a {noun}"
