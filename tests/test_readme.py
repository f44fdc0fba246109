"""What the README shows must work: its Python runs, its commands mean what they say."""

import re
import shlex
from pathlib import Path

import pytest

from simlab import cli
from simlab.llm.training.options import build_settings
from simlab.sweeps.options import build_sweeps

pytestmark = pytest.mark.usefixtures("library_alone")  # a command names a file that registers an estimator
README = (Path(__file__).parent.parent / "README.md").read_text()
COMMANDS = [
    line.split("#")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("simlab")
]


def test_the_python_examples_run_one_after_the_other():
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)


def test_the_estimator_example_is_under_ten_lines():
    example = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[1]
    assert len([line for line in example.splitlines() if line.strip()]) < 10


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("simlab sweep")])
def test_each_sweep_command_describes_a_sweep(command):
    sweeps = build_sweeps(cli._parser().parse_args(shlex.split(command)[1:]))
    for sweep in sweeps.values():
        assert all(cell.group_size in sweep.group_sizes for _, cell in sweep.cells())


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("simlab where")])
def test_each_where_command_finds_something(command, capsys):
    assert cli.main(shlex.split(command)[1:]) == 0
    assert "simlab/" in capsys.readouterr().out


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("simlab train")])
def test_each_training_command_describes_a_run(command):
    options = cli._parser().parse_args(shlex.split(command)[1:])
    settings = build_settings(options)
    assert settings == type(settings).from_data(settings.as_data())


def test_the_fit_command_reads_what_the_sweep_before_it_writes():
    place = next(place for place, line in enumerate(COMMANDS) if line.startswith("simlab fit"))
    sweep, fit = (cli._parser().parse_args(shlex.split(line)[1:]) for line in COMMANDS[place - 1 : place + 1])
    written = [sweep.out.with_stem(f"{sweep.out.stem}-{name}") for name in build_sweeps(sweep)]
    assert fit.result in written
    assert fit.baseline in build_sweeps(sweep)["interference"].estimators


def test_the_comparison_command_is_understood():
    (command,) = [line for line in COMMANDS if line.startswith("simlab compare")]
    assert cli._parser().parse_args(shlex.split(command)[1:]).baseline == "grpo"
