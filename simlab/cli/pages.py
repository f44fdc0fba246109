"""``simlab explore``, ``notebooks``, ``docs`` and ``completion``: pages in a browser, and help for a shell."""

from pathlib import Path

from simlab.cli.parser import Command, argument, option, switch
from simlab.errors import InputError, check_choice, check_range, missing_extra

NO_BROWSER = "only print the address"


class ExploreCommand(Command):
    """Serve a page of panels on the loopback interface and print its address; no request leaves the machine.
    Closed forms redraw as you drag; simulations run in a process of their own, compiled at start.
    """

    summary = "look and drag: weights, tail miss, simulations, on a page"
    examples = (
        "simlab explore",
        "simlab explore --preset f-grpo-fig2",
        "simlab explore --estimator mine.py:weight",
        "simlab explore sweep.nc",
        "simlab explore run/",
        "simlab explore --export page.html",
    )

    results: tuple[Path, ...] = argument(
        "RESULT",
        "results to open: a sweep's result.nc, the folder of a training run, the report.json of a diagnosis",
        (),
    )
    preset: str | None = option("open a view named after a figure; a wrong name lists all", "NAME")
    estimator: str | None = option("estimators of your own to choose: mine.py:weight", "LIST")
    port: int | None = option(
        "port of the page (default 8737, or any that is free if it is taken; 0: any that is free)", "N"
    )
    no_browser: bool = switch(NO_BROWSER)
    export: Path | None = option(
        "write the closed forms and the map of interference as one .html file that needs no server", "FILE"
    )

    def run(self) -> None:
        """Serve the page, or write it."""
        from simlab.grammar import split

        if self.port is not None:
            check_range("port", self.port, 0, 65535)
        with missing_extra("explore", "explore", {"starlette", "uvicorn"}):
            from simlab.explore.page import export
            from simlab.explore.presets import preset
            from simlab.explore.server import serve
        if self.preset is not None:
            preset(self.preset)
        if self.export is not None:
            if self.preset is not None:
                raise InputError(f"--export takes no --preset; allowed: the file's address with ?preset={self.preset}")
            for name, value in (("result", self.results), ("--estimator", self.estimator)):
                if value:
                    raise InputError(f"--export takes no {name}: its page has no server; allowed: without --export")
            export(self.export)
            print(f"page    {self.export}")
            return
        view = f"preset={self.preset}" if self.preset else "panel=results" if self.results else ""
        estimators = split(self.estimator) if self.estimator is not None else ()
        serve(self.port, browser=not self.no_browser, view=view, estimators=estimators, files=self.results)


class NotebooksCommand(Command):
    """Open the notebooks in marimo, on this machine alone (127.0.0.1). Those of a checkout are opened where
    they are; an installed package copies them first, and never over a file that is there.
    """

    summary = "open the notebooks in marimo"
    examples = ("simlab notebooks", "simlab notebooks --list", "simlab notebooks --folder copies --no-browser")

    list: bool = switch("say what each is about, and exit")
    folder: Path | None = option("where to work on copies (default the checkout's own, or simlab-notebooks)", "FOLDER")
    port: int | None = option("port of the page (default 2718, or the next that is free)", "N")
    no_browser: bool = switch(NO_BROWSER)

    def run(self) -> None:
        """List the notebooks, or become marimo's editor."""
        from simlab.bundled import bundled_folder
        from simlab.notebooks import check_marimo, check_port, notebooks, open_in_marimo, working_folder

        if self.list:
            entries = notebooks(bundled_folder("notebooks"))
            print(*(f"{name:26}{about}" for name, about in entries.items()), sep="\n")
            return
        if self.port is not None:
            check_port(self.port)
        check_marimo()
        folder = working_folder(self.folder)
        print(f"notebooks  {folder}")
        open_in_marimo(folder, self.port, browser=not self.no_browser)


class DocsCommand(Command):
    """Build the documentation of a checkout, without the network, and show it on this machine alone."""

    summary = "build the documentation and open it"
    examples = ("simlab docs", "simlab docs --out site --no-browser")

    out: Path = option("folder of the pages, whose content is replaced (default site)", "FOLDER", Path("site"))
    port: int | None = option("port of the page (default any that is free)", "N")
    no_browser: bool = switch(NO_BROWSER)

    def run(self) -> None:
        """Build the site and serve it."""
        from simlab.docs_site import build_site, check_docs, check_folder, serve

        if self.port is not None:
            check_range("port", self.port, 0, 65535)
        check_docs()
        check_folder(self.out)
        build_site(self.out)
        serve(self.out, self.port, browser=not self.no_browser)


BASH = """_simlab() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} options=
    if [ "$COMP_CWORD" -gt 1 ]; then
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
        case $word in -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;; *) COMPREPLY=() ;; esac
    else
        COMPREPLY=($(compgen -W "{commands}" -- "$word"))
    fi
}}
complete -o default -F _simlab simlab"""
CASE = '            {name}) options="{flags}" ;;'
ZSH = "autoload -U +X bashcompinit && bashcompinit\n"  # zsh reads bash's
SHELLS = ("bash", "zsh", "fish")


class CompletionCommand(Command):
    """Print what a shell reads to complete simlab's commands and options by the tab key."""

    summary = "print the completion of commands and options for a shell"
    examples = (
        'eval "$(simlab completion bash)"     in ~/.bashrc',
        'eval "$(simlab completion zsh)"      in ~/.zshrc, after compinit',
        "simlab completion fish | source      in ~/.config/fish/config.fish",
    )

    shell: str = argument("SHELL", "bash, zsh or fish")

    def run(self) -> None:
        """Print the script."""
        from simlab.cli import build_parser

        check_choice("shell", self.shell, SHELLS)
        _, parsers = build_parser()
        flags = {name: [flag for flag in parser.flags() if flag[:2] == "--"] for name, parser in parsers.items()}
        if self.shell == "fish":
            print(*(f"complete -c simlab -n __fish_use_subcommand -f -a {name}" for name in flags), sep="\n")
            for name, names in flags.items():
                given = f"complete -c simlab -n '__fish_seen_subcommand_from {name}' -l"
                print(*(f"{given} {flag.removeprefix('--')}" for flag in names), sep="\n")
            return
        cases = "\n".join(CASE.format(name=name, flags=" ".join(names)) for name, names in flags.items())
        print((ZSH if self.shell == "zsh" else "") + BASH.format(cases=cases, commands=" ".join(flags)))
