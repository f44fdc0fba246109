"""A user's own code is part of what a unit is: numbers of two versions of it never mix."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from array_api_compat import array_namespace
from sweep_cases import TINY, asked, command, parts_of, refusal

from simlab.estimators import Registered, center, chain, registry
from simlab.methods import Method
from simlab.problems import anchored
from simlab.simulator.runner import run as simulate
from simlab.simulator.settings import Settings
from simlab.surrogates import SURROGATES, Surrogate, ppo_clip
from simlab.sweeps import Plan
from simlab.sweeps.result import read
from simlab.sweeps.run import merge, parts_folder, run

NAME = "own_sign"
UNITS = 3  # blocks of 8 seeds

OWN = """
import sys
from simlab.cli import main
from simlab.estimators import center, chain, register

@register("own:sign")
def own_sign():
    def signed(advantages, rollouts):
        return SIGN * advantages
    return chain(center("mean"), signed)

sys.exit(main(sys.argv[1:]))
"""


def constructor(sign):
    def own_sign():
        """A sign of one's own."""
        return chain(center("mean"), lambda advantages, rollouts: sign * advantages)

    return own_sign


@pytest.fixture
def register(monkeypatch):
    """Puts an estimator under the name, whatever stood there: as another process would find it."""
    return lambda build: monkeypatch.setitem(registry._REGISTRY, NAME, Registered(NAME, "own:sign", build))


def small(**changes):
    return dataclasses.replace(asked("--estimator", "grpo", "--group-size", 4, *TINY, "--seeds", 20), **changes)


def unit_names(sweep):
    """Names of all units of a sweep."""
    return {unit.name for unit in Plan(sweep).units("", "cpu")}


@pytest.mark.slow
def test_the_same_command_with_a_flipped_sign_computes_anew(tmp_path):
    out, program = tmp_path / "sweep.nc", tmp_path / "own.py"
    arguments = ("sweep", "--out", out, "--estimator", NAME, "--group-size", 4, *TINY, "--seeds", 20)
    rewards = []
    for sign, said in (
        (1, ""),
        (-1, f"{UNITS} parts in {parts_folder(out)} are of other sweeps or code versions: left alone\n"),
    ):
        program.write_text(OWN.replace("SIGN", str(sign)))
        code, _, complaints = command(*arguments, program=(program,))
        assert (code, complaints) == (0, said)
        rewards.append(read(out).q_pos.isel(step=-1).values)
    assert (rewards[1] < rewards[0]).all()


def test_after_a_kill_old_and_new_seeds_do_not_mix(register, tmp_path, capsys):
    register(constructor(1.0))
    sweep, out = small(estimators=(NAME,)), tmp_path / "sweep.nc"
    run(sweep, out)
    first, *others = sorted(parts_folder(out).glob("*.npz"))
    for path in others:
        path.unlink()
    out.unlink()
    capsys.readouterr()
    register(constructor(-1.0))
    mended = run(sweep, out)
    assert capsys.readouterr().err == f"1 part in {first.parent} is of other sweeps or code versions: left alone\n"
    assert len(parts_of(out)) == UNITS + 1
    assert mended.identical(run(sweep, tmp_path / "fresh.nc"))
    assert json.loads(mended.attrs["own"]).keys() == {f"{NAME}+ppo_clip"}


def test_an_estimator_that_is_named_by_a_parameter_counts(register):
    def names(sign):
        register(constructor(sign))
        sweep = small(estimators=("f_grpo",), parameters={"estimator.base": (NAME,)})
        return unit_names(sweep)

    assert names(1.0) == names(1.0)
    assert not names(1.0) & names(-1.0)


def test_so_does_a_surrogate_of_ones_own(monkeypatch):
    def names(factor):
        def own():
            return Surrogate(lambda ratio, advantages, rollouts: factor * advantages)

        monkeypatch.setitem(SURROGATES, "own", own)
        return unit_names(small(surrogates=("own",)))

    assert names(1.0) == names(1.0)
    assert not names(1.0) & names(-1.0)


def test_units_of_the_library_are_the_same_beside_code_of_ones_own(register):
    before = unit_names(small())
    register(constructor(1.0))
    assert unit_names(small()) == before


def test_shards_of_two_versions_are_not_joined(register, tmp_path):
    outs = [tmp_path / f"{number}" / "sweep.nc" for number in (1, 2)]
    for number, (out, sign) in enumerate(zip(outs, (1.0, -1.0), strict=True), 1):
        register(constructor(sign))
        run(small(estimators=(NAME,)), out, shard=(number, 2))
    folders = [parts_folder(out) for out in outs]
    message = refusal(merge, tmp_path / "joined.nc", folders)
    assert message == "the folders hold different sweeps (they differ in own)"
    assert refusal(merge, tmp_path / "joined.nc", folders[:1]) == (
        f"the parts are of other code of your own than there is here (in {NAME}+ppo_clip); allowed: the same code"
    )


def test_code_that_cannot_be_seen_is_refused_before_anything_is_done(register, tmp_path):
    held = (number for number in range(3))
    register(lambda: chain(center("mean"), lambda advantages, rollouts: advantages * (1 if held else 0)))
    message = refusal(run, small(estimators=(NAME,)), tmp_path / "sweep.nc")
    assert message.startswith(f"{NAME}+ppo_clip: the content of a generator cannot be hashed")
    assert message.endswith("allowed: functions, classes, numbers, arrays, what can be pickled")


# In one process, as in a notebook


def rising(method, storage="auto"):
    """By how much a short run raises the correct mass."""
    settings = Settings(method, 4, storage=storage)
    q_pos = simulate(anchored(60, 6), [settings] * 2, range(2), np.array([20]))["q_pos"]
    return float((q_pos[:, -1] - q_pos[:, 0]).mean())


def test_an_estimator_that_is_defined_anew_under_its_name_is_compiled_anew(register):
    register(constructor(1.0))
    assert rising(NAME) > 0
    register(constructor(-1.0))
    assert rising(NAME) < 0


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["dense", "lumped"])
def test_what_an_estimator_reads_is_read_again(storage):
    setting = SimpleNamespace(sign=1.0)

    def signed(advantages, rollouts):
        return setting.sign * advantages

    method = Method(chain(center("mean"), signed), ppo_clip())
    assert rising(method, storage) > 0
    setting.sign = -1.0
    assert rising(method, storage) < 0


def test_one_that_keeps_what_cannot_be_seen_is_simulated_all_the_same():
    seen = []

    def recorded(advantages, rollouts):
        seen.append(array_namespace(advantages).sum(advantages))
        return advantages

    assert rising(Method(chain(center("mean"), recorded), ppo_clip())) > 0
    assert seen
    assert rising(Method(chain(center("mean"), recorded), ppo_clip())) > 0
