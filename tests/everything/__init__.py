"""Every test, the slow ones once and the others on every Python: ``python -m tests.everything`` from the root.

It makes the environments of ``environments.py``, runs their parts (``parts.py``) side by side (``running.py``), and
writes a table of what ran, what passed, and what was skipped and why (``table.py``). A part that has ended is not run
again until the checkout changes, so that the command can be stopped, or killed, and given again.
"""
