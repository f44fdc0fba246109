"""Answer the questions that people ask of a log, each in a sentence with its numbers, most important first."""

from collections.abc import Callable

from simlab.diagnose import prompts
from simlab.diagnose.against import does_it_learn
from simlab.diagnose.components import which_reward_leads
from simlab.diagnose.diagnosis import Diagnosis, Finding
from simlab.diagnose.diversity import do_rollouts_become_alike
from simlab.diagnose.interference import do_prompts_harm_one_another
from simlab.diagnose.lengths import are_lengths_a_bias
from simlab.diagnose.mismatch import do_sampler_and_trainer_agree
from simlab.diagnose.reading import Reading
from simlab.diagnose.signal import is_the_loss_broken, were_prompts_filtered
from simlab.diagnose.trainer_check import does_the_trainer_agree

# Each question returns None where the log does not tell, or where there is nothing to say.
QUESTIONS: tuple[Callable[[Reading, Diagnosis], Finding | None], ...] = (
    does_it_learn,
    prompts.how_hard,
    prompts.which_group_size,
    prompts.are_solutions_lost,
    prompts.would_more_rollouts_solve_more,
    prompts.who_is_heard,
    prompts.what_comes_next,
    prompts.would_a_weight_help,
    is_the_loss_broken,
    were_prompts_filtered,
    does_the_trainer_agree,
    which_reward_leads,
    are_lengths_a_bias,
    do_sampler_and_trainer_agree,
    do_rollouts_become_alike,
    do_prompts_harm_one_another,
)


def list_findings(reading: Reading, result: Diagnosis) -> list[Finding]:
    """Return the answers to all questions, those of the greatest concern first."""
    answers = (question(reading, result) for question in QUESTIONS)
    return sorted((answer for answer in answers if answer is not None), key=lambda answer: -answer.concern)
