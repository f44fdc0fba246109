"""What made a number: the library's code, a user's own code, versions, and the processor. Importing it loads no JAX."""
