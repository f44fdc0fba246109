"""An executable referee report: what each claim of the five papers is worth.

Each paper has a package, each subject a module, and each claim a function. ``claim`` says what a claim is, ``evidence``
how it is tested, ``verdict`` how evidence becomes a verdict; ``exact`` and ``simulated`` are the two laboratories.
"""
