"""The explorer, ``simlab explore``: a page of panels, and the small server that simulates for them.

The controls and their allowed values are described once, in ``settings``: the page builds its controls from that, and
the server checks requests against it. The other panels show closed forms that the page computes by itself; a test
compares these with the functions of ``simlab.theory``. Runs that are seen at once, and all that an exported page has,
are files: ``in_advance.json`` and ``interference_map.json``. ``results`` reads slices of the user's own results.
The server imports no JAX: simulations run in a process of their own (``worker``), which the server can stop.
"""
