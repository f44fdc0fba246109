"""Identify what made a number: simlab's code, a user's own code, versions and the processor. Imports no JAX."""
