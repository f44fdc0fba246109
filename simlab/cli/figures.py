"""``simlab figures``: draw the papers' figures and the project's own."""

import argparse
from typing import Any

from simlab.cli.options import add_out
from simlab.cli.parser import add_command
from simlab.errors import InputError


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "figures",
        summary="draw the papers' figures and the project's own",
        about="Draw figures: SVG, PDF and PNG, and a JSON of the plotted numbers and what they come from.",
        examples=[
            "simlab figures --list",
            "simlab figures f_grpo_fig4 --out images",
            "simlab figures minibatches --rerun --out images",
        ],
        run=_figures,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a figure, or all")
    parser.add_argument("--list", action="store_true", help="name the figures, and say what differs from the papers'")
    parser.add_argument(
        "--rerun",
        action="store_true",
        help="compute the figure's numbers again, in OUT/NAME.rerun; the same command, run again, continues there",
    )
    add_out(parser, "FOLDER", "figures/images", "folder of the images")


def _figures(options: argparse.Namespace) -> int:
    from simlab.bundled import make_importable

    make_importable()
    from figures.shared.images import write
    from figures.shared.registry import in_words, names, script
    from figures.shared.rerun import rerun
    from simlab.cli import main
    from simlab.files import make_folder

    if options.rerun and options.name in (None, "all"):
        raise InputError("--rerun takes minutes to hours a figure; allowed: with the NAME of one")
    if options.list == (options.name is not None):
        raise InputError("figures takes NAME, all, or --list, and one of them alone")
    chosen = names() if options.list or options.name == "all" else [options.name]
    scripts = [script(name) for name in chosen]
    if options.list:
        print(*(in_words(one) for one in scripts), sep="\n")
        return 0
    make_folder(options.out)
    if options.rerun:
        work = options.out / f"{options.name}.rerun"
        if code := rerun(scripts[0], work, main):
            return code
        scripts = [script(options.name, work)]
    for one in scripts:
        write(one, options.out)
        print((options.out / one.name).with_suffix(".png"))
    return 0
