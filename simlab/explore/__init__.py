"""The explorer, ``simlab explore``: a page of six panels, and the small server that simulates for two of them.

What a control is, and what it may be, is said once, in ``settings``: the page builds its controls from it, and the
server holds requests to it. The other panels are closed forms that the page computes by itself; a golden test holds
these to the functions of ``simlab.theory``. The server imports no JAX: simulations run in a process of their own
(``worker``), which the server can stop.
"""
