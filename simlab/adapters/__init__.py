"""The laboratory's methods inside the engines that people train with: ``trl`` and ``verl``.

Importing this imports neither; ``simlab.adapters.trl`` and ``simlab.adapters.verl`` import what they adapt.
"""
