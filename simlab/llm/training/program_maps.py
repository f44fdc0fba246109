"""Give compiled programs up before they hold more memory maps than Linux grants a process.

XLA maps some hundred pieces of memory for each program, and a run compiles one for every shape of a microbatch of every
arm. Beyond ``vm.max_map_count`` it reports "Cannot allocate memory" and the process ends without a word of ours.
"""

from pathlib import Path
from typing import Any

import jax

MAPS, LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")  # neither is there but on Linux
SHARE = 0.5  # of the limit; six arms of six group sizes reached it within three seeds


def give_up_many(maps: Path = MAPS, limit: Path = LIMIT) -> bool:
    """Give all compiled programs up if the process holds over ``SHARE`` of the maps it may; whether it did.

    Those that are needed again come from the compilation cache on disk.
    """
    if not (maps.exists() and limit.exists()):
        return False
    with maps.open("rb") as lines:
        held = sum(1 for _ in lines)
    if held <= SHARE * int(limit.read_text()):
        return False
    forget: Any = jax.clear_caches  # jax has no type for it
    forget()
    return True
