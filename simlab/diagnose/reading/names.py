"""Names of columns by role, as trainers and evaluations write them, the most trusted first (docs/diagnose.md)."""

import functools
import re

ROLES: dict[str, str] = {
    "prompt": "prompt question problem query instruction input input_prompt prompt_text user_prompt raw_prompt prompts "
    "questions problems inputs queries prompt_str responses_create_params.input request.messages request.prompt "
    "prompt.messages prompt.text prompt.raw request prompt_tokens prompt_token_ids prompt_ids",
    "conversation": "messages conversation conversations content trajectory traj chat",
    "id": "prompt_id problem_id question_id example_id qid task_id doc_id item_id instance_id prompt_index prompt_idx "
    "problem_index problem_idx question_idx example_idx task_index ng_task_index unique_id prompt_hash doc_hash "
    "sample_id idx index id env_seed seed task_name",
    "group": "uid group_id group group_index group_idx group_uid prompt_uid rollout_group group_key request_id",
    "step": "step global_step global_steps training_step train_step trainer_step current_step iteration iter "
    "rollout_id update policy_version weight_version tail_version ckpt_step checkpoint checkpoint_step "
    "sampling_client_step epoch",
    "reward": "reward total_reward scalar_reward reward_total overall_reward combined_reward final_reward rewards "
    "reward.total reward.score reward.value score reward_score scores task_reward outcome_reward env_reward "
    "episode_reward seq_reward score.value return returns",
    "correct": "correct is_correct acc accuracy passed is_passed success is_success solved is_solved resolved "
    "exact_match correctness is_right right em pass plus_status base_status graded_list verdict is_accepted accepted "
    "result status outcome",
    "completion": "completion response output generation raw_completion completion_text response_text output_text "
    "generated_text model_output output_response response_tail completions responses outputs generations resps "
    "response.output_text response.output response.text text code solution_str sample samples prediction_text "
    "assistant response_tokens response_token_ids response_ids completion_ids output_ids",
    "answer": "pred extracted_prediction prediction predicted_answer extracted_answer extracted parsed_answer "
    "model_answer pred_answer "
    "pred_token filtered_resps final_answer answer_extracted solution answer",
    "length": "length completion_length response_length n_tokens num_tokens completion_tokens output_tokens "
    "num_output_tokens completion_len response_len gen_length gen_len generated_tokens token_count "
    "num_generated_tokens usage.completion_tokens usage.output_tokens response_tokens response_token_ids "
    "response_ids completion_ids",
    "truncated": "truncated is_truncated clipped overlong length_truncated hit_max_length hit_max_tokens finish_reason "
    "stop_reason finish_reasons incomplete_details.reason finish_reason.type status",
    "advantage": "advantage advantages adv",
    "log_probability": "log_probability logp logprob log_prob trainer_logprobs policy_logprobs prev_logprobs old_logp "
    "old_log_probs old_logprobs log_probs logprobs sum_logprob cumulative_logprob per_token_logps",
    "sampler_log_probability": "sampler_log_probability sampler_logp rollout_logp rollout_log_probs rollout_logprobs "
    "inference_logprobs generation_logprobs sampling_logprobs sampling_per_token_logps vllm_logprobs behavior_logp",
    "entropy": "entropy entropies mean_entropy token_entropy",
    "mask": "completion_mask response_mask loss_mask token_loss_mask token_mask",
    "task": "data_source task env_name env_id env_class environment dataset source domain category subject ability "
    "agent_ref.name task_name",
}  # fmt: skip
NAMES = {role: tuple(names.split()) for role, names in ROLES.items()}
TO_NAME = tuple(role for role in NAMES if role not in ("conversation", "id", "mask"))  # that a user may name
COMPLETION = {name for name in NAMES["completion"] if "." not in name}
UNSURE = {"result", "status", "outcome", "pass", "return", "returns", "right", "em"}
JUDGED = {name for role in ("reward", "correct") for name in NAMES[role] if "." not in name} - UNSURE
JUDGED_PARENT = {"metric", "reward", "rewards", "score", "scores", "metrics", "reward_components", "reward_breakdown",
                 "components", "reward_details", "subscores", "reward_metrics", "trajectory_metrics"}  # fmt: skip
RIGHT_ANSWER = (
    "target", "gold", "gts", "gt", "ground_truth", "answer", "label", "reference", "expected", "expected_answer",
)  # fmt: skip
ALIKE = {"prompt": re.compile("prompt|question|problem|query"),
         "completion": re.compile("completion|response|generation|output|prediction")}  # fmt: skip
NO_TEXT = re.compile(
    "type|format|hash|extract|id$|idx|index|len|token|mask|source|level|name|answer|"
    "reason|time|params|prob|reward|score|advantage"
)
ANY_ID = re.compile(
    r"^(?!.*(sample|rollout|generation|completion|response|run|request)).*(^|_)(id|idx|index|hash|key)$"
)
CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")
OF_REWARD = re.compile(r"^(rewards?|score)[_/]|[_/](rewards?|reward_func|score)$|^r_")
OF_VERDICT = re.compile(
    r"(^|[_/.])(correct|correctness|acc|accuracy|exact_match|extractive_match|solved|passed|is_correct|success)([_/.]|$)"
)
NO_REWARD = re.compile(
    r"(^|[_/])(mean|std|time|ms|len|length|tokens?|count|num|idx|index|id|kl|seed|entropy|weight|mask)([_/]|$)"
)
# Objects that no rollout made.
OF_TASK = {"doc", "task", "instance", "example", "env_extras", "config", "input", "args", "params"}
BESIDE = {"info", "metadata", "extra_info", "meta"}  # objects that are trusted less


@functools.lru_cache(10_000)
def leaf(path: str) -> str:
    """Return the last part of a column's path, as names are compared.

    >>> leaf("metrics.Is-Correct"), leaf("_ng_task_index"), leaf("MathAccuracy")
    ('is_correct', 'ng_task_index', 'math_accuracy')
    """
    return CAMEL.sub("_", path.rpartition(".")[2]).lower().replace("-", "_").strip("_ ")


def candidates(role: str, paths: list[str], *, alike: bool = False) -> list[str]:
    """Return the columns that may have a role, the most trusted first; of two of one name the less nested.

    With ``alike``, columns come last whose names only contain a word for prompts or completions.
    """
    names = {name: number for number, name in enumerate(NAMES[role])}
    ranked = []
    for path in paths:
        parts = path.replace("/", ".").split(".")
        above = parts[0].lower() if len(parts) > 1 else ""
        of_rollout = role in ("reward", "correct", "completion", "answer", "log_probability")
        if of_rollout and (not OF_TASK.isdisjoint(parts[:-1]) or (above in BESIDE and role == "answer")):
            continue
        if parts[0] in ("score", "scores") and parts[-1] == "value":  # of any scorer
            parts = ["score", "value"]
        ranks = [names[name] for name in (leaf(parts[-1]), ".".join(parts[-2:]).lower()) if name in names]
        if not ranks and alike and ALIKE[role].search(leaf(path)) and not NO_TEXT.search(leaf(path)):
            ranks = [len(names)]
        if ranks:
            ranked.append((min(ranks) + len(names) * (above in BESIDE), len(parts), path))
    return [path for _, _, path in sorted(ranked, key=lambda entry: entry[:2])]
