"""Simulate on the workers of a Dask cluster: an existing one, or processes started here for one sweep.

This process alone knows the sweep and writes its parts. A worker holds nothing: it is sent runs, problem and all, and
answers with their records. One that falls silent is given nothing more, and records of another shape than was asked for
are not taken. Yet workers are trusted: Dask unpacks what they send by pickle, which can run code here.

Needs the extra ``dask`` (``pip install 'simlab[dask]'``).
"""

from simlab.sweeps.cluster.connection import Cluster, connected

__all__ = ["Cluster", "connected"]
