"""What the arms of a seed begin from, and which of its solutions and trajectories are followed from then on."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from simlab.files import set_aside, write_whole
from simlab.llm.instruments.rare_solutions import Tracked, Trajectories, choose_tracked, rarest_trajectories
from simlab.llm.model import Parameters
from simlab.llm.training.evaluate import Evaluated
from simlab.llm.training.folder import EVALUATIONS, ArmFolder, complain
from simlab.llm.training.lines import name_of
from simlab.seals import Damaged, sealed_json, unsealed_json

FOLLOWED = "followed.json"


class Followed(NamedTuple):
    """What of a start's evaluation is followed.

    Attributes:
        tracked: solutions whose tail-miss rate is followed.
        rare: correct trajectories that were rare at the start, whose likelihood is followed.
    """

    tracked: Tracked
    rare: Trajectories


class Start(NamedTuple):
    """What the arms of a seed begin from.

    Attributes:
        parameters: the parameters of the model after the warm start.
        followed: what is followed of it.
    """

    parameters: Parameters
    followed: Followed


def choose_followed(found: Evaluated) -> Followed:
    """What is to be followed of a start that was evaluated."""
    return Followed(choose_tracked(found.groups.solutions), _rare(found))


def write_followed(folder: ArmFolder, followed: Followed) -> None:
    """Write it into the folder of the start."""
    path, content = _path(folder), {name: part._asdict() for name, part in followed._asdict().items()}
    write_whole(path, sealed_json(content, name_of(path)))


def read_followed(folder: ArmFolder) -> Followed | None:
    """What is followed since the start, once that is evaluated; None if it is not, or the files of it are damaged."""
    path = _path(folder)
    try:
        if not folder.lines(EVALUATIONS) or not path.exists():
            return None
        content = unsealed_json(path.read_bytes(), name_of(path))
    except Damaged as error:
        complain(f"{path} or {EVALUATIONS} beside it is damaged ({error}): they are set aside, and made anew")
        for damaged in filter(Path.exists, (path, folder.path / EVALUATIONS)):
            set_aside(damaged)
        return None
    return Followed(Tracked(**content["tracked"]), Trajectories(**content["rare"]))


def _path(folder: ArmFolder) -> Path:
    return folder.path / FOLLOWED


def _rare(found: Evaluated) -> Trajectories:
    """The rarest of the correct completions, by their likelihood per token at the temperature of sampling."""
    prompts, completions, nll = list[list[int]](), list[list[int]](), list[float]()
    groups = found.groups
    for place, forms in enumerate(groups.solutions):
        prompt = groups.batch.prompts[place, : groups.batch.lengths[place]].tolist()
        for member in (member for member, form in enumerate(forms) if form is not None):
            mask = groups.sampled.mask[place, member]
            prompts.append(prompt)
            completions.append(groups.sampled.tokens[place, member][mask].tolist())
            nll.append(-float(groups.sampled.logp[place, member][mask].mean()))
    return rarest_trajectories(Trajectories(prompts, completions), np.array(nll)) if nll else Trajectories([], [])
