"""Build the documentation site: ``simlab docs`` runs MkDocs, and MkDocs runs the hooks of this package.

Nothing here is part of the library. A page of the site is a file of ``docs/``, a file elsewhere in the repository that
``pages.ELSEWHERE`` names, or made from the registry of estimators.
"""
