"""The simulator. Importing it imports JAX."""
