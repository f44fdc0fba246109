"""The explorer, ``simlab explore``: a page of panels, and the small server that simulates for them.

``server`` holds a request to the ``controls`` and hands it on: a question to ``answers`` or ``results``, a simulation
to ``laboratory``, whose process (``worker``) runs ``panel_runs``. ``page`` writes the page, also as one file with what
``in_advance`` holds. The page's own closed forms, tail miss and one step, are in ``page/closed_forms.js``.
"""
