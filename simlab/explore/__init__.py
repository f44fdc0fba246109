"""The explorer, ``simlab explore``: a page of six panels, and the small server that simulates for two of them.

The controls and their allowed values are described once, in ``settings``: the page builds its controls from that, and
the server checks requests against it. The other panels show closed forms that the page computes by itself; a test
compares these with the functions of ``simlab.theory``. The server imports no JAX: simulations run in a process of
their own (``worker``), which the server can stop.
"""
