"""The explorer, ``simlab explore``: a page of panels, and the small server that simulates for them.

``server`` asks ``answers``, ``results`` or ``laboratory``, whose process (``worker``) runs ``panel_runs``.
"""
