"""The explorer, ``simlab explore``: a page of seven panels, and the small server that simulates for three of them.

The controls and their allowed values are described once, in ``settings``: the page builds its controls from that, and
the server checks requests against it. The other panels show closed forms that the page computes by itself; a test
compares these with the functions of ``simlab.theory``. The map of interference is a file, ``interference_map.json``.
The server imports no JAX: simulations run in a process of their own (``worker``), which the server can stop.
"""
