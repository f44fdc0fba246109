"""Check the library's shapes and types while the tests run; the hook must precede the first import of simlab."""

import signal

from beartype import BeartypeConf, beartype
from hypothesis import settings
from jaxtyping import install_import_hook

collect_ignore = ["own_estimator.py"]  # importing it registers an estimator, which one test alone does

typechecker = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int may stand for a float, as PEP 484 has it
install_import_hook("simlab", "conftest.typechecker")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # In the background of a shell the tests would hand down to the programs they start that interrupts are ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("seeded", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("seeded")
