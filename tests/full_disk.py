"""Simulate a disk that becomes full."""

import errno
import os
import stat


def full_from(write):
    """An ``os.fsync`` that fails from some file on, counted from 1; folders are not counted, for they take no room."""
    files, fsync = iter(range(1, 1000)), os.fsync

    def full(descriptor):
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and next(files) >= write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    return full
