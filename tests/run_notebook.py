"""Run a notebook as a program of its own: as it is, then with all sliders at their first and at their last value."""

import importlib.util
import sys


def app_of(path):
    """The app of a notebook's file."""
    specification = importlib.util.spec_from_file_location("notebook", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.app


def run_everywhere(path):
    """The names of the notebook's sliders, after three runs, or one if it has none."""
    import marimo  # noqa: PLC0415  # which the other tests do without

    app = app_of(path)
    _, defined = app.run()
    sliders = {name: value for name, value in defined.items() if isinstance(value, marimo.ui.slider)}
    for end in ("start", "stop") if sliders else ():
        # The cell of a definition that is overridden does not run: a slider of the same range stands for its own.
        app.run(
            defs={
                name: marimo.ui.slider(slider.start, slider.stop, slider.step, value=getattr(slider, end))
                for name, slider in sliders.items()
            }
        )
    return list(sliders)


if __name__ == "__main__":
    print(*run_everywhere(sys.argv[1]))
