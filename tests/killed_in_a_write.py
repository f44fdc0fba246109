"""A program that dies at its n-th replacement of a file, just before it or just after."""

PROGRAM = """
import itertools, os, signal, sys
{imports}

moment, last, replace, calls = sys.argv[1], int(sys.argv[2]), os.replace, itertools.count(1)

def counted(source, target):
    die = next(calls) == last
    if die and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    if die:
        os.kill(os.getpid(), signal.SIGKILL)

os.replace = counted
{work}
"""


def killed_in_a_write(imports, work):
    """The text of the program; its first arguments are ``before`` or ``after`` and the number of the replacement."""
    return PROGRAM.format(imports=imports, work=work)
