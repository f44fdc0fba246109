"""The explorer, ``simlab explore``: a page of panels, and the small server that simulates for them.

``controls`` describes the settings once: the page builds its controls from it, and the server checks requests against
it (``panel_settings``). ``answers`` computes masses, banks and formulas for the page, one question at a time, or many
in advance for an exported page. ``laboratory`` runs simulations in a process of their own (``worker``, ``panel_runs``),
which the server can stop. ``results`` reads slices of the user's own results. The page's own closed forms, tail miss
and one step, are in ``page/closed_forms.js``; a test compares them with ``simlab.theory``.
"""
