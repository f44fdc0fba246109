"""The machine of a measurement, without its name."""

import datetime
import importlib.metadata
import os
import platform
from pathlib import Path

from simlab.identity import commit

RESULTS = Path(__file__).parent / "results"


def describe(*libraries: str) -> dict[str, object]:
    """Processor, memory, system, versions, date, commit, and how busy the machine was."""
    kernel = platform.release().partition("-")[0]
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.system()} {kernel}",
        "python": platform.python_version(),
        **{library: importlib.metadata.version(library) for library in libraries},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": commit(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def in_words(machine: dict[str, object]) -> str:
    """One line for a report."""
    first = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}"
    rest = [f"{name} {value}" for name, value in list(machine.items())[4:]]
    return f"{first}; {', '.join(rest)}".replace("load_average", "load average before")


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, columns aligned right."""
    lines = [header, ["---:"] * len(header), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "| " + " | ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) + " |" for line in lines
    )
