"""Train with simlab's estimators and surrogates inside ``trl`` and ``verl``, which only its modules import."""
