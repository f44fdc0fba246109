"""Simulate runs of one problem; ``simlab.simulate`` is ``runner.simulate``. Importing the simulator imports JAX."""
