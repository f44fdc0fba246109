"""Keep compiled programs for the next call; threads that ask for the same one wait for its only compilation.

JAX keeps them on disk too, in ``JAX_COMPILATION_CACHE_DIR`` or the user's cache folder, unless
``JAX_ENABLE_COMPILATION_CACHE=false``.
"""

import functools
import hashlib
import os
import platform
import threading
import weakref
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import jax

from simlab.identity import processor_features

KEPT_PROGRAMS = 16  # for each device, of some 20 MB each; a sweep goes through its programs one after the other
WORTH_KEEPING = 0.3  # seconds of compiling

_programs: dict[Hashable, Any] = {}
# Locks of the programs that a thread asks for at the moment.
_locks: weakref.WeakValueDictionary[Hashable, threading.Lock] = weakref.WeakValueDictionary()
_one_at_a_time = threading.Lock()


def cached(key: Hashable, compile_program: Callable[[], Any]) -> Any:
    """Return the program of a key on the thread's default device, compiled at the first call by ``compile_program``."""
    keep_on_disk()
    here = _here(key)
    with _one_at_a_time:  # for all devices: on GPUs the next one finds on disk what the first has compiled
        lock = _locks.setdefault(key, threading.Lock())
    with lock:
        program = _programs.pop(here, None) or compile_program()
        _programs[here] = program  # the latest used comes last
    for oldest in list(_programs)[: -KEPT_PROGRAMS * jax.local_device_count()]:
        _programs.pop(oldest, None)
    return program


def is_cached(key: Hashable) -> bool:
    """Return True if the program of a key is in the cache for the thread's default device."""
    return _here(key) in _programs


def _here(key: Hashable) -> Hashable:
    config: Any = jax.config
    return config.jax_default_device or jax.local_devices()[0], key


@functools.cache
def keep_on_disk() -> None:
    """Turn JAX's persistent compilation cache on, in the user's cache folder unless another folder is set."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None:
        return
    # Code compiled for another kind of processor might not run here.
    features = " ".join(sorted(processor_features())) or platform.processor()
    kind = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:12]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "simlab" / f"compiled-{kind}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return  # a home that cannot be written: everything is compiled anew
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", WORTH_KEEPING)
