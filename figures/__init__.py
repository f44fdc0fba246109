"""The project's figures: one script each, which ``simlab figures NAME`` draws.

A script draws either what formulas give at its ``CONFIGURATION``, or numbers that runs have left in ``DATA``, a file of
data/. Its first line says what is shown, with the tag of the paper's figure; ``MESSAGE`` is its headline, what is to be
seen; ``DIFFERS`` says in one line what differs from the paper's and why; ``draw(data)`` makes the figure.
"""
