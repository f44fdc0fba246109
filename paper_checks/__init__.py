"""An executable referee report: what each claim of the five papers is worth.

A package a paper, a module a subject, a function a claim. ``claim`` says what a claim is, ``evidence`` how it is put to
the test, ``verdict`` how evidence becomes a verdict; ``exact`` and ``simulated`` are the two laboratories.
"""
