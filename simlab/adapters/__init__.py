"""Train with simlab's estimators and surrogates inside other libraries: ``trl`` and ``verl``.

Importing this package imports neither; its modules ``trl`` and ``verl`` import the library that they adapt.
"""
