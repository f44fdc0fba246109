"""Keep JAX's compiled programs on disk, in entries that are written whole and verified when they are read.

JAX's own writes an entry in place, and takes what it finds under a name for the program of that name: half an entry, or
another's. Here an entry that is damaged or of another name is removed, and its program compiled anew; processes side by
side may share the folder.
"""

import importlib
import logging
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from simlab.files import remove_unfinished, write_whole
from simlab.seals import Damaged, sealed, unsealed

SUFFIX = "-sealed"  # so that JAX without simlab, in the same folder, keeps entries of its own


class Entries:
    """Compiled programs by JAX's key, in a folder; what JAX calls a cache."""

    def __init__(self, folder: Path):
        self._path = folder
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)

    def path(self, key: str) -> Path:
        """Where the entry of a key lies, or would."""
        return self._path / f"{key}{SUFFIX}"

    def get(self, key: str) -> bytes | None:
        """The program of a key; None if there is none, or none that is whole."""
        path = self.path(key)
        try:
            return unsealed(path.read_bytes(), key)
        except FileNotFoundError:
            return None
        except Damaged as error:
            logging.getLogger(__name__).warning("compiled program %s is damaged (%s): compiled anew", path, error)
            path.unlink(missing_ok=True)
            return None

    def put(self, key: str, value: bytes) -> None:
        """Keep a program; after a power loss it may be gone, and is then compiled again."""
        write_whole(self.path(key), sealed(value, key), durable=False)


def verify_entries() -> None:
    """Have JAX keep compiled programs as ``Entries``.

    JAX's own cache stays where this JAX has no such place to put another, where the folder is no local one, and where
    the user has asked for a limited size (``jax_compilation_cache_max_size``) or for JAX's own check of contents.
    """
    private: Any = importlib.import_module("jax._src.compilation_cache")
    own = getattr(private, "get_file_cache", None)
    if own is None or own.__module__ == __name__:
        return

    def cache_of(path: str) -> Any:
        config: Any = jax.config
        limited = config.jax_compilation_cache_max_size != -1 or config.jax_compilation_cache_check_contents
        return own(path) if limited or "://" in path else (Entries(Path(path)), path)

    private.get_file_cache = cache_of
    compilation_cache.reset_cache()  # it may be open already
