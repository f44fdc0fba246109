"""A training run on several devices: all compute gradients, and the run leaves the files of one device."""

from unittest.mock import Mock

import jax
import numpy as np
import pytest
from several_devices import DEVICES, called
from training_cases import contents, parameters_of, trainer_and_state

from simlab.llm.completions import CompletionBatch
from simlab.llm.training import gradient
from simlab.llm.training.gradient import DecoderPolicy, compute_on_devices

# Four microbatches of a batch, and two of the last minibatch.
LAYERS = (
    {
        "rl": {"microbatch": 4, "epochs": 2, "prompts": 4},
        "record": {"instruments_every": 1, "checkpoint_every": 1},
        "warm_start": {"steps": 1},
        "arms": ["grpo+kl_penalty(coefficient=0.1)"],
    },
)
KINDS = {"all": (), "adapters": ({"model": {"lora_rank": 2, "gradient_checkpointing": True}},)}


def trained(out, devices):
    calls = [("train_and_say_where", [*LAYERS, *layers], str(out / kind)) for kind, layers in KINDS.items()]
    return dict(zip(KINDS, called("training_on_devices", *calls, devices=devices), strict=True))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    alone, spread = (tmp_path_factory.mktemp(name) for name in ("alone", "spread"))
    trained(alone, 1)
    return alone, spread, trained(spread, DEVICES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_device_computes_gradients_and_log_probabilities(both, kind):
    assert both[2][kind] == {"_gradient": list(range(DEVICES)), "completions_logp": list(range(DEVICES))}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_run_leaves_has_the_bits_of_one_device(both, kind):
    """Metrics, checkpoints and models are equal; only run.json may name the devices."""
    alone, spread = (contents(folder / kind) for folder in both[:2])
    assert alone.keys() == spread.keys()
    assert [name for name in alone if alone[name] != spread[name]] == []


# In what order


def several(count):
    return [Mock(spec=jax.Device) for _ in range(count)]


def test_a_policy_has_its_microbatches_computed_on_all_devices_of_the_process(monkeypatch):
    config, devices, asked = trainer_and_state("grpo")[0].policy.config, several(3), []
    monkeypatch.setattr(jax, "local_devices", lambda: devices)
    monkeypatch.setattr(gradient, "compute_on_devices", lambda devices, *_: asked.append(devices) or iter(()))
    tokens = np.full((2, 2, 3), 5, np.int32)
    batch = CompletionBatch(tokens[:, 0], np.array([3, 3], np.int32), tokens, np.ones(tokens.shape, bool))
    policy, parameters = DecoderPolicy(config, "float32", 1.0, 2), parameters_of(config)
    policy.logp(parameters, batch)
    policy.gradient(parameters, batch, np.ones(tokens.shape, np.float32))
    assert asked == [devices, devices]


def test_pieces_are_taken_in_turns_and_come_back_in_their_order(monkeypatch):
    devices, puts = several(3), []

    def put(arrays, device):
        puts.append(devices.index(device))
        return tuple((array, devices.index(device)) for array in arrays)

    monkeypatch.setattr(jax, "device_put", put)
    results = list(compute_on_devices(devices, lambda piece, copy: (piece, copy), range(7), np.float32(5)))
    assert results == [(0, 5), (1, (5, 1)), (2, (5, 2)), (3, 5), (4, (5, 1)), (5, (5, 2)), (6, 5)]
    assert puts == [1, 2], "each further device gets one copy"


def test_a_device_without_a_piece_gets_no_copy(monkeypatch):
    puts = []
    monkeypatch.setattr(jax, "device_put", lambda arrays, device: puts.append(device) or arrays)
    devices = several(4)
    assert list(compute_on_devices(devices, lambda piece, copy: piece, range(2), 0)) == [0, 1]
    assert list(compute_on_devices(devices, lambda piece, copy: piece, [], 0)) == []
    assert puts == [devices[1]]
