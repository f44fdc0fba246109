"""Simulate runs of one problem; ``simlab.simulate`` is ``api.simulate``. Importing the simulator imports JAX."""
